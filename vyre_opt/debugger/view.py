"""View of a stopped run: names, buffers, and expressions of them, which NumPy computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..execution.params import value_of_word
from ..ir.program import Op, Value
from ..ir.scopes import BufferName, LocalName, ValueName
from ..records import dataclass
from ..targets.ref.frame import Frame
from ..targets.ref.machine import Machine
from ..targets.ref.memory import Storage
from ..targets.ref.registers import constant_register, from_storage
from .op_places import OpPlaces, scope_at

__all__ = ["Expression", "ExpressionError", "View", "show"]

_FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in (abs, all, any, bool, float, hex, int, len, max, min, range, round, sum)},
    "np": np,
}
_SYMBOL = re.compile(r"([%@])([A-Za-z_0-9.$]+)")
_MANGLED = re.compile(r"(value|buffer)__((?:[0-9a-f]{2})+)")


class ExpressionError(Exception):
    """An expression that has no value here.  `is_of_arrays`: because it is written for single numbers, perhaps."""

    def __init__(self, message: str, is_of_arrays: bool = False) -> None:
        super().__init__(message)
        self.is_of_arrays = is_of_arrays


@dataclass(frozen=True, slots=True)
class View:
    """A stop: an `op` that the lanes of `frame` are about to run, or have run (`is_after`), seen by one `invocation`, by its linear id.

    `storages`: of the launches up to here, by the names of the pipeline's buffers.  Without an op the run is over.
    """

    machine: Machine | None
    frame: Frame | None
    op: Op | None
    invocation: int | None
    storages: Mapping[str, Storage]
    places: OpPlaces | None
    is_after: bool = False

    def by(self, invocation: int) -> View:
        """The same, seen by another invocation."""
        return replace(self, invocation=invocation)

    # --- names

    def names(self) -> Iterator[str]:
        """The names that values have here."""
        if self.op is None:
            return
        scope = scope_at(self.op)
        if scope is not None:
            yield from (name for name in scope.names if name.isidentifier())
        elif self.places is not None:
            yield from sorted({f"%{value.name}" for value in self.places.visible(self.op)})

    def buffers(self) -> Iterator[str]:
        """The names of the buffers of the program that runs; of the pipeline at its end."""
        if self.op is None or self.machine is None:
            yield from self.storages
        else:
            yield from self.machine.storages

    def lookup(self, name: str, of_all: bool) -> Any:
        """Value of a name; `of_all`: an array of the values in the lanes of the frame.  Raises LookupError."""
        mangled = _MANGLED.fullmatch(name)
        if mangled is not None:
            plain = bytes.fromhex(mangled[2]).decode()
            if mangled[1] == "buffer":
                return self.buffer(plain)
            return self._visible(plain, of_all)
        scope = scope_at(self.op) if self.op is not None else None
        if scope is not None and name in scope.names:
            return self._bound(scope.names[name], name, of_all)
        try:
            return self._visible(name, of_all)
        except KeyError:
            pass
        try:
            return self.buffer(name)
        except KeyError:
            return self._constant(name)

    def _bound(self, binding: Any, name: str, of_all: bool) -> Any:
        """Binding of a name of Python."""
        if isinstance(binding, BufferName):
            return self.buffer(binding.name)
        if isinstance(binding, ValueName):
            assert self.places is not None
            return self._register(self.places.values[binding.name], name, of_all)
        if isinstance(binding, LocalName):
            return _LocalValues([self._bound(part, name, of_all) for part in binding.parts], binding.shape)
        if isinstance(binding, tuple):
            parts = tuple(self._bound(part, name, of_all) for part in binding)
            make = getattr(type(binding), "_make", tuple)  # of a NamedTuple
            return make(parts)
        return binding

    def _visible(self, name: str, of_all: bool) -> Any:
        if self.op is None or self.places is None:
            raise KeyError(name)
        own = self.op.results if self.is_after else ()
        for value in (*own, *self.places.visible(self.op)):
            if value.name == name:
                return self._register(value, f"%{name}", of_all)
        raise KeyError(name)

    def _register(self, value: Value, name: str, of_all: bool) -> Any:
        """The value of an invocation, or those of all lanes of the frame."""
        above: list[Frame] = []
        frame = self.frame
        while frame is not None and value not in frame.values:
            above.append(frame)
            frame = frame.parent
        if frame is None:
            raise ExpressionError(f"{name} is not computed yet")
        array = frame.values[value]
        if of_all:
            for inner in reversed(above):
                if len(array) != 1:
                    array = array[inner.picked]
            return array
        if len(array) == 1:
            return array[0]
        if self.invocation is not None:
            at = int(np.searchsorted(frame.invocations, self.invocation))
            if at < frame.size and int(frame.invocations[at]) == self.invocation:
                return array[at]
        raise ExpressionError(f"{name} has no value in this invocation, which does not come here")

    def buffer(self, name: str) -> Any:
        """The elements of a buffer, of workgroup memory those of the invocation's workgroup; masked where nothing has written.

        Raises KeyError.
        """
        machine = self.machine
        storage = self.storages.get(name) if self.op is None else None
        if storage is None:
            storage = machine.storages.get(name) if machine is not None else None
        if storage is None:
            storage = self.storages[name]
        data, written = storage.data, storage.written
        if storage.rows is not None:
            section = slice(self._section(storage) * storage.scalars, None)
            data, written = (
                data[section][: storage.scalars],
                None if written is None else written[section][: storage.scalars],
            )
        lanes = storage.buffer.dtype.lanes
        shape = (*storage.shape, lanes) if lanes > 1 else storage.shape
        array = from_storage(data, storage.buffer.dtype).reshape(shape)
        if written is None or written.all():
            return array
        return np.ma.masked_array(array, ~written.reshape(shape))

    def _section(self, storage: Storage) -> int:
        """Section of on-chip memory that belongs to the invocation's workgroup."""
        assert self.machine is not None
        assert storage.rows is not None
        if self.frame is None or self.invocation is None:
            return 0
        return (self.invocation // self.machine.program.lanes - self.frame.batch.first) // storage.rows

    def _constant(self, name: str) -> Any:
        """A runtime scalar or a specialization constant of the program.  Raises KeyError."""
        if self.machine is None:
            raise KeyError(name)
        program, call = self.machine.program, self.machine.call
        if name in program.params:
            param = program.params[name]
            return constant_register(value_of_word(call.params[name], param), param.dtype)[0]
        return constant_register(call.specs[name], program.specs[name].dtype)[0]


class _LocalValues(tuple[Any, ...]):
    """The elements of an array of an invocation's own, each a number, or an array of what the lanes have."""

    shape: tuple[int, ...]

    def __new__(cls, parts: Iterable[Any], shape: tuple[int, ...]) -> _LocalValues:
        values = super().__new__(cls, parts)
        values.shape = shape
        return values

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            index = int(np.ravel_multi_index(tuple(map(int, index)), self.shape))
        return super().__getitem__(index)


class _Names(dict[str, Any]):
    """The names of an expression, looked up when it asks for them."""

    def __init__(self, view: View, of_all: bool) -> None:
        super().__init__()
        self.view, self.of_all = view, of_all

    def __missing__(self, name: str) -> Any:
        try:
            return self.view.lookup(name, self.of_all)
        except KeyError:
            pass
        if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        function = getattr(np, name, None)
        if isinstance(function, np.ufunc):
            return function
        raise ExpressionError(f"there is no {name} here")


class Expression:
    """A Python expression of names, and of the language's `%value` and `@buffer`."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError."""
        self.text = text
        try:
            tree = ast.parse(_SYMBOL.sub(_mangled, text.strip()), "<expression>", "eval")
            self.code = compile(tree, "<expression>", "eval")
            of_lanes = ast.fix_missing_locations(_OfLanes().visit(tree))
            self._code_of_lanes = compile(of_lanes, "<expression>", "eval")
        except (SyntaxError, ValueError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ExpressionError(f"{text}: {reason}") from None

    def value(self, view: View, of_all: bool = False) -> Any:
        """Its value for the view's invocation, or the array of those for all lanes of its frame.  Raises ExpressionError."""
        try:
            with np.errstate(all="ignore"):
                code = self._code_of_lanes if of_all else self.code
                return eval(code, {"__builtins__": {}}, _Names(view, of_all))
        except ExpressionError:
            raise
        except Exception as error:  # of what the reader has written
            text = str(error) or type(error).__name__
            raise ExpressionError(f"{self.text}: {text}", is_of_arrays=of_all) from None


class _OfLanes(ast.NodeTransformer):
    """`and`, `or`, `not` and chains of comparisons, which are of one number, as what NumPy does with arrays."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _joined("logical_and" if isinstance(node.op, ast.And) else "logical_or", node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _called("logical_not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return _joined("logical_and", [ast.Compare(left, [op], [right]) for left, op, right in pairs])


def _joined(function: str, values: list[ast.expr]) -> ast.expr:
    first, *others = values
    for value in others:
        first = _called(function, first, value)
    return first


def _called(function: str, *arguments: ast.expr) -> ast.expr:
    function_of = ast.Attribute(ast.Name("np", ast.Load()), function, ast.Load())
    return ast.Call(function_of, [*arguments], [])


def _mangled(match: re.Match[str]) -> str:
    kind = "value" if match[1] == "%" else "buffer"
    return f"{kind}__{match[2].encode().hex()}"


def show(value: Any, threshold: int = 64) -> str:
    """A value for the reader: numbers as they are written, arrays of more than `threshold` elements by their ends."""
    if (
        isinstance(value, np.ma.MaskedArray) and 0 < value.size <= threshold
    ):  # NumPy shows its f32 with the digits of f64
        texts = np.where(np.ma.getmaskarray(value), "--", value.data.astype(str)).astype(object)
        return np.array2string(texts, max_line_width=100, formatter={"object": str})
    if isinstance(value, (np.generic, np.ndarray)):
        with np.printoptions(threshold=threshold, linewidth=100):
            return str(value)
    if isinstance(value, _LocalValues):
        return show(np.array([*value]).reshape(value.shape), threshold)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = zip(value._fields, value, strict=True)
        return f"{type(value).__name__}({', '.join(f'{name}={show(part)}' for name, part in pairs)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(show, value))}{',' * (len(value) == 1)})"
    return repr(value)
