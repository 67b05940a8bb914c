"""Writes LLVM IR as text.

llvmlite's parser takes text in any case, and writing it directly costs a tenth of building
the module through llvmlite's objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.diagnostics import Location
from . import intrinsics
from .line_tables import LineTable

__all__ = ["ModuleText", "Writer"]


class ModuleText:
    """The parts of a module's text: globals, declarations, functions, metadata.

    `rounds_to_bf16`: whether the target has an instruction that rounds a float to bf16.  `lines`: the lines of instructions,
    where they are wanted.
    """

    def __init__(
        self, triple: str, layout: str, rounds_to_bf16: bool = False, lines: LineTable | None = None
    ) -> None:
        self.triple = triple
        self.layout = layout
        self.rounds_to_bf16 = rounds_to_bf16
        self.lines = lines
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.metadata: list[str] = []
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()

    def declare(self, name: str, result: str, params: Sequence[str]) -> None:
        """Declare a function once; an `llvm.` name must be an allowed intrinsic."""
        if name in self._declared or name in self._defined:
            return
        if name.startswith("llvm."):
            intrinsics.check(name)
        self._declared[name] = f"declare {result} @{name}({', '.join(params)})"

    def define(self, name: str, text: str, title: str = "") -> None:
        """Add a function's text, unless there is one of this name.  `title`: its name in a debugger."""
        if name not in self._defined:
            self._defined.add(name)
            self.functions.append(text)
            if title and self.lines is not None:
                self.lines.title(name, title)

    def defines(self, name: str) -> bool:
        return name in self._defined

    def plain_loop(self) -> str:
        """The name of metadata for another loop, which LLVM's passes are not to unroll, unswitch or split."""
        if not self.metadata:
            self.metadata.append('!0 = !{!"llvm.loop.disable_nonforced"}')
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = distinct !{{{name}, !0}}")
        return name

    def text(self) -> str:
        head = [f'target datalayout = "{self.layout}"', f'target triple = "{self.triple}"']
        functions, metadata = self.functions, self.metadata
        if self.lines is not None:
            functions, nodes = self.lines.attach(functions, len(metadata))
            metadata = [*metadata, *nodes]
        parts = [*head, *self.globals, *self._declared.values(), *functions, *metadata]
        return "\n".join(parts) + "\n"


class Writer:
    """The body of one function: fresh names, instructions, basic blocks."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.lines: list[str] = []
        self.block = "entry"
        self._number = 0
        self._loc: Location | None = None

    def at(self, loc: Location | None) -> Location | None:
        """Let the instructions that follow be those of a place of the user's text; returns the place of those before.

        None: they stay those of the place before.
        """
        before, table = self._loc, self.module.lines
        if table is not None and loc is not None:
            self._loc = loc
            self.lines.append(table.mark(loc))
        return before

    def fresh(self, hint: str = "") -> str:
        """A new value name, `%7` or `%hint.7`."""
        self._number += 1
        return f"%{hint}.{self._number}" if hint else f"%t{self._number}"

    def label(self, hint: str) -> str:
        """A new block name, without its `%`."""
        self._number += 1
        return f"{hint}.{self._number}"

    def emit(self, instruction: str) -> str:
        """Write an instruction with a result; returns its name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def line(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def start(self, label: str) -> None:
        """Start a block; the one before must have ended in a terminator."""
        self.lines.append(f"{label}:")
        self.block = label

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def fall_into(self, label: str) -> None:
        """End the block with a branch to `label`, and start that block."""
        self.branch(label)
        self.start(label)

    def branch_if(self, condition: str, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def phi(self, dtype: str, incoming: Sequence[tuple[str, str]]) -> str:
        """A phi of (value, block) pairs; it must stand first in its block."""
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        return self.emit(f"phi {dtype} {pairs}")

    def call(self, name: str, result: str, args: Sequence[tuple[str, str]]) -> str:
        """Declare and call a function with (type, value) arguments; the result's name, or "" for void."""
        self.module.declare(name, result, [dtype for dtype, _ in args])
        text = f"call {result} @{name}({', '.join(f'{dtype} {value}' for dtype, value in args)})"
        if result == "void":
            self.line(text)
            return ""
        return self.emit(text)
