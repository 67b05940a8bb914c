"""The text of one function of MLIR, written line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..ir.program import Program
from .helper_key import HelperKey

if TYPE_CHECKING:
    from ..ir.diagnostics import Location

from .spelling import name_of, quoted

__all__ = ["Code", "HelperSet"]


class HelperSet:
    """The helper functions of one gpu.module, by symbol, in the order in which their definitions were complete.

    `define`: writes the text of one.  Helpers that speak of a workgroup's size are those of `program`.  `space`: the memory
    space of storage.
    """

    def __init__(
        self, program: Program, define: Callable[[HelperKey, HelperSet], str], space: str = ""
    ) -> None:
        self.program = program
        self.space = space
        self.texts: dict[str, str] = {}
        self._define = define

    def symbol(self, key: HelperKey) -> str:
        """The symbol of a helper, which is written on first use."""
        symbol = key.symbol
        if symbol not in self.texts:
            text = self._define(key, self)
            self.texts.setdefault(symbol, text)
        return symbol


class Code:
    """`lines` of a function's body.  Values are names with their `%`; types and attributes are text.

    `located`: whether lines end in the place that `at` was last given.
    """

    def __init__(self, helpers: HelperSet, indent: str = "    ") -> None:
        self.helpers = helpers
        self.lines: list[str] = []
        self.indent = indent
        self._taken: set[str] = set()
        self._count = 0
        self._constants: list[dict[tuple[str, str], str]] = [{}]
        self._loc = ""

    def at(self, loc: Location | None) -> None:
        """The place in the source of the lines that follow."""
        self._loc = ""
        if loc is not None:
            line, column = loc.source.line_column(loc.start)
            self._loc = f" loc({quoted(loc.source.name)}:{line}:{column})"

    # --- names

    def name(self, wanted: str) -> str:
        """A free name, `wanted` if that is; one that is a number says nothing."""
        base = name_of(wanted)
        if base.isdigit():
            return self.fresh()
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return f"%{name}"

    def fresh(self) -> str:
        """A name that says nothing."""
        while True:
            name = str(self._count)
            self._count += 1
            if name not in self._taken:
                self._taken.add(name)
                return f"%{name}"

    # --- lines

    def line(self, text: str) -> None:
        """An op without results."""
        self.lines.append(f"{self.indent}{text}{self._loc}")

    def emit(self, text: str, name: str = "") -> str:
        """An op with one result, which is named like `name` if given."""
        result = self.name(name) if name else self.fresh()
        self.line(f"{result} = {text}")
        return result

    def open(self, head: str, label: str = "") -> None:
        """Begin a region: `head` is the line up to the brace, `label` the one of its block."""
        self.lines.append(f"{self.indent}{head} {{")
        if label:
            self.lines.append(f"{self.indent}{label}:")
        self.indent += "  "
        self._constants.append({})

    def next_region(self, text: str, label: str = "") -> None:
        """End a region and begin the next of the same op, with `text` between the braces."""
        self.indent = self.indent[:-2]
        self._constants[-1] = {}
        self.lines.append(f"{self.indent}}} {text} {{")
        if label:
            self.lines.append(f"{self.indent}{label}:")
        self.indent += "  "

    def close(self, tail: str = "") -> None:
        """End a region."""
        self.indent = self.indent[:-2]
        self._constants.pop()
        self.lines.append(f"{self.indent}}}{tail}{self._loc}")

    @contextmanager
    def region(self, head: str, label: str = "") -> Iterator[None]:
        self.open(head, label)
        yield
        self.close()

    # --- what every function needs

    def literal(self, literal: str, kind: str) -> str:
        """A constant of the MLIR type `kind`, written once for a block and its nested blocks."""
        for scope in self._constants:
            if (literal, kind) in scope:
                return scope[literal, kind]
        spelled = literal if not kind.startswith("vector<") else f"dense<{literal}>"
        name = self.emit(f"arith.constant {spelled}{'' if kind == 'i1' else f' : {kind}'}")
        self._constants[-1][literal, kind] = name
        return name

    def integer(self, value: int, kind: str) -> str:
        """An integer constant; one that has the highest bit set is written as a negative number."""
        bits = 64 if kind == "index" else int(kind.rpartition("i")[2].rstrip(">"))
        value &= (1 << bits) - 1
        return self.literal(str(value - (1 << bits) if value >> (bits - 1) else value), kind)

    def op(self, name: str, kind: str, *operands: str) -> str:
        """`NAME %a, %b : KIND`, whose result is of that type or, of a comparison, an i1."""
        return self.emit(f"{name} {', '.join(operands)} : {kind}")

    def compare(self, predicate: str, kind: str, a: str, b: str) -> str:
        """An integer or float comparison, by the predicate."""
        name = "arith.cmpf" if predicate[0] in "ou" and predicate not in _UNSIGNED else "arith.cmpi"
        return self.emit(f"{name} {predicate}, {a}, {b} : {kind}")

    def select(self, condition: str, kind: str, a: str, b: str) -> str:
        return self.emit(f"arith.select {condition}, {a}, {b} : {kind}")

    def convert(self, name: str, source: str, target: str, value: str) -> str:
        """`NAME %a : SOURCE to TARGET`."""
        return self.emit(f"{name} {value} : {source} to {target}")

    def intrinsic(self, stem: str, kind: str, *operands: str) -> str:
        """A call of LLVM's intrinsic that is overloaded on a type."""
        types = ", ".join([kind] * len(operands))
        call = f'llvm.call_intrinsic "{stem}.{suffix(kind)}"'
        return self.emit(f"{call}({', '.join(operands)}) : ({types}) -> {kind}")

    def call(
        self,
        key: HelperKey,
        operands: Sequence[tuple[str, str]],
        result: str = "",
        attributes: str = "",
        name: str = "",
    ) -> str:
        """Call a helper on operands, each with its MLIR type.  `result`: its type; "" if it gives nothing."""
        names, types = (", ".join(part) for part in zip(*operands, strict=True)) if operands else ("", "")
        symbol = self.helpers.symbol(key)
        text = f"func.call @{symbol}({names}){attributes} : ({types}) -> {result or '()'}"
        if result:
            return self.emit(text, name)
        self.line(text)
        return ""


_UNSIGNED = ("ult", "ule", "ugt", "uge")


def suffix(kind: str) -> str:
    """Suffix of LLVM's intrinsics for a type of MLIR: f32, v4f32."""
    if not kind.startswith("vector<"):
        return kind
    lanes, _, element = kind.removeprefix("vector<").removesuffix(">").partition("x")
    return f"v{lanes}{element}"
