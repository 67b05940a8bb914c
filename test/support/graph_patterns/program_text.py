"""A program's text, written op by op; each access of a buffer knows its line by the name of a place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["ProgramText"]


@dataclass(slots=True)
class ProgramText:
    """`places`: line number -> place, such as `update.store`; each line holds one op."""

    lines: list[str] = field(default_factory=lambda: ["vyre 1", ""])
    places: dict[int, str] = field(default_factory=dict)
    depth: int = 0
    names: int = 0

    def line(self, text: str, place: str = "") -> None:
        self.lines.append("  " * self.depth + text)
        if place:
            self.places[len(self.lines)] = place

    def new_name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def value(self, text: str, place: str = "") -> str:
        """An op with a result -> the result's name."""
        name = self.new_name()
        self.line(f"{name} = {text}", place)
        return name

    def const(self, number: int, dtype: str = "u32") -> str:
        return self.value(f"const {number} : {dtype}")

    def op(self, name: str, a: str, b: str, dtype: str = "u32") -> str:
        return self.value(f"{name} {a}, {b} : {dtype}")

    def load(self, place: str, buffer: str, index: str, dtype: str = "u32") -> str:
        return self.value(f"load @{buffer}[{index}] : {dtype}", place)

    def store(self, place: str, buffer: str, index: str, value: str, dtype: str = "u32") -> None:
        self.line(f"store {value}, @{buffer}[{index}] : {dtype}", place)

    def atomic(self, place: str, op: str, buffer: str, index: str, value: str, dtype: str = "u32") -> str:
        """The old value."""
        return self.value(f"atomic_{op}<relaxed> @{buffer}[{index}], {value} : {dtype}", place)

    @contextmanager
    def block(self, header: str | None, end: str = "}") -> Iterator[None]:
        """What is written inside stands in a block; None: the last line has opened it."""
        if header is not None:
            self.line(f"{header} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(end)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        with self.block(f"if {condition}"):
            yield

    @contextmanager
    def counted(self, start: str, end: str, step: str) -> Iterator[str]:
        """A `for` that carries nothing; gives its counter."""
        counter = self.new_name()
        with self.block(f"for {counter} = {start} to {end} step {step}"):
            yield counter

    def __str__(self) -> str:
        return "\n".join([*self.lines, ""])
