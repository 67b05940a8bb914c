"""Estimated cost of compiling a program, op by op, and the ceiling that it must stay below.

The tables were measured by programs of some hundred times one op after the other, at the default level on two cores of an
EPYC (`python bench/compile_cost.py`).  For the cpu an op stands for 32 lanes, and for what a CPU has no vector instructions for
LLVM writes out each.  What a program takes is between a tenth of its estimate and some times of it.  Of the kernels of this
package the most is estimated for a product of matrices, 4 s where the cpu runs the program for matrix units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ...ir.call_graph import call_order
from ...ir.diagnostics import Diagnostic, DiagnosticError
from ...ir.ops import OPS
from ...ir.program import Func, Op, Program
from ...ir.types import MAX_VECTOR_LANES, DataType
from ...records import dataclass
from .cost_ceiling import cost_ceiling

__all__ = [
    "GPU",
    "HOST",
    "CostTable",
    "check_compile_cost",
    "compile_cost",
    "inlined_costs",
]

LONG_VECTOR = 8
"""Elements from which on a vector is kept in memory."""

_FLOATS = ("float", "f16", "bf16")
_MATHS = [row.name for row in OPS.values() if row.ulp]


@dataclass(frozen=True)
class CostTable:
    """Costs in microseconds of one core.

    `plain`: of an element by its kind, where the op is not in `ops`; `int` is of 32 bits and fewer, `int64` of 64, `float` f32
    and f64.  `ops`: of an element, by the op and its kind.  `in_memory`: of an element of a long vector, beside that.
    `maths_lanes`: elements of a mathematical function that count; more are a loop.  `formats`: of an op beside its elements, by its format, such as an access or a loop.
    """

    plain: Mapping[str, int]
    ops: Mapping[str, Mapping[str, int]]
    in_memory: int
    maths_lanes: int
    formats: Mapping[str, int]

    def cost(self, op: Op) -> int:
        """The cost of an op without its blocks."""
        if op.definition.is_terminator or op.definition.format == "const":
            return 0
        values = op.results or op.operands[:1]
        dtype = values[0].type if values else DataType.U32
        lanes = dtype.lanes if dtype.is_vec else 1
        if op.definition.ulp:
            lanes = min(lanes, self.maths_lanes)
        kind = _kind(dtype)
        element = self.ops.get(op.name, self.plain).get(kind, self.plain[kind])
        if op.definition.format in ("load", "store"):
            element = self.plain["int"]  # moved, whatever it is
        elif lanes >= LONG_VECTOR:
            element += self.in_memory
        return self.formats.get(op.definition.format, 0) + lanes * element


HOST = CostTable(
    plain={"int": 100, "int64": 150, "float": 150, "f16": 500, "bf16": 4000},
    ops={
        "div": {"int": 4000, "int64": 6000},
        "rem": {"int": 4000, "int64": 6000, "float": 7000, "f16": 5000, "bf16": 8000},
        "mul": {"int": 500, "int64": 1500},
        "mul_hi": {"int": 500, "int64": 15000},
        "mul_sat": {"int64": 15000},
        **{name: {"int": 500, "int64": 1200} for name in ("shl", "shr", "rotl", "rotr")},
        "ctz": {"int64": 300},
        **{name: {"int64": 1000} for name in ("add_sat", "sub_sat", "abs_diff")},
        "fma": {"f16": 4000, "bf16": 10000},
        **{name: {"float": 1000, "f16": 1000, "bf16": 4000} for name in _MATHS},
        "exp2": dict.fromkeys(_FLOATS, 4000),
    },
    in_memory=300,
    maths_lanes=8,
    formats={
        **dict.fromkeys(("load", "store", "atomic"), 600),
        "barrier": 10000,
        "for": 6000,
        "while": 3000,
        "if": 700,
        "scan": 1500,
        "debug_print": 4500,
    },
)

GPU = CostTable(
    plain={"int": 100, "int64": 100, "float": 100, "f16": 100, "bf16": 300},
    ops={
        "div": {"int": 200, "int64": 300},
        "rem": {"int": 200, "int64": 300, "float": 450, "f16": 450, "bf16": 500},
        "mul_sat": {"int": 1000, "int64": 1500},
        "ctz": {"int": 4000, "int64": 4000},  # a branch each, in which code generation is quadratic
        "fma": {"f16": 1000, "bf16": 1000},
        **{name: dict.fromkeys(_FLOATS, 3000) for name in _MATHS},
        "pow": dict.fromkeys(_FLOATS, 6000),
    },
    in_memory=0,
    maths_lanes=MAX_VECTOR_LANES,
    formats={"load": 100, "store": 100, "atomic": 200, "for": 200, "while": 200, "matrix_mul_add": 1000},
)


def _kind(dtype: DataType) -> str:
    element = dtype.element
    if element.name in ("f16", "bf16"):
        return element.name
    if element.is_float:
        return "float"
    return "int64" if element.bits == 64 else "int"


def compile_cost(program: Program, funcs: Mapping[str, Func], table: CostTable) -> int:
    """The cost of a program with the functions that it calls."""
    return sum(cost for _, cost in inlined_costs(program, funcs, table.cost))


def inlined_costs(
    program: Program, funcs: Mapping[str, Func], cost_of: Callable[[Op], int]
) -> Iterator[tuple[Op, int]]:
    """The ops of a program in order, each with its own cost; a call costs as much as its function."""
    of_funcs: dict[str, int] = {}

    def cost(op: Op) -> int:
        return of_funcs[op.attrs["callee"]] if op.name == "call" else cost_of(op)

    for func in call_order(funcs)[0]:
        of_funcs[func.name] = sum(map(cost, func.walk()))
    for op in program.walk():
        yield op, cost(op)


def check_compile_cost(program: Program, funcs: Mapping[str, Func], table: CostTable) -> None:
    """Raises DiagnosticError, at the op that passes the ceiling, for a program that would cost more."""
    ceiling = cost_ceiling()
    if ceiling is None:
        return
    total, passing = 0, None
    for op, cost in inlined_costs(program, funcs, table.cost):
        total += cost
        if passing is None and total > ceiling * 1000:
            passing = op
    if passing is None:
        return
    milliseconds = -(-total // 1000)
    message = (
        f"program @{program.name} would take too long to compile: by estimate its ops cost {milliseconds} ms, and pass the "
        f"limit cost={ceiling} here"
    )
    help = (
        "do what repeats in a loop, use shorter vectors, or make several programs of it; "
        f"or allow it with --limits cost={milliseconds}, in Python limits=Limits(cost={milliseconds})"
    )
    raise DiagnosticError([Diagnostic("error", message, passing.loc, help=help)])
