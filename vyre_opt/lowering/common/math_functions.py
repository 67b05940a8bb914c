"""The functions of vyre_opt/math_functions as LLVM text, for float and double: a rule for each kind of node.

On the host a long function is one of the module, of as many lanes as two registers hold, so that their chains of
operations overlap; it is called for each such part of a longer vector.  On nvptx the nodes are written in place, but for what is rarely needed: that is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ...math_functions.approximations import APPROXIMATIONS
from ...math_functions.expression import F32, F64, Format, Graph, Node
from ...math_functions.functions import approximation, graph
from ...records import dataclass
from .lane_shape import LaneShape, float_literal
from .llvm_text import Writer

__all__ = ["INSTRUCTIONS", "apply", "is_approximated"]

_IN_PLACE = frozenset({"exp2", "rcp", "rsqrt", "sqrt", "div"})
"""Functions so short that they are written where they are used, on the host too."""

_FORMATS = {"float": F32, "double": F64}

_SCALEF_LANES = 16
"""Floats that AVX-512 scales by powers of two with one instruction (VSCALEFPS)."""

_CURRENT_ROUNDING = "4"
"""Operand of that instruction for the current rounding mode."""

INSTRUCTIONS = {
    "exp2": "llvm.nvvm.ex2.approx.ftz.f",
    "rcp": "llvm.nvvm.rcp.approx.ftz.f",
    "rsqrt": "llvm.nvvm.rsqrt.approx.f",
    "sqrt": "llvm.nvvm.sqrt.approx.f",
    "div": "llvm.nvvm.div.full",
}
"""The instructions of a GPU for functions of f32 (see `Real.instruction`).  The first two take subnormals for zero."""


def is_approximated(name: str, element: str, flags: Sequence[str]) -> bool:
    """Whether an op with these fastmath flags, which computes in the LLVM type `element`, has its short form."""
    return "afn" in flags and element == "float" and name in APPROXIMATIONS


def apply(
    w: Writer,
    shape: LaneShape,
    name: str,
    element: str,
    operands: Sequence[str],
    target: str,
    approximates: bool = False,
) -> str:
    """The function `name` of operands in a shape of the LLVM type `element`, float or double.

    `approximates`: by the short form.
    """
    symbol = f"{name}.short" if approximates else name
    code = approximation(name, target == "nvptx") if approximates else graph(name, _FORMATS[element])
    if target == "nvptx" or name in _IN_PLACE:
        return _GraphWriter(w, shape, element, target).write(code, operands)
    lanes = (1024 if target == "avx512" else 512) // _FORMATS[element].bits
    if shape.lanes <= lanes or shape.lanes % lanes:
        return _call(w, shape, element, target, symbol, code, operands)
    piece = LaneShape(lanes)
    columns = zip(*(_split(w, shape, element, operand, lanes) for operand in operands), strict=True)
    return _join(
        w, piece, element, [_call(w, piece, element, target, symbol, code, column) for column in columns]
    )


def _call(
    w: Writer, shape: LaneShape, element: str, target: str, name: str, code: Graph, operands: Sequence[str]
) -> str:
    """A call of the function for one shape, which is defined on first use."""
    symbol, kind = f"vyre.{name}.{shape.suffix(element)}", shape.of(element)
    if not w.module.defines(symbol):
        body = Writer(w.module)
        params = [f"%p{number}" for number in range(len(code.params))]
        result = _GraphWriter(body, shape, element, target).write(code, params)
        head = f"define internal {kind} @{symbol}({', '.join(f'{kind} {param}' for param in params)})"
        lines = [f"{head} noinline nounwind {{", "entry:", *body.lines, f"  ret {kind} {result}", "}"]
        w.module.define(symbol, "\n".join(lines))
    return w.emit(f"call {kind} @{symbol}({', '.join(f'{kind} {operand}' for operand in operands)})")


def _shuffled(w: Writer, kind: str, a: str, b: str, lanes: range) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return w.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>")


def _split(w: Writer, shape: LaneShape, element: str, value: str, lanes: int) -> list[str]:
    """A vector in pieces of so many lanes."""
    starts, kind = range(0, shape.lanes, lanes), shape.of(element)
    return [_shuffled(w, kind, value, "poison", range(start, start + lanes)) for start in starts]


def _join(w: Writer, piece: LaneShape, element: str, pieces: Sequence[str]) -> str:
    """The vector of such pieces, whose number is a power of two."""
    lanes = piece.lanes
    while len(pieces) > 1:
        kind = LaneShape(lanes).of(element)
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [_shuffled(w, kind, a, b, range(2 * lanes)) for a, b in pairs]
        lanes *= 2
    return pieces[0]


@dataclass(slots=True)
class _GraphWriter:
    """Writes the nodes of graphs in one shape."""

    w: Writer
    shape: LaneShape
    element: str
    target: str
    format: Format = field(init=False)
    kind: str = field(init=False)
    ints: str = field(init=False)
    flags: str = field(init=False)

    def __post_init__(self) -> None:
        self.format = _FORMATS[self.element]
        self.kind, self.ints = self.shape.of(self.element), self.shape.of(f"i{self.format.bits}")
        self.flags = self.shape.of("i1")

    def write(self, code: Graph, operands: Sequence[str]) -> str:
        """The result of a graph on these operands."""
        names: dict[Node, str] = {}
        for node in code.nodes:
            if node.opcode == "param":
                names[node] = operands[int(node.payload)]
                continue
            values = [names[operand] for operand in node.operands]
            bound = _bound(node) if self.target == "nvptx" else None
            if bound is not None:
                stem, *numbers = bound
                names[node] = self.intrinsic(stem, *(names[number] for number in numbers))
                continue
            template = _TEMPLATES.get(node.opcode)
            if template is not None:
                text = template.format(*values, f=self.kind, i=self.ints, b=self.flags)
                names[node] = self.w.emit(text)
            else:
                names[node] = _RULES[node.opcode](self, node, *values)
        return names[code.result]

    def integer(self, value: int) -> str:
        return self.shape.integer(f"i{self.format.bits}", value)

    def const(self, node: Node) -> str:
        return self.shape.splat(self.element, float_literal(self.format.decode(int(node.payload))))

    def intrinsic(self, stem: str, *operands: str) -> str:
        name = f"llvm.{stem}.{self.shape.suffix(self.element)}"
        return self.w.call(name, self.kind, [(self.kind, operand) for operand in operands])

    def instruction(self, node: Node, *operands: str) -> str:
        return self.w.call(INSTRUCTIONS[str(node.payload)], self.kind, [(self.kind, a) for a in operands])

    def multiply_high(self, a: str, b: str) -> str:
        bits = self.format.bits
        wide = self.shape.of(f"i{2 * bits}")
        x, y = (self.w.emit(f"zext {self.ints} {value} to {wide}") for value in (a, b))
        product = self.w.emit(f"mul {wide} {x}, {y}")
        high = self.w.emit(f"lshr {wide} {product}, {self.shape.integer(f'i{2 * bits}', bits)}")
        return self.w.emit(f"trunc {wide} {high} to {self.ints}")

    def scale(self, value: str, total: str) -> str:
        """value * 2^(total - `Format.integral`) by two factors, so that subnormal results are rounded once.

        The lowest bits of `Format.integral`, and of half of it, are zero, so the shifts drop it.
        """
        if self.target == "avx512" and self.format is F32 and self.shape.lanes % _SCALEF_LANES == 0:
            integral = self.shape.splat(self.element, float_literal(self.format.integral))
            return self.scale_at_once(value, self.w.emit(f"fsub {self.kind} {total}, {integral}"))
        w, format = self.w, self.format
        whole = w.emit(f"bitcast {self.kind} {total} to {self.ints}")
        half = w.emit(f"lshr {self.ints} {whole}, {self.integer(1)}")
        for piece in (half, w.emit(f"sub {self.ints} {whole}, {half}")):
            shifted = w.emit(f"shl {self.ints} {piece}, {self.integer(format.fraction_bits)}")
            power_bits = w.emit(f"add {self.ints} {shifted}, {self.integer(format.encode(1.0))}")
            power = w.emit(f"bitcast {self.ints} {power_bits} to {self.kind}")
            value = w.emit(f"fmul {self.kind} {value}, {power}")
        return value

    def scale_at_once(self, value: str, exponent: str) -> str:
        """value * 2^exponent by VSCALEFPS, in pieces of 16 lanes."""
        piece = LaneShape(_SCALEF_LANES)
        kind = piece.of("float")
        columns = [_split(self.w, self.shape, "float", x, _SCALEF_LANES) for x in (value, exponent)]
        tail = [(kind, "zeroinitializer"), ("i16", "-1"), ("i32", _CURRENT_ROUNDING)]
        pieces = [
            self.w.call("llvm.x86.avx512.mask.scalef.ps.512", kind, [(kind, a), (kind, b), *tail])
            for a, b in zip(*columns, strict=True)
        ]
        return _join(self.w, piece, "float", pieces)

    def rarely(self, node: Node, condition: str, usual: str, *arguments: str) -> str:
        """A branch around the call, unless no lane needs it."""
        w, any_lane = self.w, condition
        if self.shape.lanes > 1:
            lanes = f"i{self.shape.lanes}"
            any_lane = w.emit(f"icmp ne {lanes} {w.emit(f'bitcast {self.flags} {condition} to {lanes}')}, 0")
        before, rare, end = w.block, w.label("rare"), w.label("usual")
        w.branch_if(any_lane, rare, end)
        w.start(rare)
        name = str(node.payload)
        result = _call(w, self.shape, self.element, self.target, name, graph(name, self.format), arguments)
        selected = w.emit(f"select {self.flags} {condition}, {self.kind} {result}, {self.kind} {usual}")
        w.fall_into(end)
        return w.phi(self.kind, [(usual, before), (selected, rare)])


def _bound(node: Node) -> tuple[str, Node, Node] | None:
    """A selection by comparison with a constant as a minimum or maximum, which is one instruction of a GPU: stem of the intrinsic, and
    its operands.  The x86 backend sees it by itself.

        c < x ? c : x    minimum(x, c)       a NaN stays         c < x ? x : c    maximumnum(x, c)    a NaN becomes c
        x < c ? c : x    maximum(x, c)                           x < c ? x : c    minimumnum(x, c)
    """
    condition = node.operands[0] if node.opcode == "select" else None
    if condition is None or condition.opcode != "lt" or {*condition.operands} != {*node.operands[1:]}:
        return None
    constants = [each for each in condition.operands if each.opcode == "const"]
    if len(constants) != 1 or int(constants[0].payload) in (0, 1 << condition.graph.format.bits - 1):
        return None  # zeros of both signs are equal, but no minimum takes either
    (low, high), selected = condition.operands, node.operands[1]
    stem = "minimum" if selected is low else "maximum"
    if selected is not constants[0]:
        stem += "num"
    return stem, low, high


_TEMPLATES = {
    "add": "fadd {f} {0}, {1}",
    "sub": "fsub {f} {0}, {1}",
    "mul": "fmul {f} {0}, {1}",
    "div": "fdiv {f} {0}, {1}",
    "neg": "fneg {f} {0}",
    "bits": "bitcast {f} {0} to {i}",
    "real": "bitcast {i} {0} to {f}",
    "iadd": "add {i} {0}, {1}",
    "isub": "sub {i} {0}, {1}",
    "imul": "mul {i} {0}, {1}",
    "and": "and {i} {0}, {1}",
    "or": "or {i} {0}, {1}",
    "xor": "xor {i} {0}, {1}",
    "shl": "shl {i} {0}, {1}",
    "lshr": "lshr {i} {0}, {1}",
    "ashr": "ashr {i} {0}, {1}",
    "lt": "fcmp olt {f} {0}, {1}",
    "le": "fcmp ole {f} {0}, {1}",
    "eq": "fcmp oeq {f} {0}, {1}",
    "unordered": "fcmp uno {f} {0}, {1}",
    "ult": "icmp ult {i} {0}, {1}",
    "fand": "and {b} {0}, {1}",
    "for": "or {b} {0}, {1}",
    "select": "select {b} {0}, {f} {1}, {f} {2}",
    "iselect": "select {b} {0}, {i} {1}, {i} {2}",
}
"""Nodes that are one instruction: {f} is the type of floats, {i} of integers, {b} of flags."""

_RULES: dict[str, Callable[..., str]] = {
    "const": _GraphWriter.const,
    "iconst": lambda body, node: body.integer(int(node.payload)),
    "abs": lambda body, node, a: body.intrinsic("fabs", a),
    "sqrt": lambda body, node, a: body.intrinsic("sqrt", a),
    "trunc": lambda body, node, a: body.intrinsic("trunc", a),
    "copysign": lambda body, node, a, b: body.intrinsic("copysign", a, b),
    "fma": lambda body, node, a, b, c: body.intrinsic("fma", a, b, c),
    "mul_hi": lambda body, node, a, b: body.multiply_high(a, b),
    "fnot": lambda body, node, a: body.w.emit(f"xor {body.flags} {a}, {body.shape.splat('i1', 'true')}"),
    "scale": lambda body, node, a, total: body.scale(a, total),
    "instruction": _GraphWriter.instruction,
    "rarely": _GraphWriter.rarely,
}
