"""The parameters that all functions of a program have: what the words of `args` hold, see abi.py."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...records import dataclass

__all__ = ["RANGE", "Signature"]

RANGE = (("i64", "%first"), ("i64", "%last"), ("ptr", "%scratch"), ("ptr", "%status"))
"""Type and name of the entry's parameters behind `args`."""

Typed = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Signature:
    """`buffers`: names, in the order of the arguments; `written`: names of buffers that a run changes; `scalars`: number of
    params."""

    buffers: Sequence[str]
    written: Container[str]
    scalars: int

    @property
    def words(self) -> list[Typed]:
        """Type and name of the parameters; `args` holds them in this order."""
        pointers = [("ptr", f"%b{number}") for number in range(len(self.buffers))]
        lengths = [("i64", f"%n{number}") for number in range(len(self.buffers))]
        grid = [("i32", "%gx"), ("i32", "%gy"), ("i32", "%gz"), ("i32", "%zero")]
        return [*pointers, *lengths, *grid, *(("i64", f"%p{number}") for number in range(self.scalars))]

    def declared(self, further: Sequence[Typed]) -> str:
        """The parameters of a function, and further ones.

        All pointers are `noalias`: no two buffers overlap, nor does one overlap the scratch memory.
        """
        params = []
        for kind, name in [*self.words, *further]:
            attributes = " noalias" if kind == "ptr" else ""
            if name.startswith("%b") and self.buffers[int(name[2:])] not in self.written:
                attributes += " readonly"
            params.append(f"{kind}{attributes} {name}")
        return ", ".join(params)

    def passed(self, further: Sequence[Typed]) -> str:
        """The arguments of a call within a function that has these parameters."""
        return ", ".join(f"{kind} {name}" for kind, name in [*self.words, *further])

    def define(
        self,
        name: str,
        further: Sequence[Typed],
        lines: Sequence[str],
        result: str = "void",
        attributes: str = "",
    ) -> str:
        """The text of a function that nobody else calls."""
        head = f"define internal {result} @{name}({self.declared(further)}) {attributes}nounwind {{"
        return "\n".join([head, "entry:", *lines, "}"])
