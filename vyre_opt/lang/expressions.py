"""Translates expressions of Python to ops."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..ir.diagnostics import Diagnostic
from ..ir.ops import OPS
from ..ir.program import MAX_DIMENSIONS, AccessMode, Block, Module, Op, Program, Value
from ..ir.suggestions import suggest
from ..ir.types import DataType, TypeNameError
from . import local_arrays
from .array_types import declaration_text, element_text, show_array_type
from .axis_numbers import axis_call
from .bindings import (
    Binding,
    BufferView,
    LocalArray,
    Static,
    Unbound,
    classes_of,
    leaves,
    named_class,
    parts_of,
    rebuild,
    shown_tuple,
)
from .constants import checked, compute, is_foreign_array, measured_name
from .emitter import Emitter, type_of
from .foreign_words import dotted_name, foreign_help, foreign_index, no_attribute, type_meant, undefined
from .inference import AnyType, OpenType, TypeMismatch, flags_of, known, unify
from .integer_division import float_floor_div, float_remainder, floor_div, floor_rem, is_settled_unsigned
from .intrinsics import INTRINSICS, Intrinsic
from .named_tuples import field_of
from .python_source import FunctionSource, Unsupported
from .remedies import (
    as_floats,
    as_signed,
    as_store,
    corrected,
    is_of_lanes,
    refuse_ellipsis,
    statement_of,
    widened,
    with_indices,
)
from .scalars import python_type, scalar_type
from .unsupported import EXPRESSIONS

__all__ = [
    "CONDITION_OF_LANES",
    "CONDITION_OF_SLICE",
    "Expressions",
    "number_of_indices",
    "of_whole_product",
    "size_of",
]

_BINARY: dict[type[ast.operator], tuple[str, str, Callable[[Any, Any], Any]]] = {
    # the operator, its op, and what it does to Python's numbers
    ast.Add: ("+", "add", operator.add),
    ast.Sub: ("-", "sub", operator.sub),
    ast.Mult: ("*", "mul", operator.mul),
    ast.Div: ("/", "div", operator.truediv),
    ast.FloorDiv: ("//", "div", operator.floordiv),
    ast.Mod: ("%", "rem", operator.mod),
    ast.Pow: ("**", "pow", operator.pow),
    ast.LShift: ("<<", "shl", operator.lshift),
    ast.RShift: (">>", "shr", operator.rshift),
    ast.BitAnd: ("&", "and", operator.and_),
    ast.BitOr: ("|", "or", operator.or_),
    ast.BitXor: ("^", "xor", operator.xor),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", "eq", operator.eq),
    ast.NotEq: ("!=", "ne", operator.ne),
    ast.Lt: ("<", "lt", operator.lt),
    ast.LtE: ("<=", "le", operator.le),
    ast.Gt: (">", "gt", operator.gt),
    ast.GtE: (">=", "ge", operator.ge),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_METHODS = {kind: f"visit_{kind.__name__.lower()}" for kind in ast.expr.__subclasses__()}
_LANES = {name: lane for names in ("xyzw", "rgba") for lane, name in enumerate(names)}
"""Names that shaders have for lanes of a vector."""
CONDITION_OF_SLICE = "a condition is one bool, not one for each element"
CONDITION_OF_LANES = "a condition is one bool, not one for each lane"
_NO_FLAGS = "vyre.max and vyre.min compare matrices; elements are compared once they are stored"
MAX_POWER = 8
"""Up to this exponent, a power is products; of integers, up to so many bits of one."""


def _is_slice(dtype: AnyType) -> bool:
    dtype = known(dtype)
    return isinstance(dtype, DataType) and dtype.is_slice


class Expressions:
    """Translates the expressions of one function.

    `env`: what its local names are bound to here.  `program`: what is built.
    """

    def __init__(
        self,
        source: FunctionSource,
        emitter: Emitter,
        program: Program,
        module: Module,
        diagnostics: list[Diagnostic],
    ) -> None:
        self.source, self.emitter, self.program, self.module = source, emitter, program, module
        self.diagnostics = diagnostics
        self.env: dict[str, Binding] = {}
        self.calls: tuple[Callable[..., Any], ...] = ()
        """The functions of kernels that are being called, from the outermost in."""
        self.sources: dict[Callable[..., Any], FunctionSource] = {}
        """Sources of the functions of kernels that were called."""

    # --- entry

    def expression(self, node: ast.expr) -> Binding:
        """Binding of an expression.  Raises Unsupported."""
        method = getattr(self, _METHODS[type(node)], None)
        if method is None:
            message, help = EXPRESSIONS.get(type(node), ("this is not supported in a kernel", None))
            raise Unsupported(node, message, help)
        emitter = self.emitter
        before, emitter.loc = emitter.loc, self.source.location(node)
        try:
            binding: Binding = method(node)
        finally:
            emitter.loc = before
        return binding

    def value(self, node: ast.expr, dtype: AnyType | None = None) -> Value:
        """An expression as a value, of a type if one is given."""
        return self.as_value(self.expression(node), node, dtype)

    def as_value(self, binding: Binding, node: ast.expr, dtype: AnyType | None = None) -> Value:
        if isinstance(binding, Static):
            try:
                loc, self.emitter.loc = self.emitter.loc, self.source.location(node)
                return (
                    self.emitter.constant(binding, node)
                    if dtype is None
                    else self.emitter.adapted(binding, dtype, node)
                )
            except TypeMismatch as mismatch:
                raise self.wrong_type(node, mismatch, dtype) from None
            finally:
                self.emitter.loc = loc
        if isinstance(binding, Value):
            if dtype is not None:
                try:
                    unify(type_of(binding), dtype, self.source.location(node))
                except TypeMismatch as mismatch:
                    error = self.wrong_type(node, mismatch, dtype)
                    if isinstance(dtype, DataType) and (better := widened(self, node, binding, dtype)):
                        error.help = f"write {better}"
                    if binding in self.emitter.open_sums and isinstance(dtype, DataType):
                        error.help = _wide_sum(self, self.source.text(node), dtype)
                    raise error from None
            return binding
        if isinstance(binding, BufferView):
            raise Unsupported(
                node,
                f"{binding.buffer.name} is an array, not a value",
                _of_elements(self, node) or f"read an element: {element_text(binding.buffer)}",
            )
        if isinstance(binding, tuple):
            raise Unsupported(node, f"{shown_tuple(binding)} is no value", "use its parts")
        raise self.unbound(node, binding)

    def static(self, node: ast.expr, what: str) -> Any:
        """The Python object that an expression is.  Raises Unsupported for a value of the kernel."""
        binding = self.expression(node)
        if isinstance(binding, Static):
            return binding.value
        if isinstance(binding, tuple) and all(isinstance(leaf, Static) for leaf in leaves(binding)):
            return _plain(binding)
        raise Unsupported(
            node,
            f"{what} is known when the kernel is translated; this is computed while it runs",
            "write a number, or a name of a number outside of the kernel",
        )

    def element_type(self, node: ast.Call, of_type: ast.expr, of_size: ast.expr, what: str) -> DataType:
        """The type of the elements of memory, `vyre.local(f32, 8)`.  Raises Unsupported, also for one in the place of the size."""
        first, second = self.expression(of_type), self.expression(of_size)
        if isinstance(second, Static) and (swapped := type_meant(second.value)) is not None:
            size = self.source.text(of_type) if isinstance(first, (Static, tuple)) else "256"
            written = f"{self.source.text(node.func)}({swapped}, {size})"
            raise Unsupported(of_type, f"the type of {what} is written before its size", f"write {written}")
        dtype = scalar_type(self.static(of_type, "a type"))
        if dtype is None:
            meant = type_meant(self.static(of_type, "a type")) or "f32"
            help = f"write {self.source.text(node.func)}({meant}, {self.source.text(of_size)})"
            raise Unsupported(of_type, f"the elements of {what} have a type such as f32", help)
        return dtype

    def warn_of_narrow_sum(self, node: ast.expr, argument: ast.expr, value: Value, dtype: DataType) -> None:
        """Warn where a sum of small integers has their type, and is made a wider one, or divided, only behind it."""
        narrow = known(type_of(value))
        if not isinstance(narrow, DataType) or not narrow.element.is_int or (narrow.element.bits or 0) >= 32:
            return
        text = self.source.text(argument)
        is_divided = isinstance(node, ast.BinOp)
        wide, late = dtype.element, "the division" if is_divided else f"{dtype}(...)"
        if value in self.emitter.open_sums and (narrow.bits or 0) < (dtype.bits or 0):
            message = (
                f"{text} adds up in {narrow}, the type of its terms, and wraps there; {late} comes too late"
            )
            help = _wide_sum(self, text, wide)
            help += f", and here {narrow}({self.source.text(node)})" if is_divided else ""
            help += f"; or begin with {text} = {narrow}(0), if it is to wrap"
        elif (wide.kind != "uint" or is_divided or not isinstance(argument, ast.BinOp)) and (
            better := widened(self, argument, value, DataType.U32 if is_divided else wide)
        ):
            message = f"{text} is computed in {narrow.element}, and wraps there; {late} comes too late"
            whole = (
                better
                if isinstance(node, ast.Call) and not (dtype.is_float and isinstance(argument, ast.BinOp))
                else corrected(
                    self.source, {argument: better, **self._widened_divisor(node, wide)}, within=node
                )
            )
            help = f"write {f'{narrow.element}({whole})' if is_divided else whole}"
        else:
            return
        if value not in self.emitter.open_sums and isinstance(argument, ast.Name):
            help = f"write {better}"
        loc = self.source.location(node)
        self.emitter.warnings.append(Diagnostic("warning", message, loc, help=help))

    def _widened_divisor(self, node: ast.expr, wide: DataType) -> dict[ast.AST, str]:
        """The divisor of a quotient in the type of its wider dividend: `u32(len(row))` for `u8(len(row))`."""
        divisor = node.right if isinstance(node, ast.BinOp) else None
        if divisor is None or isinstance(divisor, ast.Constant):
            return {}
        return {divisor: f"{wide}({self.source.text(self._unconverted(divisor))})"}

    def _unconverted(self, node: ast.expr) -> ast.expr:
        """Operand of a conversion, `s` for `f32(s)`; any other expression itself."""
        is_call = isinstance(node, ast.Call) and len(node.args) == 1
        return node.args[0] if is_call and self._is_type(node.func) else node  # type: ignore[attr-defined]

    def _is_type(self, node: ast.expr) -> bool:
        try:
            binding = self.expression(node)
        except Unsupported:
            return False
        return isinstance(binding, Static) and scalar_type(binding.value) is not None

    # --- errors

    def wrong_type(self, node: ast.expr, mismatch: TypeMismatch, wanted: AnyType | None) -> Unsupported:
        has, want = (known(t) for t in mismatch.types)
        text = self.source.text(node)
        if isinstance(has, OpenType):
            help = "write a whole number, or convert what it meets: f32(...)" if has.is_float else None
            if has.is_integer and isinstance(want, DataType) and want.element.is_float:
                help = f"write {want.element}({text})"  # of the counter of a loop
            return Unsupported(node, f"{text} is {has}, where {want} is wanted", help)
        help = f"write {want.element}({text})" if isinstance(want, DataType) and not has.is_vec else None
        if has.is_slice and isinstance(want, DataType) and not want.is_slice:
            help = (
                f"store it to a slice, y[0 : len({text})] = {text}, or make one value of it: vyre.sum({text})"
            )
            if (better := axis_call(self.source, node)) is not None:
                help = f"write {better}"
        if want is DataType.BOOL:
            help = f"write {text} != 0"
        return Unsupported(node, f"{text} is {has}, where {want} is wanted", help)

    def mixed(
        self, node: ast.expr, a_node: ast.expr, b_node: ast.expr, a: AnyType, b: AnyType
    ) -> Unsupported:
        """Two operands whose types are not the same."""
        a, b = known(a), known(b)
        texts = self.source.text(a_node), self.source.text(b_node)
        help = None
        if isinstance(a, DataType) and isinstance(b, DataType) and a.element is not b.element:
            # what is added to a name or an element changes its type, and not they
            names = self._type_name(a.element), self._type_name(b.element)
            to_first = (a.element.is_float and not b.element.is_float) or isinstance(node, ast.AugAssign)
            if (
                a.element.is_float is b.element.is_float and not to_first
            ):  # a constant, or what is not of the generic type
                is_constant = [isinstance(self._unconverted(each), ast.Constant) for each in (a_node, b_node)]
                of_generic = [name != str(each.element) for name, each in zip(names, (a, b), strict=True)]
                to_first = (is_constant[1], of_generic[0]) > (is_constant[0], of_generic[1])
            converted = self.source.text(self._unconverted(b_node if to_first else a_node))
            help = f"write {names[not to_first]}({converted})"
            if a.element.is_bool is not b.element.is_bool:
                flag, number = texts if a.element.is_bool else texts[::-1]
                is_bits = isinstance(node, ast.BinOp) and isinstance(
                    node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)
                )
                other = b.element if a.element.is_bool else a.element
                help = f"write ({number} != 0)" if is_bits else f"write {other}({flag})"
        elif isinstance(a, DataType) and isinstance(b, OpenType) and b.is_integer:
            help = f"write {a.element}({texts[1]})"
        elif isinstance(b, DataType) and isinstance(a, OpenType) and a.is_integer:
            help = f"write {b.element}({texts[0]})"
        elif isinstance(b, OpenType) and b.is_float:
            help = f"write f32({texts[0]})"
        elif isinstance(a, OpenType) and a.is_float:
            help = f"write f32({texts[1]})"
        return Unsupported(node, f"{texts[0]} is {a} and {texts[1]} is {b}; types do not mix", help)

    def _type_name(self, dtype: DataType) -> str:
        """Name of a type in a message: of a type variable that is bound to it, or its own."""
        source = self.source
        variables = [var for var, bound in source.types.items() if scalar_type(bound) is dtype]
        names = (name for name in sorted(source.identifiers) if source.names.get(name) in variables)
        return next(names, str(dtype))

    def unbound(self, node: ast.expr, binding: Unbound) -> Unsupported:
        error = Unsupported(node, binding.reason, binding.help)
        if binding.loc is not None:
            error.notes.append(("here", binding.loc))
        return error

    # --- names and literals

    def visit_constant(self, node: ast.Constant) -> Binding:
        return Static(node.value, self.source.location(node))

    def visit_name(self, node: ast.Name) -> Binding:
        binding = self.env.get(node.id)
        if isinstance(binding, Unbound):
            raise self.unbound(node, binding)
        if binding is not None:
            return binding
        if node.id in self.source.names:
            return _static_of(node, self.source.outer(node))
        raise undefined(node, node.id, (*self.env, *self.source.names))

    def owner(self, node: ast.Attribute) -> Binding:
        """Binding of the object before an attribute's dot.  Raises Unsupported, for a name that nothing defines with all that follows its dots."""
        name = dotted_name(node)
        root = name.partition(".")[0]
        if name and root not in self.env and root not in self.source.names:
            raise undefined(node, name, (*self.env, *self.source.names))
        try:
            return self.expression(node.value)
        except Unsupported as error:
            if name and (help := foreign_help(name)) is not None:  # of a module in between: vyre.linalg.norm
                error.help = help
            raise

    def visit_attribute(self, node: ast.Attribute) -> Binding:
        base = self.owner(node)
        if isinstance(base, BufferView):
            return self._attribute_of_array(node, base)
        if isinstance(base, Value):
            return self.attribute_of_value(node, base)
        if isinstance(base, Unbound):
            raise self.unbound(node, base)
        if isinstance(base, LocalArray) and node.attr == "shape":
            return tuple(map(Static, base.shape))
        if named_class(base) is not None:
            return field_of(self, node, base)
        if not isinstance(base, Static):
            raise Unsupported(node, f"a value has no attribute {node.attr}")
        try:
            return _static_of(node, self.source.bound(getattr(base.value, node.attr)))
        except AttributeError as error:
            raise no_attribute(node, base.value, error) from None

    def attribute_of_value(self, node: ast.Attribute, value: Value) -> Binding:
        if node.attr == "shape" and (shape := _matrix_shape(value)) is not None:
            return tuple(map(Static, shape))
        help: str | None
        dtype = type_of(value)
        if isinstance(dtype, DataType) and dtype.is_vec and node.attr in _LANES:
            help = f"write {self.source.text(node.value)}[{_LANES[node.attr]}]"
        elif node.attr in ("copy", "clone", "contiguous", "detach", "item", "numpy", "cpu", "cuda"):
            help = f"leave it out: write {self.source.text(node.value)}"
        elif node.attr in ("astype", "to", "cast"):
            help = f"write f32({self.source.text(node.value)}), or another type"
        elif node.attr in INTRINSICS:
            help = f"write vyre.{node.attr}({self.source.text(node.value)})"
        else:
            help = (
                foreign_help(node.attr)
                or f"a value is one number: write {self.source.text(node.value)} itself, or an op of it, such as vyre.abs(...)"
            )
        raise Unsupported(node, f"a value has no attribute {node.attr}", help)

    def _attribute_of_array(self, node: ast.Attribute, view: BufferView) -> Binding:
        dimensions = view.buffer.dimensions
        if node.attr == "shape":
            return tuple(self.length(view, dimension) for dimension in range(dimensions))
        if node.attr == "ndim":
            return Static(dimensions)
        if node.attr == "size":
            return self._size(node, view)
        if node.attr == "dtype" and (element := python_type(view.buffer.dtype)) is not None:
            return Static(element)
        known_names = ("shape", "size", "ndim", "dtype", "vec", "filled")
        update = as_store(self.source, node) if node.attr == "at" else None
        hint = (
            (update and f"write {update}")
            or foreign_help(node.attr)
            or suggest(node.attr, known_names)
            or f"an array has {', '.join(known_names)}, and elements {element_text(view.buffer)}"
        )
        raise Unsupported(node, f"an array of a kernel has no {node.attr}", hint)

    def visit_namedexpr(self, node: ast.NamedExpr) -> Binding:
        message, _ = EXPRESSIONS[ast.NamedExpr]
        name, value = self.source.text(node.target), self.source.text(node.value)
        raise Unsupported(node, message, f"write {name} = {value} in a line before, and {name} here")

    def visit_tuple(self, node: ast.Tuple) -> Binding:
        return tuple(self.expression(item) for item in node.elts)

    # --- operators

    def visit_binop(self, node: ast.BinOp) -> Binding:
        try:
            return self._chained(node)
        except Unsupported as error:
            if (index := foreign_index(node)) is not None:
                raise Unsupported(
                    node, f"{self.source.text(node)} is an index of another language", f"write {index}"
                ) from error
            raise

    def _chained(self, node: ast.BinOp) -> Binding:
        chain = [node]  # a + b + c: a loop, since sums of hundreds of terms nest deeper than Python's calls
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.expression(chain[-1].left)
        for inner in reversed(chain):
            self.emitter.loc = self.source.location(inner)
            left = self.binary(inner, inner.op, left, self.expression(inner.right), inner.left, inner.right)
        return left

    def binary(
        self, node: ast.expr, kind: ast.operator, a: Binding, b: Binding, a_node: ast.expr, b_node: ast.expr
    ) -> Binding:
        if type(kind) not in _BINARY:
            help = "write the loop over the products, or vyre.matrix_mul_add(a, b, c) of matrices"
            if isinstance(a, BufferView) and isinstance(b, BufferView):
                help = of_whole_product(self, node, a_node, b_node)
            raise Unsupported(node, "matrix products are loops here", help)
        sign, op, function = _BINARY[type(kind)]
        if isinstance(a, Static) and isinstance(b, Static):
            return self.computed(node, function, a, b)
        if isinstance(a, LocalArray) or isinstance(b, LocalArray):
            raise Unsupported(node, f"{sign} takes no local arrays", "compute with their elements, in a loop")
        for text in (a, b):
            if isinstance(text, Static) and isinstance(text.value, str):
                raise Unsupported(
                    node, "a kernel makes no texts", 'print values by names: print(f"i={i} x={x[i]}")'
                )
        first, second = parts_of(a), parts_of(b)
        if sign == "+" and first is not None and second is not None:
            return (*first, *second)
        if sign == "**":
            return self._power(node, a, b, a_node, b_node)
        if sign in ("&", "|", "^", "<<", ">>"):
            for operand in (a, b):  # rather than that types differ
                if (
                    isinstance(operand, Value)
                    and isinstance(dtype := type_of(operand), DataType)
                    and dtype.element.is_float
                ):
                    self.accepted(node, op, dtype, sign)
        x, y = self.alike(node, (a, b), (a_node, b_node))
        dtype = type_of(x)
        if sign == "//" and isinstance(a, Value) and isinstance(node, ast.BinOp):
            self.warn_of_narrow_sum(
                node,
                a_node,
                a,
                DataType.U32
                if getattr(known(dtype), "element", DataType.U8).kind == "uint"
                else DataType.I32,
            )
        if sign in ("/", "//", "%"):
            return self._division(node, sign, x, y, dtype)
        return self.emitter.value(op, (x, y), self.accepted(node, op, dtype, sign))

    def computed(self, node: ast.expr, function: Callable[..., Any], *operands: Static) -> Static:
        """Result of a function of Python on constants.  Raises Unsupported."""
        values = [operand.value for operand in operands]
        return Static(compute(node, self.source.text(node), function, *values), self.source.location(node))

    def alike(self, node: ast.expr, bindings: Sequence[Binding], nodes: Sequence[ast.expr]) -> list[Value]:
        """Operands as values of one type: literals take that of the others, and beside a vector a number is one."""
        for number, operand in enumerate(bindings):
            if not isinstance(operand, (Static, Value)):
                self.as_value(operand, nodes[number])  # raises
        index = _leader(bindings)
        leader = self.as_value(bindings[index], nodes[index])
        values = []
        for number, (operand, at) in enumerate(zip(bindings, nodes, strict=True)):
            try:
                values.append(leader if number == index else self.like(leader, operand, at))
            except Unsupported as error:
                dtype = known(type_of(leader))
                is_below = (
                    isinstance(operand, Static) and isinstance(operand.value, int) and operand.value < 0
                )
                if is_below and isinstance(dtype, DataType) and dtype.element.kind == "uint":
                    signed = as_signed(self.source, nodes[index], str(dtype.element).replace("u", "i"))
                    error.help = f"write {signed}, which may be below 0" if signed else error.help
                raise
            except TypeMismatch as mismatch:
                leader_type = known(type_of(leader))
                other = next((m for m in mismatch.types if known(m) is not leader_type), leader_type)
                one, two = sorted([(index, leader_type), (number, other)], key=itemgetter(0))
                raise self.mixed(node, nodes[one[0]], nodes[two[0]], one[1], two[1]) from None
        return values

    def like(self, leader: Value, operand: Binding, node: ast.expr) -> Value:
        """An operand as a value of another one's type.  Raises TypeMismatch."""
        dtype = type_of(leader)
        if isinstance(operand, Static):
            return self.emitter.adapted(operand, dtype, node)
        value = self.emitter.broadcast(self.as_value(operand, node), dtype)
        unify(dtype, type_of(value), self.source.location(node))
        return value

    def accepted(self, node: ast.AST, op: str, dtype: AnyType, sign: str | None = None) -> AnyType:
        """The type, if the op takes it.  Raises Unsupported."""
        row, dtype = OPS[op], known(dtype)
        if isinstance(dtype, OpenType):
            if row.types == "float" and not dtype.is_float:
                dtype.is_float = True
            elif row.types in ("int", "bits") and dtype.is_float:
                raise Unsupported(
                    node, f"{sign or op} takes integers, not floats", _of_bits(self, node, sign)
                )
        elif not row.accepts(dtype):
            takes = {"int": "integers", "float": "floats", "num": "numbers", "bits": "integers and bools"}[
                row.types
            ]
            help = None
            if row.types == "float" and dtype.is_int:
                changes = as_floats(self, node.args) if isinstance(node, ast.Call) else {}
                written = corrected(self.source, changes, within=node) if changes else ""
                help = f"write {written}" if written else "convert it: f32(...)"
            if row.types != "bits" and dtype.element.is_bool:
                help = "convert it: u32(...) is 1 where it holds"
            if row.types in ("int", "bits") and dtype.element.is_float:
                help = _of_bits(self, node, sign)
            raise Unsupported(node, f"{sign or op} takes {takes}, not {dtype}", help)
        elif row.format == "compare" and dtype.is_matrix:
            raise Unsupported(
                node,
                f"{sign or op} compares the elements of {dtype}, and there are no matrices of bools",
                _NO_FLAGS,
            )
        return dtype

    def _division(self, node: ast.expr, sign: str, x: Value, y: Value, dtype: AnyType) -> Value:
        if sign == "/":
            return self._true_division(node, x, y, dtype)
        self.accepted(node, "div", dtype, sign)
        name = "div" if sign == "//" else "rem"
        if is_settled_unsigned(dtype):
            return self.emitter.value(name, (x, y), dtype)
        self.accepted(node, "lt", dtype, sign)  # rounding down is a comparison
        of_floats, of_integers = (
            (float_floor_div, floor_div) if sign == "//" else (float_remainder, floor_rem)
        )

        def expand(emitter: Emitter, op: Op) -> Value:
            rule = of_floats if op.results[0].type.element.is_float else of_integers
            return rule(emitter, op)

        return self.emitter.deferred(name, (x, y), dtype, expand)

    def _true_division(self, node: ast.expr, x: Value, y: Value, dtype: AnyType) -> Value:
        dtype = known(dtype)
        if isinstance(dtype, DataType) and not dtype.element.is_float:
            raise self._integer_division(node, dtype)
        if isinstance(dtype, DataType) or dtype.is_float:
            return self.emitter.value("div", (x, y), dtype)

        def expand(emitter: Emitter, op: Op) -> Value:
            if not op.results[0].type.element.is_float:
                raise self._integer_division(node, op.results[0].type)
            return emitter.value("div", op.operands, op.results[0].type)

        return self.emitter.deferred("div", (x, y), dtype, expand)

    def _integer_division(self, node: ast.expr, dtype: DataType) -> Unsupported:
        help = "write // for the quotient rounded down, or convert both to a float: f32(...)"
        if isinstance(node, ast.BinOp):
            a, b = map(self.source.text, (node.left, node.right))
            quotient = " // ".join(map(self.source.operand, (node.left, node.right)))
            help = (
                f"write {quotient} for the quotient rounded down, f32({a}) / f32({b}) for one with a fraction"
            )
        return Unsupported(node, f"/ of integers ({dtype}) is no integer", help)

    def _power(self, node: ast.expr, a: Binding, b: Binding, a_node: ast.expr, b_node: ast.expr) -> Binding:
        exponent = b.value if isinstance(b, Static) and type(b.value) is int else None
        base = None if isinstance(a, Static) else self.as_value(a, a_node)
        dtype = None if base is None else type_of(base)
        if base is not None and exponent is not None:
            is_integer = isinstance(dtype, DataType) and dtype.is_int
            if 1 <= exponent <= MAX_POWER or (is_integer and 0 <= exponent < 1 << MAX_POWER):
                dtype = self.accepted(node, "mul", type_of(base), "**")
                if exponent == 0:
                    return self.emitter.adapted(Static(1), dtype, node)
                return self._product(base, exponent, dtype)
        x, y = self.alike(node, (a, b), (a_node, b_node))
        dtype = type_of(x)
        if isinstance(dtype, DataType) and dtype.element.is_int:
            help = "write a loop of products, or convert both: f32(...)"
            if isinstance(a, Static) and a.value == 2:
                help = f"write 1 << {self.source.text(b_node)}"
            limit = (1 << MAX_POWER) - 1
            raise Unsupported(node, f"the exponent of ** is a number from 0 to {limit} for integers", help)
        return self.emitter.value("pow", (x, y), self.accepted(node, "pow", dtype, "**"))

    def _product(self, base: Value, exponent: int, dtype: AnyType) -> Value:
        """Multiply by squaring."""
        if exponent == 1:
            return base
        half = self._product(base, exponent // 2, dtype)
        square = self.emitter.value("mul", (half, half), dtype)
        return self.emitter.value("mul", (square, base), dtype) if exponent % 2 else square

    def visit_unaryop(self, node: ast.UnaryOp) -> Binding:
        operand = self.expression(node.operand)
        if isinstance(operand, Static):
            return self.computed(node, _UNARY[type(node.op)], operand)
        if isinstance(node.op, ast.UAdd):
            return self.as_value(operand, node.operand)
        if isinstance(node.op, ast.Not):
            return self.emitter.value("not", (self.as_condition(operand, node.operand),), DataType.BOOL)
        x = self.as_value(operand, node.operand)
        name, sign = ("neg", "-") if isinstance(node.op, ast.USub) else ("not", "~")
        return self.emitter.value(name, (x,), self.accepted(node, name, type_of(x), sign))

    # --- conditions

    def condition(self, node: ast.expr) -> Static | Value:
        """An expression as a bool: a value, or Static(True) or Static(False)."""
        binding = self.expression(node)
        if isinstance(binding, Static):
            return Static(bool(binding.value))
        return self.as_condition(binding, node)

    def as_condition(self, binding: Binding, node: ast.expr) -> Value:
        value = self.as_value(binding, node)
        dtype = type_of(value)
        if isinstance(dtype, DataType) and dtype.is_vec and dtype.element.is_bool:
            help = f"choose in each lane, vyre.select({self.source.text(node)}, a, b), instead of the if"
            raise Unsupported(node, CONDITION_OF_LANES, help)
        if isinstance(dtype, DataType) and dtype.is_matrix:
            raise Unsupported(node, f"a condition is a bool, not a {dtype}", _NO_FLAGS)
        if dtype is not DataType.BOOL:
            text = self.source.text(node)
            raise Unsupported(node, f"a condition is a bool, and {text} is a number", f"write {text} != 0")
        return value

    def visit_compare(self, node: ast.Compare) -> Binding:
        """The comparisons from left to right, of which each is made only where those before it hold."""
        nodes = [node.left, *node.comparators]
        self._refuse_joined_bits(node, nodes)
        last = self.expression(node.left)

        def compare(index: int) -> Binding:
            nonlocal last
            left, last = last, self.expression(nodes[index + 1])
            result = self._compare(node, node.ops[index], left, last, nodes[index], nodes[index + 1])
            is_joined = len(node.ops) > 1 and isinstance(result, Value)
            return self.as_condition(result, node) if is_joined else result

        return self._in_turn("and", compare, [node] * len(node.ops))

    def _refuse_joined_bits(self, node: ast.Compare, nodes: Sequence[ast.expr]) -> None:
        """Raise Unsupported for `a < b & c < d`, in which & binds first."""
        for each in nodes[1:-1]:
            if not isinstance(each, ast.BinOp) or not isinstance(each.op, (ast.BitAnd, ast.BitOr)):
                continue
            text, part = self.source.text(node), self.source.text(each)
            if f"({part})" in text or isinstance(each.right, ast.Constant):  # x & 3 is a mask
                continue
            sign, word = ("&", "and") if isinstance(each.op, ast.BitAnd) else ("|", "or")
            help = f"write {text.replace(sign, word)}, or ({part}) for its bits"
            values = [self.expression(operand) for operand in (nodes[0], each.left, each.right, nodes[-1])]
            if any(isinstance(value, Value) and _is_slice(type_of(value)) for value in values):
                terms = ") & (" if sign == "&" else ") | ("
                help = f"write ({terms.join(map(str.strip, text.split(sign)))})"
            raise Unsupported(each, f"{sign} binds before the comparisons on its sides", help)

    def _compare(
        self, node: ast.Compare, kind: ast.cmpop, a: Binding, b: Binding, a_node: ast.expr, b_node: ast.expr
    ) -> Binding:
        if type(kind) not in COMPARISONS:
            if isinstance(a, Static) and isinstance(b, Static) and isinstance(kind, (ast.Is, ast.IsNot)):
                return Static((a.value is b.value) is isinstance(kind, ast.Is))
            help = "write a loop, or several comparisons"
            if isinstance(kind, (ast.In, ast.NotIn)) and isinstance(b_node, ast.Tuple):
                sign, word = ("==", " or ") if isinstance(kind, ast.In) else ("!=", " and ")
                text = self.source.text(a_node)
                help = f"write {word.join(f'{text} {sign} {self.source.text(part)}' for part in b_node.elts)}"
            elif isinstance(kind, (ast.Is, ast.IsNot)):
                is_none = isinstance(b_node, ast.Constant) and b_node.value is None
                help = (
                    "arrays and numbers of a kernel are never None: leave it out"
                    if is_none
                    else "write == or !="
                )
            raise Unsupported(node, "a kernel compares by ==, !=, <, <=, > and >=", help)
        sign, op, function = COMPARISONS[type(kind)]
        if isinstance(a, Static) and isinstance(b, Static):
            return self.computed(node, function, a, b)
        if isinstance(kind, (ast.Eq, ast.NotEq)):
            self._warn_of_nan(node, sign, ((a, a_node), (b, b_node)))
        x, y = self.alike(node, (a, b), (a_node, b_node))
        return self.emitter.value(op, (x, y), flags_of(self.accepted(node, op, type_of(x), sign)))

    def _warn_of_nan(self, node: ast.expr, sign: str, operands: Sequence[tuple[Binding, ast.expr]]) -> None:
        """Warn of `x == nan` and `x != nan`, which say nothing of x."""
        for (value, _), (_, other) in (operands, operands[::-1]):
            if isinstance(value, Static) and isinstance(value.value, float) and value.value != value.value:
                always, instead = ("false", "!=") if sign == "==" else ("true", "==")
                message = f"always {always}: a NaN is equal to nothing"
                text = self.source.text(other)
                help = f"write {text} {instead} {text}"
                loc = self.source.location(node)
                self.emitter.warnings.append(Diagnostic("warning", message, loc, help=help))

    def _both(self, op: str, a: Binding, b: Binding) -> Binding:
        """a and b, or a or b, both already computed."""
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Static):
                return other if bool(one.value) is (op == "and") else Static(op == "or")
        assert isinstance(a, Value) and isinstance(b, Value)
        return self.emitter.value(op, (a, b), DataType.BOOL)

    def visit_boolop(self, node: ast.BoolOp) -> Binding:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return self._in_turn(op, lambda index: self.condition(node.values[index]), node.values)

    def _in_turn(self, op: str, condition: Callable[[int], Binding], nodes: Sequence[ast.expr]) -> Binding:
        """Conditions from left to right, each computed only where those before it do not decide."""
        undecided: list[tuple[Value, int]] = []
        blocks = [self.emitter.block]
        result: Binding = Static(op == "and")
        for index in range(len(nodes)):
            with self.emitter.at(blocks[-1]):
                result = condition(index)
            if isinstance(result, Static):
                literal = nodes[index]
                if undecided and isinstance(literal, ast.Constant) and type(literal.value) in (int, float):
                    number = self.source.text(literal)
                    message = f"{number} is a number, not a bool"  # x == 1 or 2 is true of any x
                    raise Unsupported(literal, message, f"write a comparison, such as x == {number}")
                if bool(result.value) is (op == "or"):
                    break
            elif index + 1 < len(nodes):
                assert isinstance(result, Value)
                undecided.append((result, index))
                blocks.append(Block())
        while undecided:
            (first, index), inner = undecided.pop(), blocks.pop()
            with self.emitter.at(blocks[-1]):
                result = self._where_needed(op, first, result, inner, nodes[index], nodes[index + 1])
        return result

    def _where_needed(
        self, op: str, first: Value, rest: Binding, block: Block, first_node: ast.expr, rest_node: ast.expr
    ) -> Binding:
        """`first` and `rest`, or one of both; `block` computes `rest`, and runs where `first` does not decide."""
        if _is_free(block):
            self.emitter.block.ops += block.ops
            return self._both(op, first, rest)
        with self.emitter.at(block):
            self.emitter.op("yield", (self.as_value(rest, rest_node),))
        decided = Block()
        with self.emitter.at(decided):
            known_value = self.emitter.constant(Static(op == "or"), first_node)
            self.emitter.op("yield", (known_value,))
        blocks = (block, decided) if op == "and" else (decided, block)
        return self.emitter.op("if", (first,), (DataType.BOOL,), regions=blocks).results[0]

    def visit_ifexp(self, node: ast.IfExp) -> Binding:
        try:
            condition = self.condition(node.test)
        except Unsupported as error:
            if error.message in (CONDITION_OF_SLICE, CONDITION_OF_LANES) and error.node is node.test:
                choose = "where" if error.message == CONDITION_OF_SLICE else "select"
                error.help = f"write vyre.{choose}({', '.join(map(self.source.text, (node.test, node.body, node.orelse)))})"
            raise
        if isinstance(condition, Static):
            return self.expression(node.body if condition.value else node.orelse)
        blocks, bindings = (Block(), Block()), []
        for block, branch in zip(blocks, (node.body, node.orelse), strict=True):
            with self.emitter.at(block):
                bindings.append(self.expression(branch))
        is_free = all(map(_is_free, blocks))
        if is_free:  # then both may be computed, which is cheaper than a branch
            for block in blocks:
                self.emitter.block.ops += block.ops
        a, b = (leaves(binding) for binding in bindings)
        if len(a) != len(b):
            raise Unsupported(node, "the two values are tuples of different lengths")
        if classes_of(bindings[0]) != classes_of(bindings[1]):
            raise Unsupported(node, f"one value is {' and the other '.join(map(shown_tuple, bindings))}")
        ends = (self.emitter.block, self.emitter.block) if is_free else blocks
        pairs = [self._branch_values(node, x, y, ends) for x, y in zip(a, b, strict=True)]
        if is_free:
            chosen = [self.emitter.value("select", (condition, x, y), type_of(x)) for x, y in pairs]
            return rebuild(bindings[0], chosen)  # type: ignore[no-any-return]
        for block, values in zip(blocks, zip(*pairs, strict=True), strict=True):
            with self.emitter.at(block):
                self.emitter.op("yield", values)
        op = self.emitter.op("if", (condition,), [type_of(x) for x, _ in pairs], regions=blocks)
        return rebuild(bindings[0], list(op.results))  # type: ignore[no-any-return]

    def _branch_values(
        self, node: ast.IfExp, a: Binding, b: Binding, ends: tuple[Block, Block]
    ) -> tuple[Value, Value]:
        """The values of both branches, of one type; a literal's constant stands in its branch."""
        first, second = ends
        if isinstance(a, Static) and not isinstance(b, Static):
            y = self.as_value(b, node.orelse)
            with self.emitter.at(first):
                return self.as_value(a, node.body, type_of(y)), y
        with self.emitter.at(first):
            x = self.as_value(a, node.body)
        with self.emitter.at(second):
            y = self.as_value(b, node.orelse, type_of(x) if isinstance(b, Static) else None)
        try:
            unify(type_of(x), type_of(y))
        except TypeMismatch:
            raise self.mixed(node, node.body, node.orelse, type_of(x), type_of(y)) from None
        return x, y

    # --- arrays

    def length(self, view: BufferView, dimension: int = 0) -> Static | Value:
        """The elements of an array along a dimension."""
        buffer = view.buffer
        lanes = view.lanes if dimension == buffer.dimensions - 1 else 1
        extent = buffer.shape[dimension]
        if extent is not None:
            return Static(extent // lanes)
        attrs = {"buffer": buffer.name, **({"dimension": dimension} if buffer.dimensions > 1 else {})}
        count = self.emitter.value("len", (), DataType.U32, attrs)
        if lanes == 1:
            return count
        return self.emitter.value("div", (count, self.emitter.number(lanes, DataType.U32)), DataType.U32)

    def _size(self, node: ast.expr, view: BufferView) -> Binding:
        """All elements of an array."""
        if view.buffer.dimensions == 1:
            return self.length(view)
        if view.buffer.count is not None:
            return Static(view.buffer.count // view.lanes)
        name = view.buffer.name
        extents = " * ".join(f"{name}.shape[{number}]" for number in range(view.buffer.dimensions))
        raise Unsupported(node, f"a u32 may not hold all elements of {name}", f"if it does, write {extents}")

    def visit_subscript(self, node: ast.Subscript) -> Binding:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "T":
            self._refuse_transposed(node, node.value)
        return self.subscript(node, self.expression(node.value))

    def _refuse_transposed(self, node: ast.Subscript, transposed: ast.Attribute) -> None:
        """Raise Unsupported for an element of the transpose of an array, `x.T[j, i]`."""
        array, parts = self.owner(transposed), node.slice
        if isinstance(array, BufferView) and isinstance(parts, ast.Tuple) and len(parts.elts) == 2:
            first, second = map(self.source.text, parts.elts)
            help = f"write {self.source.text(transposed.value)}[{second}, {first}]"
            raise Unsupported(transposed, "an array of a kernel has no T", help)

    def subscript(self, node: ast.Subscript, base: Binding) -> Binding:
        """Binding of `base[...]`."""
        if isinstance(base, BufferView):
            indices = self.indices(node.slice, base)
            self.check_access(node, base, "read")
            return self.elements(node, base, indices)
        if isinstance(base, LocalArray):
            return local_arrays.element(self, node, base)
        if isinstance(base, Static) and isinstance(base.value, Intrinsic):
            text, index = self.source.text(node.value), self.source.text(node.slice)
            raise Unsupported(node, f"{text} is called, and has no elements", f"write {text}({index})")
        if isinstance(base, Static):
            try:
                return _static_of(node, self._item(node, base.value, "this index"))
            except Unsupported as error:
                name = self.source.text(node.value)
                if isinstance(base.value, (list, tuple)) and not isinstance(error.node, ast.Subscript):
                    error.help = f"pass it as an argument, {name}: Read[f32], or go by constants: for j in vyre.static(range(len({name})))"
                if not is_foreign_array(base.value):
                    raise
            help = f"pass it as an argument, {name}: Read[f32]; only constants index what is outside"
            raise Unsupported(node, f"{name} is an array outside of the kernel", help)
        if isinstance(base, tuple):
            return self._item(node, base, "the index of a tuple or a vector")  # type: ignore[no-any-return]
        dtype = type_of(base) if isinstance(base, Value) else None
        if not isinstance(base, Value) or not isinstance(dtype, DataType) or not dtype.is_vec:
            if isinstance(base, Unbound):
                raise self.unbound(node.value, base)
            if isinstance(base, Value) and (wrong := self.number_subscripted(node, base, "Read")) is not None:
                raise wrong
            text = self.source.text(node.value)
            help = "only arrays, vectors and tuples have elements"
            if (
                isinstance(node.value, ast.Subscript)
                and isinstance(node.value.value, ast.Name)
                and isinstance(self.env.get(node.value.value.id), BufferView)
            ):
                outer, inner = self.source.text(node.value.slice), self.source.text(node.slice)
                help = f"of an array of two dimensions write {self.source.text(node.value.value)}[{outer}, {inner}]"
            raise Unsupported(node, f"{text} is a single value and has no elements", help)
        index = self.static(node.slice, "the index of a tuple or a vector")
        return self.emitter.value("extract", (base,), dtype.element, {"index": self.lane(node, index, dtype)})

    def number_subscripted(self, node: ast.Subscript, base: Value, access: str) -> Unsupported | None:
        """The error for an element of an argument that is declared as a number; None for another value."""
        name = (
            base.owner.attrs["param"] if isinstance(base.owner, Op) and base.owner.name == "param" else None
        )
        declared = next((a for a in self.source.arguments if a.arg == name), None)
        if declared is None or declared.annotation is None:
            return None
        parts = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
        element = self.source.text(declared.annotation)
        array = element if parts == 1 else f"{element}[{', '.join(':' * parts)}]"
        message = f"{name} is a number ({element}), and has no elements"
        error = Unsupported(node, message, f"declare it {name}: {access}[{array}]")
        error.notes.append((f"{name} is declared here", self.source.location(declared)))
        return error

    def elements(self, node: ast.Subscript, view: BufferView, indices: Sequence[Value]) -> Value:
        """Load the elements at indices of an array."""
        return self.load(view, indices)

    def is_length(self, node: ast.expr) -> bool:
        """Whether this is `len(x)` or `x.shape`, of an array."""
        return isinstance(self.env.get(measured_name(node)), BufferView)

    def _item(self, node: ast.Subscript, items: Any, what: str) -> Any:
        index = self._subscript(node.slice, what)
        try:
            return items[index]
        except (TypeError, LookupError) as error:
            raise Unsupported(node, f"{self.source.text(node)}: {error}", _indices_of(items)) from None

    def _subscript(self, node: ast.expr, what: str) -> Any:
        """Constant in the brackets of a constant: `SIZES[1:]`, `f32[:, 64]`."""
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            return slice(*[None if bound is None else self.static(bound, what) for bound in bounds])
        if isinstance(node, ast.Tuple):
            return tuple(self._subscript(part, what) for part in node.elts)
        return self.static(node, what)

    def lane(self, node: ast.AST, index: Any, dtype: DataType) -> int:
        """The number of a lane of a vector."""
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < dtype.lanes:
            raise Unsupported(node, f"{dtype} has lanes 0 to {dtype.lanes - 1}, not {index!r}")
        return index

    def check_access(self, node: ast.AST, view: BufferView, verb: str) -> None:
        """Raises Unsupported for a read of a `Write`, or a write of a `Read`."""
        buffer = view.buffer
        wrong = AccessMode.WRITE if verb == "read" else AccessMode.READ
        if buffer.access is wrong:
            has = "Write" if verb == "read" else "Read"
            error = Unsupported(
                node,
                f"{buffer.name} is {verb} here, but it is {has}",
                f"declare it {show_array_type(AccessMode.READ_WRITE, buffer.dtype, buffer.shape)}",
            )
            error.notes.append((f"{buffer.name} is declared here", buffer.loc))
            raise error

    def indices(self, node: ast.expr, view: BufferView) -> tuple[Value, ...]:
        """The indices of the first scalar of an element, one for each dimension."""
        buffer = view.buffer
        takes = f"{buffer.name} takes {number_of_indices(buffer.dimensions)}"
        refuse_ellipsis(self, node)
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        for part in nodes:
            if isinstance(part, ast.Slice):
                raise Unsupported(part, f"{takes}, not a slice", f"write a loop over {element_text(buffer)}")
        try:
            binding = self.expression(node)
        except Unsupported as error:
            if (whole := self._whole_quotient(error.node)) is not None:
                error.help = f"an index is an integer: write {whole}"
            raise
        parts = None if isinstance(binding, LocalArray) else parts_of(binding)
        bindings = (binding,) if parts is None else parts
        if len(bindings) != buffer.dimensions:
            help = f"write {element_text(buffer)}"
            if len(bindings) < buffer.dimensions and buffer.access in (
                AccessMode.READ,
                AccessMode.WRITE,
                AccessMode.READ_WRITE,
            ):
                first = ", ".join([self.source.text(part) for part in nodes])
                rest = ", :" * (buffer.dimensions - len(bindings))
                others = ", ".join("ijk"[len(bindings) : buffer.dimensions])
                help = f"an element is {buffer.name}[{first}, {others}], in an atomic ({first}, {others}); a row is {buffer.name}[{first}{rest}]"
                if not is_of_lanes(self) and buffer.dimensions == 2:
                    help = f"write {buffer.name}[{first}{rest}]: a row is {buffer.name}[{first}{rest}]; an element is {buffer.name}[{first}, {others}], in an atomic ({first}, {others})"
            if buffer.dimensions == 1 and len(bindings) <= MAX_DIMENSIONS:
                help += f", or declare {declaration_text(buffer, len(bindings))}"
            raise Unsupported(node, f"{takes}, not {number_of_indices(len(bindings), with_noun=False)}", help)
        if len(nodes) != len(bindings):  # a name for several
            nodes = [node] * len(bindings)
        return tuple(
            self.index(at, index, view, dimension)
            for dimension, (at, index) in enumerate(zip(nodes, bindings, strict=True))
        )

    def _whole_quotient(self, node: ast.AST) -> str | None:
        """`i // 2` for `i * 0.5` and `i / 2.0`; None for another operation."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
            return None
        factor = node.right.value if isinstance(node.right, ast.Constant) else None
        if type(factor) is not float or factor <= 0:
            return None
        is_product = isinstance(node.op, ast.Mult)
        for sign, number in (
            ("*", factor if is_product else 1 / factor),
            ("//", 1 / factor if is_product else factor),
        ):
            if number == int(number) and number >= 1:
                return f"{self.source.text(node.left)} {sign} {int(number)}"
        return None

    def index(self, node: ast.expr, binding: Binding, view: BufferView, dimension: int) -> Value:
        """An index along a dimension."""
        lanes = view.lanes if dimension == view.buffer.dimensions - 1 else 1
        if isinstance(binding, Static):
            return self._static_index(node, binding.value, view, dimension, lanes)
        value = self.as_value(binding, node)
        dtype = type_of(value)
        if isinstance(dtype, OpenType) and dtype.is_float:
            raise Unsupported(
                node, "an index is an integer, not a float", f"write u32({self.source.text(node)})"
            )
        if isinstance(dtype, OpenType):
            dtype.is_scalar = True
        elif not dtype.is_int:
            help = None if dtype.is_vec else f"write u32({self.source.text(node)})"
            raise Unsupported(node, f"an index is an integer, not {dtype}", help)
        if lanes == 1:
            return value
        factor = self.emitter.adapted(Static(lanes), dtype, node)
        return self.emitter.value("mul", (value, factor), dtype)

    def _static_index(
        self, node: ast.expr, index: Any, view: BufferView, dimension: int, lanes: int
    ) -> Value:
        buffer = view.buffer
        name, extent = buffer.name, buffer.shape[dimension]
        length, along = f"len({name})", ""
        if buffer.dimensions > 1:
            length, along = f"{name}.shape[{dimension}]", f" along dimension {dimension}"
        if not isinstance(index, int) or isinstance(index, bool):
            help = (
                f"call it: {index!r}(0)"
                if isinstance(index, Intrinsic)
                else f"write {element_text(buffer)}, i a whole number"
            )
            raise Unsupported(node, f"an index is an integer, not {index!r}", help)
        if index < 0:
            element = f"{length} - {-index}"
            help = f"write {element if along else f'{name}[{element}]'}"
            message = f"{index} is before the first element{along}; a kernel does not count from the end"
            raise Unsupported(node, message, help)
        if extent is not None and index >= extent // lanes:
            count = extent // lanes
            last = f"the last index{along} is {count - 1}" if count else None
            raise Unsupported(node, f"{index} is beyond the {count} elements of {name}{along}", last)
        first = index * lanes
        return self.emitter.number(first, DataType.U32 if first < 1 << 32 else DataType.U64)

    def load(self, view: BufferView, indices: Sequence[Value]) -> Value:
        dtype = view.buffer.dtype
        if view.lanes > 1:
            dtype = DataType.vec(dtype, view.lanes)
        return self.emitter.value("load", indices, dtype, {"buffer": view.buffer.name})

    # --- calls

    def vector_view(self, node: ast.Call, view: BufferView) -> BufferView:
        """`x.vec(4)`: the array as one of vectors; `x.vec(1)`, for code with any number of lanes, is the array itself."""
        if len(node.args) != 1 or node.keywords or view.lanes != 1:
            example = element_text(view.buffer).replace("[", ".vec(4)[")
            raise Unsupported(node, f"vec takes the number of lanes: {example}")
        lanes = self.static(node.args[0], "the number of lanes")
        try:
            if not isinstance(lanes, int) or isinstance(lanes, bool) or lanes < 1:
                raise TypeNameError(f"a vector has 2 to 64 lanes, not {lanes!r}")
            if lanes > 1:
                DataType.vec(view.buffer.dtype, lanes)
        except TypeNameError as error:
            raise Unsupported(node, str(error)) from None
        return BufferView(view.buffer, lanes)


def of_whole_product(t: Expressions, node: ast.expr, a: ast.expr, b: ast.expr) -> str:
    """Remedy for a product of two whole arrays."""
    of_a, of_b = (t.source.text(each.value if isinstance(each, ast.Subscript) else each) for each in (a, b))
    statement = statement_of(t.source, node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    out = target.value if isinstance(target, ast.Subscript) else None
    into = f", out={out.id}" if isinstance(out, ast.Name) else ""
    return (
        f"call vyre_opt.kernels.matmul({of_a}, {of_b}{into}) in the place of the kernel; in one, a workgroup adds up a block of "
        f"the product, in a loop over k: total += {of_a}.filled(0)[i : i + 32, k : k + 32] @ {of_b}.filled(0)[k : k + 32, j : j + 32]"
    )


def _of_elements(t: Expressions, node: ast.expr) -> str | None:
    statement = (
        with_indices(t, node)
        if isinstance(statement_of(t.source, node), (ast.Assign, ast.AugAssign))
        else None
    )
    return statement and f"write {statement}"


def number_of_indices(count: int, with_noun: bool = True) -> str:
    """Number of indices in words: one index, 2 indices."""
    noun = " index" if count == 1 else " indices"
    return f"{'one' if count == 1 else count}{noun if with_noun else ''}"


def _matrix_shape(value: Value) -> tuple[int, ...] | None:
    dtype = type_of(value)
    return dtype.shape if isinstance(dtype, DataType) and dtype.is_matrix else None


def _leader(bindings: Sequence[Binding]) -> int:
    """The operand whose type the others take: the first vector, else the slice of most extents that are not 1, else the first
    value, else the first."""
    leader, size = None, (0, 0)
    for index, binding in enumerate(bindings):
        if isinstance(binding, Value):
            dtype = type_of(binding)
            if isinstance(dtype, DataType) and dtype.is_vec:
                return index
            if leader is None or size < size_of(dtype):
                leader, size = index, size_of(dtype)
    return leader or 0


def size_of(dtype: AnyType) -> tuple[int, int]:
    """Number of extents of a slice, and number of those that are not 1; none for another type."""
    extents = dtype.extents if isinstance(dtype, DataType) else ()
    return len(extents), sum(extent != 1 for extent in extents)


def _of_bits(t: Expressions, node: ast.AST, sign: str | None) -> str:
    """Remedy for an operator on bits of floats."""
    help = "write vyre.bitcast(x, u32) for the bits of a float"
    if sign == "^" and isinstance(node, ast.BinOp):
        return f"write {t.source.text(node.left)} ** {t.source.text(node.right)} for a power; {help}"
    words = {"&": "and", "|": "or", "~": "not"}
    return (
        f"conditions are joined by `{words[sign]}`; {help}"
        if sign in words
        else f"convert it: u32(...); {help}"
    )


def _indices_of(items: Any) -> str | None:
    if not isinstance(items, (tuple, list)):
        return None
    return f"it has {len(items)} part{'s' * (len(items) != 1)}" + (
        f", 0 to {len(items) - 1}" if items else ""
    )


def _wide_sum(t: Expressions, name: str, dtype: DataType) -> str:
    """Remedy for a sum that begins as a literal, and so has the type of its terms."""
    updates = [
        each
        for each in ast.walk(t.source.tree)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) and each.target.id == name
    ]
    adds = f"add {dtype}(...)"
    if len(updates) == 1:
        term = updates[0].value
        adds = f"write {corrected(t.source, {term: f'{dtype}({t.source.text(term)})'})}"
    return f"begin with {name} = {dtype}(0), and {adds}"


def _static_of(node: ast.AST, obj: Any) -> Static:
    return obj if isinstance(obj, Static) else Static(checked(node, obj))


def _plain(binding: Binding) -> Any:
    return rebuild(binding, [leaf.value for leaf in leaves(binding)])


def _is_free(block: Block) -> bool:
    """Whether the ops of a block may run where their values are not wanted: none has an effect or can fault."""
    return (
        all(op.definition.is_pure and not op.regions and op.name != "call" for op in block.ops)
        and len(block.ops) <= 16
    )
