"""Kernels as other tools and people write them: what they compute, and what is said of those that are not read."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import DiagnosticError, Program, Source
from vyre_opt.ir.verifier import check
from vyre_opt.mlir.read import read_mlir

pytest.importorskip("xdsl")


def kernel(body: str, arguments: str = "%x: memref<?xi32>", size: str = "64, 1, 1") -> str:
    head = f"gpu.func @k({arguments}) kernel attributes {{known_block_size = array<i32: {size}>}}"
    return f"gpu.module @m {{\n{head} {{\n{body}\ngpu.return\n}}\n}}\n"


def program_of(text: str) -> Program:
    module = read_mlir(Source(text, "kernel.mlir"))
    check(module)
    (program,) = module.programs.values()
    return program


VECADD = """// A launch of constants tells the size of a workgroup.
module attributes {gpu.container_module} {
  func.func @host(%n: index, %a: memref<?xf32>) {
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    gpu.launch_func @kernels::@vecadd blocks in (%n, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%a : memref<?xf32>, %a : memref<?xf32>, %a : memref<?xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @vecadd(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) kernel {
      %bid = gpu.block_id x
      %bdim = gpu.block_dim x
      %tid = gpu.thread_id x
      %base = arith.muli %bid, %bdim : index
      %i = arith.addi %base, %tid : index
      %c0 = arith.constant 0 : index
      %n = memref.dim %a, %c0 : memref<?xf32>
      %in = arith.cmpi slt, %i, %n : index
      scf.if %in {
        %x = memref.load %a[%i] : memref<?xf32>
        %y = memref.load %b[%i] : memref<?xf32>
        %s = arith.addf %x, %y : f32
        memref.store %s, %c[%i] : memref<?xf32>
      }
      gpu.return
    }
  }
}
"""


def test_vecadd() -> None:
    program = program_of(VECADD)
    assert program.workgroup == (256, 1, 1)
    assert [(b.name, str(b.access), b.binding) for b in program.bound_buffers] == [
        ("a", "read", 0), ("b", "read", 1), ("c", "write", 2),
    ]  # fmt: skip
    # block_id * block_dim + thread_id is what analyses know
    assert [op.name for op in program.walk()][:3] == ["global_id", "len", "lt"]
    rng = np.random.default_rng(1)
    a, b = (rng.random(500, np.float32) for _ in range(2))
    (c,) = dispatcher("ref").dispatch(program, [a, b, np.zeros(500, np.float32)], (2, 1, 1))
    assert np.array_equal(c, a + b)


MATMUL = """gpu.module @m {
  gpu.func @matmul(%A: memref<32x32xi32>, %B: memref<32x32xi32>, %C: memref<32x32xi32>)
      workgroup(%ta : memref<8x8xi32, #gpu.address_space<workgroup>>, %tb : memref<8x8xi32, 3>)
      kernel attributes {gpu.known_block_size = array<i32: 8, 8, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0 : i32
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %col = gpu.global_id x
    %row = gpu.global_id y
    %sum = scf.for %t = %c0 to %c32 step %c8 iter_args(%acc = %zero) -> (i32) {
      %ac = arith.addi %t, %tx : index
      %br = arith.addi %t, %ty : index
      %a = memref.load %A[%row, %ac] : memref<32x32xi32>
      %b = memref.load %B[%br, %col] : memref<32x32xi32>
      memref.store %a, %ta[%ty, %tx] : memref<8x8xi32, #gpu.address_space<workgroup>>
      memref.store %b, %tb[%ty, %tx] : memref<8x8xi32, 3>
      BARRIER
      %part = scf.for %k = %c0 to %c8 step %c1 iter_args(%p = %acc) -> (i32) {
        %x = memref.load %ta[%ty, %k] : memref<8x8xi32, #gpu.address_space<workgroup>>
        %y = memref.load %tb[%k, %tx] : memref<8x8xi32, 3>
        %xy = arith.muli %x, %y : i32
        %m = arith.addi %p, %xy : i32
        scf.yield %m : i32
      }
      gpu.barrier
      scf.yield %part : i32
    }
    memref.store %sum, %C[%row, %col] : memref<32x32xi32>
    gpu.return
  }
}
"""


def test_matmul_by_way_of_workgroup_memory() -> None:
    program = program_of(MATMUL.replace("BARRIER", "gpu.barrier"))
    a, b = (np.random.default_rng(n).integers(-9, 9, (32, 32), np.int32) for n in range(2))
    for target in ("ref", "cpu"):
        (c,) = dispatcher(target).dispatch(program, [a, b, np.zeros((32, 32), np.int32)], (4, 4, 1))
        assert np.array_equal(c, a @ b)


def test_a_race_is_found() -> None:
    """Without its first barrier the kernel reads tiles that others are still writing."""
    program = program_of(MATMUL.replace("BARRIER", ""))
    arrays = [np.ones((32, 32), np.int32) for _ in range(3)]
    with pytest.raises(ProgramError, match="race"):
        dispatcher("ref").dispatch(program, arrays, (4, 4, 1))


COLLATZ = """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c2 = arith.constant 2 : i32
    %c3 = arith.constant 3 : i32
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %limit : index
    scf.if %in {
      %v = memref.load %x[%i] : memref<?xi32>
      %r, %s = scf.while (%a = %v, %k = %c0) : (i32, i32) -> (i32, i32) {
        %more = arith.cmpi sgt, %a, %n : i32
        %k1 = arith.addi %k, %c1 : i32
        scf.condition(%more) %a, %k1 : i32, i32
      } do {
      ^bb0(%a: i32, %k: i32):
        %odd = arith.andi %a, %c1 : i32
        %is = arith.cmpi eq, %odd, %c1 : i32
        %next = scf.if %is -> (i32) {
          %m = arith.muli %a, %c3 : i32
          %m1 = arith.addi %m, %c1 : i32
          scf.yield %m1 : i32
        } else {
          %h = arith.divui %a, %c2 : i32
          scf.yield %h : i32
        }
        scf.yield %next, %k : i32, i32
      }
      memref.store %s, %x[%i] : memref<?xi32>
    }
"""


def collatz(x: int) -> int:
    rounds = 1
    while x > 1:
        x = 3 * x + 1 if x % 2 else x // 2
        rounds += 1
    return rounds


def test_a_while_that_hands_on_other_values_than_it_takes() -> None:
    program = program_of(kernel(COLLATZ, "%x: memref<?xi32>, %n: i32, %limit: index"))
    assert program.buffers["x"].live_in
    assert program.buffers["x"].live_out
    x = np.arange(1, 101, dtype=np.int32)
    (out,) = dispatcher("ref").dispatch(program, [x], (2, 1, 1), params={"n": 1, "limit": 100})
    assert out.tolist() == [collatz(int(v)) for v in x]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%r = arith.floordivsi %a, %b : i32", lambda a, b: a // b),
        ("%r = arith.ceildivsi %a, %b : i32", lambda a, b: -(-a // b)),
        ("%r = arith.ceildivui %a, %b : i32", lambda a, b: -(-(a % 2**32) // (b % 2**32))),
        ("%r = arith.divui %a, %b : i32", lambda a, b: (a % 2**32) // (b % 2**32)),
        ("%r = arith.shrui %a, %b : i32", lambda a, b: (a % 2**32) >> (b % 32)),
        ("%r = arith.shrsi %a, %b : i32", lambda a, b: a >> (b % 32)),
        ("%r = arith.maxui %a, %b : i32", lambda a, b: max(a % 2**32, b % 2**32)),
        ("%p = arith.cmpi ugt, %a, %b : i32\n%r = arith.extsi %p : i1 to i32",
         lambda a, b: -int(a % 2**32 > b % 2**32)),
        ("%w = arith.extui %a : i32 to i64\n%s = arith.constant 4 : i64\n%t = arith.shrui %w, %s : i64\n"
         "%r = arith.trunci %t : i64 to i32", lambda a, b: (a % 2**32) >> 4),
        ("%t = arith.trunci %a : i32 to i1\n%r = arith.select %t, %a, %b : i32", lambda a, b: a if a % 2 else b),
        ("%n = arith.index_cast %a : i32 to index\n%j = arith.addi %n, %n : index\n"
         "%r = arith.index_cast %j : index to i32", lambda a, b: 2 * a),
    ],
)  # fmt: skip
def test_integer_ops(body: str, expected) -> None:
    """Each op has its own sign, whatever its operands had before."""
    text = kernel(
        f"""%i = gpu.thread_id x
        %a = memref.load %x[%i] : memref<64xi32>
        %b = memref.load %y[%i] : memref<64xi32>
        {body}
        memref.store %r, %z[%i] : memref<64xi32>""",
        "%x: memref<64xi32>, %y: memref<64xi32>, %z: memref<64xi32>",
    )
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2))
    b[::3] = rng.integers(1, 31, len(b[::3]))
    (z,) = dispatcher("ref").dispatch(program_of(text), [a, b, np.zeros(64, np.int32)], (1, 1, 1))
    wanted = [expected(int(x), int(y)) % 2**32 for x, y in zip(a, b, strict=True)]
    assert z.view(np.uint32).tolist() == wanted


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("arith.minimumf %a, %b : f32", [(1, 2, 1), (NAN, 2, NAN), (2, NAN, NAN), (0.0, -0.0, -0.0)]),
        ("arith.maxnumf %a, %b : f32", [(1, 2, 2), (NAN, 2, 2), (2, NAN, 2)]),
        ("math.copysign %a, %b : f32", [(1, -2, -1), (-3, 0.0, 3), (INF, -0.0, -INF)]),
        ("math.absf %a : f32", [(-1, 0, 1), (-INF, 0, INF)]),
        ("math.sqrt %a : f32", [(4, 0, 2), (2, 0, np.sqrt(np.float32(2)))]),
    ],
)
def test_float_ops(body: str, rows: list[tuple[float, float, float]]) -> None:
    text = kernel(
        f"""%i = gpu.thread_id x
        %a = memref.load %x[%i] : memref<64xf32>
        %b = memref.load %y[%i] : memref<64xf32>
        %r = {body}
        memref.store %r, %z[%i] : memref<64xf32>""",
        "%x: memref<64xf32>, %y: memref<64xf32>, %z: memref<64xf32>",
    )
    columns = [np.resize(np.array(column, np.float32), 64) for column in zip(*rows, strict=True)]
    program = program_of(text)
    (z,) = dispatcher("ref").dispatch(program, [*columns[:2], np.zeros(64, np.float32)], (1, 1, 1))
    assert np.array_equal(z, columns[2], equal_nan=True)
    assert np.array_equal(np.signbit(z[~np.isnan(z)]), np.signbit(columns[2][~np.isnan(z)]))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("ult", lambda a, b: not a >= b), ("ueq", lambda a, b: not (a < b or a > b)), ("one", lambda a, b: a < b or a > b),
     ("uno", lambda a, b: a != a or b != b), ("ord", lambda a, b: a == a and b == b), ("ole", lambda a, b: a <= b),
     ("une", lambda a, b: a != b), ("true", lambda a, b: True)],
)  # fmt: skip
def test_float_comparisons(predicate: str, expected) -> None:
    text = kernel(
        f"""%i = gpu.thread_id x
        %a = memref.load %x[%i] : memref<64xf64>
        %b = memref.load %y[%i] : memref<64xf64>
        %r = arith.cmpf {predicate}, %a, %b : f64
        memref.store %r, %z[%i] : memref<64xi1>""",
        "%x: memref<64xf64>, %y: memref<64xf64>, %z: memref<64xi1>",
    )
    values = [1.0, 2.0, NAN, INF, -0.0, 0.0, -INF, 3.0]
    a, b = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    (z,) = dispatcher("ref").dispatch(program_of(text), [a, b, np.zeros(64, bool)], (1, 1, 1))
    assert z.tolist() == [bool(expected(float(x), float(y))) for x, y in zip(a, b, strict=True)]


STORE = (
    "%i = gpu.thread_id x\n%v = memref.load %x[%i] : memref<?xi32>\nmemref.store %v, %x[%i] : memref<?xi32>"
)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (kernel("%m = memref.alloca() : memref<4xi32>"), 3, "memref.alloca is not an op that this reads"),
        (kernel('%m = "some.op"() : () -> i32'), 3, "some.op is not an op that this reads"),
        (kernel("%v = some.op : i32"), 3, "some.op is not an op that this reads"),
        (kernel("affine.for %i = 0 to 4 {\n}"), 3, "affine.for is not an op that this reads"),
        (kernel("%c = arith.constant 1 : i20"), 3, "values of the type i20 are not read"),
        (kernel("%c = arith.addi %x, %x : i32"), 3, "previously used or defined with type"),
        (kernel("%c = arith.constant"), 4, "error"),
        (kernel("", "%x: memref<*xf32>"), 2, "memref"),
        (kernel("", "%x: memref<?xf32, strided<[4]>>"), 2, "strided"),
        (kernel("", "%x: memref<1x2x3x4xf32>"), 2, "a buffer has 1 to 3 dimensions"),
        (kernel("func.call @f() : () -> ()"), 3, "@f is called, and is no function of this gpu.module"),
        (
            kernel(STORE).replace("known_block_size", "unknown"),
            2,
            "the size of a workgroup of @k is not known",
        ),
        (kernel("%i = gpu.thread_id x\n%b = arith.cmpi slt, %x, %i : index"), 4, "memref"),
        ("module {\n}\n", 1, "there is no kernel here"),
        ("gpu.module @m {", 1, "error"),
        ("", 1, "error"),
    ],
)
def test_what_is_not_read_is_said_at_its_place(text: str, line: int, message: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        read_mlir(Source(text, "kernel.mlir"))
    said = str(raised.value)
    assert message in said
    assert raised.value.diagnostics[0].loc is not None
    assert raised.value.diagnostics[0].loc.line == line, said


def test_several_errors_are_said_at_once() -> None:
    """What uses the result of a refused op is not an error of its own."""
    text = kernel(
        "%a = memref.alloca() : memref<4xi32>\n%i = gpu.thread_id x\n"
        "%v = memref.load %a[%i] : memref<4xi32>\n%b = memref.alloca() : memref<4xi32>"
    )
    with pytest.raises(DiagnosticError) as raised:
        read_mlir(Source(text, "kernel.mlir"))
    assert [d.loc.line for d in raised.value.diagnostics if d.loc] == [3, 6]
