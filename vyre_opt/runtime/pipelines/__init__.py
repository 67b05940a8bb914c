"""Pipelines, run: one planner, and a runner for each target.

    entry       a pipeline as a function of arrays
    plan        lengths known: kernels expanded, grids worked out, everything checked
    host        runs a plan on NumPy arrays: ref and cpu
    watch       who sees host reads, and the time of launches

`vyre_opt.cuda.pipeline` runs a plan on a GPU.
"""
