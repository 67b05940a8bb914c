"""Whether the PTX that mlir-opt makes of our MLIR computes the same bits as our own PTX, on a GPU.

The machine with mlir-opt and the one with the GPU need not be the same:

    PYTHONPATH=test python -m support.mlir_device FOLDER --random 500 --pipelines    with mlir-opt-19
    python test/support/mlir_device/run.py FOLDER                                     with a GPU

The first writes both PTX texts of each program and its inputs into FOLDER.  A pipeline is run program by program, in
its order, over the same buffers on both sides.  The second needs the GPU's driver and NumPy, nothing else, not even this
project.
"""
