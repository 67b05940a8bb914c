"""Line tables: the line of the user's text that each instruction comes from, as LLVM's debug metadata.

While a function is written, a mark stands before the instructions of each op; it is a comment of LLVM IR, so whoever moves
lines moves marks with them.  When the module is complete, each instruction gets the place of the mark before it:

    ;@3                          %t7 = load i32, ptr %t6, !dbg !12
    %t7 = load i32, ptr %t6      !12 = !DILocation(line: 9, column: 3, scope: !8)

A place belongs to one function, which is known only now: long bodies are cut into several (see host/outline.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from ...ir.diagnostics import Location

__all__ = ["LineTable"]

_MARK = ";@"
_HEAD = re.compile(r"^(define [^@]*@([^\s(]+)\(.*) \{$")
_ESCAPED = re.compile(r'[^ -~]|["\\]')


class LineTable:
    """The places of a module's instructions.

    `emission`: what LLVM makes of them: `DebugDirectivesOnly` for PTX, where the assembler makes the table, `FullDebug` for
    object code, whose functions have names in a debugger then.
    """

    def __init__(self, emission: str) -> None:
        self.emission = emission
        self._places: dict[tuple[str, int, int], int] = {}
        self._titles: dict[str, str] = {}
        self._nodes: list[str] = []
        self._names: dict[str, str] = {}
        self._first = 0

    def mark(self, loc: Location) -> str:
        """The line of text after which instructions are those of a place."""
        place = (loc.source.name, *loc.source.line_column(loc.start))
        return f"{_MARK}{self._places.setdefault(place, len(self._places))}"

    def title(self, symbol: str, name: str) -> None:
        """Show a function of the module under another name."""
        self._titles[symbol] = name

    def attach(self, functions: Sequence[str], first: int) -> tuple[list[str], list[str]]:
        """Texts of functions with the places of their instructions, and the metadata, numbered from `first` on."""
        places = list(self._places)
        if not places:
            return list(functions), []
        self._first, self._nodes, self._names = first, [], {}
        unit = self._new(
            f'distinct !DICompileUnit(language: DW_LANG_C, file: {self._file(places[0][0])}, producer: "vyre-opt", '
            f"isOptimized: true, emissionKind: {self.emission})"
        )
        texts = ["\n".join(self._placed(text, places, unit)) for text in functions]
        flags = [
            self._node(f'!{{i32 {behavior}, !"{name}", i32 {version}}}')
            for behavior, name, version in ((2, "Debug Info Version", 3), (7, "Dwarf Version", 4))
        ]
        named = [f"!llvm.dbg.cu = !{{{unit}}}", f"!llvm.module.flags = !{{{', '.join(flags)}}}"]
        return texts, [*named, *(f"!{first + k} = {node}" for k, node in enumerate(self._nodes))]

    def _placed(self, text: str, places: Sequence[tuple[str, int, int]], unit: str) -> Iterator[str]:
        lines = text.split("\n")
        begun = next((line for line in lines if line.startswith(_MARK)), None)
        if begun is None:  # a function of the run time
            yield from lines
            return
        start = places[int(begun.removeprefix(_MARK))]
        function, at = "", ""
        for line in lines:
            if line.startswith(_MARK):
                at = self._location(places[int(line.removeprefix(_MARK))], function, start[0])
            elif head := _HEAD.match(line):
                function = self._function(head[2], start, unit)
                at = self._location(start, function, start[0])
                yield f"{head[1]} !dbg {function} {{"
            elif line.startswith("  "):
                yield f"{line}, !dbg {at}"
            else:
                yield line

    # --- metadata

    def _new(self, text: str) -> str:
        self._nodes.append(text)
        return f"!{self._first + len(self._nodes) - 1}"

    def _node(self, text: str) -> str:
        """A node that is there once."""
        if text not in self._names:
            self._names[text] = self._new(text)
        return self._names[text]

    def _file(self, name: str) -> str:
        path = name if name.startswith("<") else os.path.abspath(name)
        return self._node(f'!DIFile(filename: "{_quoted(path)}", directory: "")')

    def _function(self, symbol: str, start: tuple[str, int, int], unit: str) -> str:
        name, file = self._titles.get(symbol, symbol.strip('"')), self._file(start[0])
        kind = self._node(f"!DISubroutineType(types: {self._node('!{}')})")
        return self._new(
            f'distinct !DISubprogram(name: "{_quoted(name)}", file: {file}, '
            f"line: {start[1]}, scopeLine: {start[1]}, type: {kind}, unit: {unit}, spFlags: DISPFlagDefinition)"
        )

    def _location(self, place: tuple[str, int, int], function: str, own_file: str) -> str:
        name, line, column = place
        scope = function
        if name != own_file:
            scope = self._node(
                f"!DILexicalBlockFile(scope: {function}, file: {self._file(name)}, discriminator: 0)"
            )
        return self._node(f"!DILocation(line: {line}, column: {min(column, 0xFFFF)}, scope: {scope})")


def _quoted(text: str) -> str:
    """Text within quotes of LLVM IR."""
    return _ESCAPED.sub(
        lambda match: "".join(f"\\{byte:02X}" for byte in match[0].encode(errors="replace")), text
    )
