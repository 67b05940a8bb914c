"""Products of matrices on the CPU: the function of a shape, run on this machine as for registers of any size."""

from __future__ import annotations

import ctypes
from itertools import product

import numpy as np
import pytest

from vyre_opt.lowering.host.matrices import product_function

SHAPES = [(16, 8, 8), (16, 32, 8), (32, 16, 16), (16, 16, 64), (128, 16, 8)]
KINDS = {"i32": np.int32, "float": np.float32}


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_product_for_registers_of_any_size(lanes: int) -> None:
    """With 16 lanes and 8 columns a register holds two rows of b, and sums of even and odd depths."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cases = list(product(SHAPES, KINDS))
    texts = [
        product_function(f"f{number}", *shape, kind, lanes).replace("define internal", "define")
        for number, (shape, kind) in enumerate(cases)
    ]
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(texts)), machine)
    engine.finalize_object()
    draw = np.random.default_rng(lanes)
    for number, ((rows, depth, columns), kind) in enumerate(cases):
        a, b, c = (
            draw.integers(-9, 10, size).astype(KINDS[kind])
            for size in ((rows, depth), (depth, columns), (rows, columns))
        )
        expected = c + a @ b
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(engine.get_function_address(f"f{number}"))
        function(c.ctypes.data, a.ctypes.data, b.ctypes.data)
        np.testing.assert_array_equal(c, expected, f"{rows}x{depth}x{columns} of {kind}")
