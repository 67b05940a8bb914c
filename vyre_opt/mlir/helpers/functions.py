"""The mathematical functions, whose code math_functions has, node by node: every target computes the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ...ir.ops import OPS
from ...ir.types import DataType
from ...lowering.common.math_functions import INSTRUCTIONS
from ...math_functions.approximations import APPROXIMATIONS
from ...math_functions.expression import F32, F64, Format, Graph, Node
from ...math_functions.functions import approximation, graph
from ...records import dataclass
from ..code import Code
from ..helper_key import HelperKey
from ..spelling import constant

__all__ = ["FUNCTION_OPS", "PART", "function", "part"]

FUNCTION_OPS = frozenset(name for name, row in OPS.items() if row.ulp)

PART = "part"
"""The name of helpers for parts of functions that are rarely needed; the part is their word."""

_FORMATS = {"f32": F32, "f64": F64}


def function(code: Code, name: str, dtype: DataType, args: list[str], approximates: bool = False) -> str:
    """The function of f32 or f64 operands.  `approximates`: by its short form, if it has one."""
    is_short = approximates and dtype.name == "f32" and name in APPROXIMATIONS
    whole = approximation(name, True) if is_short else graph(name, _FORMATS[dtype.name])
    return _MlirGraphWriter(code, dtype).write(whole, args)


def part(code: Code, key: HelperKey, args: list[str]) -> str:
    """The body of the helper of a part."""
    dtype = key.types[0]
    return _MlirGraphWriter(code, dtype).write(
        graph(key.modifiers[0].replace("_", "."), _FORMATS[dtype.name]), args
    )


@dataclass(slots=True)
class _MlirGraphWriter:
    """Writes the nodes of graphs."""

    code: Code
    dtype: DataType
    format: Format = field(init=False)
    kind: str = field(init=False)
    ints: str = field(init=False)

    def __post_init__(self) -> None:
        self.format = _FORMATS[self.dtype.name]
        self.kind, self.ints = self.dtype.name, f"i{self.format.bits}"

    def write(self, whole: Graph, operands: list[str]) -> str:
        """The result of a graph on these operands."""
        names: dict[Node, str] = {}
        for node in whole.nodes:
            if node.opcode == "param":
                names[node] = operands[int(node.payload)]
                continue
            values = [names[operand] for operand in node.operands]
            template = _TEMPLATES.get(node.opcode)
            if template is not None:
                names[node] = self.code.emit(template.format(*values, f=self.kind, i=self.ints))
            else:
                names[node] = _RULES[node.opcode](self, node, *values)
        return names[whole.result]

    def integer(self, value: int) -> str:
        return self.code.integer(value, self.ints)

    def real(self, bits: int) -> str:
        return self.code.literal(constant(bits, self.dtype), self.kind)

    def instruction(self, node: Node, *operands: str) -> str:
        kinds = ", ".join([self.kind] * len(operands))
        name = INSTRUCTIONS[str(node.payload)]
        return self.code.emit(
            f'llvm.call_intrinsic "{name}"({", ".join(operands)}) : ({kinds}) -> {self.kind}'
        )

    def multiply_high(self, a: str, b: str) -> str:
        code, bits = self.code, self.format.bits
        wide = f"i{2 * bits}"
        x, y = (code.convert("arith.extui", self.ints, wide, value) for value in (a, b))
        high = code.op("arith.shrui", wide, code.op("arith.muli", wide, x, y), code.literal(str(bits), wide))
        return code.convert("arith.trunci", wide, self.ints, high)

    def scale(self, value: str, total: str) -> str:
        """Scale as the lowering does: value * 2^(total - `Format.integral`) by two factors."""
        code, format, ints = self.code, self.format, self.ints
        whole = code.convert("arith.bitcast", self.kind, ints, total)
        half = code.op("arith.shrui", ints, whole, self.integer(1))
        for piece in (half, code.op("arith.subi", ints, whole, half)):
            shifted = code.op("arith.shli", ints, piece, self.integer(format.fraction_bits))
            power_bits = code.op("arith.addi", ints, shifted, self.integer(format.encode(1.0)))
            power = code.convert("arith.bitcast", ints, self.kind, power_bits)
            value = code.op("arith.mulf", self.kind, value, power)
        return value

    def rarely(self, node: Node, condition: str, usual: str, *arguments: str) -> str:
        """A call of the part where the condition holds."""
        code = self.code
        name = code.fresh()
        code.open(f"{name} = scf.if {condition} -> ({self.kind})")
        key = HelperKey(PART, (str(node.payload).replace(".", "_"),), (self.dtype,) * len(arguments))
        result = code.call(key, [(argument, self.kind) for argument in arguments], self.kind)
        code.line(f"scf.yield {result} : {self.kind}")
        code.next_region("else")
        code.line(f"scf.yield {usual} : {self.kind}")
        code.close()
        return name


_TEMPLATES = {
    "add": "arith.addf {0}, {1} : {f}",
    "sub": "arith.subf {0}, {1} : {f}",
    "mul": "arith.mulf {0}, {1} : {f}",
    "div": "arith.divf {0}, {1} : {f}",
    "neg": "arith.negf {0} : {f}",
    "fma": "math.fma {0}, {1}, {2} : {f}",
    "bits": "arith.bitcast {0} : {f} to {i}",
    "real": "arith.bitcast {0} : {i} to {f}",
    "iadd": "arith.addi {0}, {1} : {i}",
    "isub": "arith.subi {0}, {1} : {i}",
    "imul": "arith.muli {0}, {1} : {i}",
    "and": "arith.andi {0}, {1} : {i}",
    "or": "arith.ori {0}, {1} : {i}",
    "xor": "arith.xori {0}, {1} : {i}",
    "shl": "arith.shli {0}, {1} : {i}",
    "lshr": "arith.shrui {0}, {1} : {i}",
    "ashr": "arith.shrsi {0}, {1} : {i}",
    "lt": "arith.cmpf olt, {0}, {1} : {f}",
    "le": "arith.cmpf ole, {0}, {1} : {f}",
    "eq": "arith.cmpf oeq, {0}, {1} : {f}",
    "unordered": "arith.cmpf uno, {0}, {1} : {f}",
    "ult": "arith.cmpi ult, {0}, {1} : {i}",
    "fand": "arith.andi {0}, {1} : i1",
    "for": "arith.ori {0}, {1} : i1",
    "select": "arith.select {0}, {1}, {2} : {f}",
    "iselect": "arith.select {0}, {1}, {2} : {i}",
}
"""Nodes that are one op: {f} is the type of floats, {i} of integers."""

_RULES: dict[str, Callable[..., str]] = {
    "const": lambda body, node: body.real(int(node.payload)),
    "iconst": lambda body, node: body.integer(int(node.payload)),
    "abs": lambda body, node, a: body.code.intrinsic("llvm.fabs", body.kind, a),
    "sqrt": lambda body, node, a: body.code.intrinsic("llvm.sqrt", body.kind, a),
    "trunc": lambda body, node, a: body.code.intrinsic("llvm.trunc", body.kind, a),
    "copysign": lambda body, node, a, b: body.code.intrinsic("llvm.copysign", body.kind, a, b),
    "mul_hi": lambda body, node, a, b: body.multiply_high(a, b),
    "fnot": lambda body, node, a: body.code.op("arith.xori", "i1", a, body.code.literal("true", "i1")),
    "scale": lambda body, node, a, total: body.scale(a, total),
    "instruction": _MlirGraphWriter.instruction,
    "rarely": _MlirGraphWriter.rarely,
}
