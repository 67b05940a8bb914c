"""The body of a program, written op by op in one of two languages: `.vyre` text, or Python for `@vyre_opt.program`.

A template calls these methods once, and has its source in either language.  Operands are names or literals as the
language has them; `lit` writes a literal of a type.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

__all__ = ["PythonSource", "Source", "TextSource"]

Values = list[str]


class Source:
    """What both languages share: lines, their depth, names."""

    is_python = False

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.functions: list[str] = []
        """Functions that the body calls."""
        self.header: list[str] = []
        """Declarations: memory of workgroups, specs."""

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str, end: str = "") -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1
        if end:
            self.line(end)

    # the languages

    def lit(self, text: str, ty: str) -> str:
        raise NotImplementedError

    def op(self, name: str, *operands: str, ty: str) -> str:
        raise NotImplementedError

    def cast(self, value: str, source: str, target: str) -> str:
        raise NotImplementedError

    def call(self, function: str, value: str, ty: str) -> str:
        raise NotImplementedError

    def id(self, name: str, axis: int = 0) -> str:
        raise NotImplementedError

    def length(self, buffer: str, axis: int, dimensions: int) -> str:
        raise NotImplementedError

    def param(self, name: str, ty: str) -> str:
        raise NotImplementedError

    def load(self, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> str:
        raise NotImplementedError

    def store(self, value: str, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> None:
        raise NotImplementedError

    def atomic(self, op: str, buffer: str, at: str, value: str, ty: str) -> str:
        raise NotImplementedError

    def when(self, condition: str) -> AbstractContextManager[None]:
        raise NotImplementedError

    def choose(self, condition: str, then: Callable[[], str], otherwise: str, ty: str) -> str:
        """`then` where the condition holds, computed only there."""
        raise NotImplementedError

    def loop(
        self,
        low: str,
        high: str,
        step: str,
        carried: str | None,
        ty: str,
        body: Callable[[str, str], str | None],
    ) -> str:
        """A `for`; `body` takes the counter, a u32, and the carried value, and gives the next one."""
        raise NotImplementedError

    def while_(
        self,
        initial: Sequence[str],
        types: Sequence[str],
        condition: Callable[[Values], str],
        body: Callable[[Values], Values],
    ) -> Values:
        raise NotImplementedError

    def shared(self, ty: str, count: int, memory: str = "workgroup") -> str:
        raise NotImplementedError

    def barrier(self, scope: str = "workgroup") -> None:
        raise NotImplementedError

    def subgroup(self, op: str, value: str, ty: str, *, by: str = "") -> str:
        """`op`: `reduce<add>`, `scan<inclusive, add>` or `shuffle<xor>`, the last one by so many lanes."""
        raise NotImplementedError

    def print(self, text: str, values: Sequence[str]) -> None:
        raise NotImplementedError

    def check(self, condition: str, message: str) -> None:
        raise NotImplementedError

    def copy(self, buffer: str, at: str, tile: str, place: str, ty: str) -> None:
        """An asynchronous copy of one element from a buffer to a tile."""
        raise NotImplementedError

    def wait(self) -> None:
        raise NotImplementedError


_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "xor": "^",
    "and": "&",
    "or": "|",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
_AXES = "xyz"


class TextSource(Source):
    def lit(self, text: str, ty: str) -> str:
        return text

    def op(self, name: str, *operands: str, ty: str) -> str:
        return self._result(f"{name} {', '.join(operands)} : {ty}")

    def _result(self, text: str) -> str:
        name = f"%{self.fresh()}"
        self.line(f"{name} = {text}")
        return name

    def cast(self, value: str, source: str, target: str) -> str:
        return value if source == target else self._result(f"cast {value} : {source} -> {target}")

    def call(self, function: str, value: str, ty: str) -> str:
        return self._result(f"call @{function}({value}) : ({ty}) -> {ty}")

    def id(self, name: str, axis: int = 0) -> str:
        has_axis = name not in ("lane_id", "subgroup_id", "subgroup_size", "num_subgroups")
        return self._result(f"{name} {_AXES[axis]}" if has_axis else name)

    def length(self, buffer: str, axis: int, dimensions: int) -> str:
        return self._result(f"len @{buffer}" + (f", {axis}" if dimensions > 1 else ""))

    def param(self, name: str, ty: str) -> str:
        return self._result(f"param @{name} : {ty}")

    def spec(self, name: str, ty: str) -> str:
        return self._result(f"spec @{name} : {ty}")

    def load(self, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> str:
        if lanes:
            at = [self.op("mul", at[0], str(lanes), ty="u32")]
        return self._result(f"load @{buffer}[{', '.join(at)}] : {_vector(ty, lanes)}")

    def store(self, value: str, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> None:
        if lanes:
            at = [self.op("mul", at[0], str(lanes), ty="u32")]
        self.line(f"store {value}, @{buffer}[{', '.join(at)}] : {_vector(ty, lanes)}")

    def atomic(self, op: str, buffer: str, at: str, value: str, ty: str) -> str:
        return self._result(f"atomic_{op} @{buffer}[{at}], {value} : {ty}")

    def when(self, condition: str) -> AbstractContextManager[None]:
        return self.block(f"if {condition} {{", "}")

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        with self.block(f"region @{name} {{", "}"):
            yield

    def choose(self, condition: str, then: Callable[[], str], otherwise: str, ty: str) -> str:
        result = f"%{self.fresh()}"
        with self.block(f"{result} = if {condition} -> {ty} {{"):
            self.line(f"yield {then()}")
        with self.block("} else {", "}"):
            self.line(f"yield {otherwise}")
        return result

    def loop(
        self,
        low: str,
        high: str,
        step: str,
        carried: str | None,
        ty: str,
        body: Callable[[str, str], str | None],
    ) -> str:
        k = f"%{self.fresh('k')}"
        head = f"for {k} = {low} to {high} step {step}"
        if carried is None:
            with self.block(f"{head} {{", "}"):
                body(k, "")
            return ""
        result, value = f"%{self.fresh()}", f"%{self.fresh('a')}"
        with self.block(f"{result} = {head} iter({value} = {carried} : {ty}) {{", "}"):
            self.line(f"yield {body(k, value)}")
        return result

    def while_(
        self,
        initial: Sequence[str],
        types: Sequence[str],
        condition: Callable[[Values], str],
        body: Callable[[Values], Values],
    ) -> Values:
        results = [f"%{self.fresh()}" for _ in initial]
        names = [f"%{self.fresh('w')}" for _ in initial]
        carried = ", ".join(f"{n} = {i} : {t}" for n, i, t in zip(names, initial, types, strict=True))
        with self.block(f"{', '.join(results)} = while iter({carried}) {{"):
            self.line(f"condition {condition(names)}")
        with self.block("} do {", "}"):
            self.line(f"yield {', '.join(body(names))}")
        return results

    def shared(self, ty: str, count: int, memory: str = "workgroup") -> str:
        name = self.fresh("t")
        self.header.append(f"buffer @{name} : {ty}[{count}] {memory}")
        return name

    def barrier(self, scope: str = "workgroup") -> None:
        self.line(f"barrier {scope}")

    def subgroup(self, op: str, value: str, ty: str, *, by: str = "") -> str:
        return self._result(f"subgroup_{op} {value}{', ' if by else ''}{by} : {ty}")

    def print(self, text: str, values: Sequence[str]) -> None:
        self.line(f'debug_print "{text}" {", ".join(values)}')

    def check(self, condition: str, message: str) -> None:
        self.line(f'assert {condition}, "{message}"')

    def copy(self, buffer: str, at: str, tile: str, place: str, ty: str) -> None:
        value = self.load(buffer, [at], ty)
        self.line(f"copy_async {value}, @{tile}[{place}] : {ty}")

    def wait(self) -> None:
        self.line("copy_wait 0")


def _vector(ty: str, lanes: int) -> str:
    return f"vec<{lanes} x {ty}>" if lanes else ty


class PythonSource(Source):
    is_python = True

    def lit(self, text: str, ty: str) -> str:
        return {"true": "True", "false": "False"}.get(text, f"{ty}({text})")

    def op(self, name: str, *operands: str, ty: str) -> str:
        if name == "not":
            return self._result(f"not {operands[0]}" if ty == "bool" else f"~{operands[0]}")
        if name == "select":
            return self._result(f"{operands[1]} if {operands[0]} else {operands[2]}")
        if name in _INFIX and (ty != "bool" or name in _COMPARES) and self.rng.random() < 0.8:
            return self._result(f"{operands[0]} {_INFIX[name]} {operands[1]}")
        name = {"and": "and_", "or": "or_", "not": "not_"}.get(name, name)
        return self._result(f"vyre.{name}({', '.join(operands)})")

    def _result(self, text: str) -> str:
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def cast(self, value: str, source: str, target: str) -> str:
        return value if source == target else self._result(f"{target}({value})")

    def call(self, function: str, value: str, ty: str) -> str:
        return self._result(f"{function}({value})")

    def id(self, name: str, axis: int = 0) -> str:
        has_axis = name not in ("lane_id", "subgroup_id", "subgroup_size", "num_subgroups")
        return self._result(f"vyre.{name}({axis if has_axis else ''})")

    def length(self, buffer: str, axis: int, dimensions: int) -> str:
        return self._result(
            f"{buffer}.shape[{axis}]" if dimensions > 1 or self.rng.random() < 0.2 else f"len({buffer})"
        )

    def param(self, name: str, ty: str) -> str:
        return name

    def load(self, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> str:
        array = f"{buffer}.vec({lanes})" if lanes else buffer
        return self._result(f"{array}[{', '.join(at)}]")

    def store(self, value: str, buffer: str, at: Sequence[str], ty: str, lanes: int = 0) -> None:
        array = f"{buffer}.vec({lanes})" if lanes else buffer
        self.line(f"{array}[{', '.join(at)}] = {value}")

    def atomic(self, op: str, buffer: str, at: str, value: str, ty: str) -> str:
        return self._result(f"vyre.atomic_{op}({buffer}, {at}, {value})")

    def when(self, condition: str) -> AbstractContextManager[None]:
        return self.block(f"if {condition}:")

    def choose(self, condition: str, then: Callable[[], str], otherwise: str, ty: str) -> str:
        result = self.fresh()
        with self.block(f"if {condition}:"):
            self.line(f"{result} = {then()}")
        with self.block("else:"):
            self.line(f"{result} = {otherwise}")
        return result

    def loop(
        self,
        low: str,
        high: str,
        step: str,
        carried: str | None,
        ty: str,
        body: Callable[[str, str], str | None],
    ) -> str:
        k, value = self.fresh("k"), self.fresh("a")
        if carried is not None:
            self.line(f"{value} = {carried}")
        with self.block(f"for {k} in range({low}, {high}, {step}):"):
            next_value = body(k, value)
            if carried is not None:
                self.line(f"{value} = {next_value}")
        return value

    def while_(
        self,
        initial: Sequence[str],
        types: Sequence[str],
        condition: Callable[[Values], str],
        body: Callable[[Values], Values],
    ) -> Values:
        names = [self.fresh("w") for _ in initial]
        for name, value in zip(names, initial, strict=True):
            self.line(f"{name} = {value}")
        with self.block("while True:"):
            holds = condition(names)
            with self.block(f"if not {holds}:"):
                self.line("break")
            self.line(f"{', '.join(names)} = {', '.join(body(names))}")
        return names

    def shared(self, ty: str, count: int, memory: str = "workgroup") -> str:
        name = self.fresh("t")
        where = "" if memory == "workgroup" else f', "{memory}"'
        self.lines.insert(0, f"  {name} = vyre.shared({ty}, {count}{where})")
        return name

    def barrier(self, scope: str = "workgroup") -> None:
        self.line("vyre.barrier()" if scope == "workgroup" else f'vyre.barrier("{scope}")')

    def subgroup(self, op: str, value: str, ty: str, *, by: str = "") -> str:
        name, _, rest = op.partition("<")
        words = [word.strip() for word in rest.rstrip(">").split(",")]
        arguments = [value, *([by] if by else []), *[f'"{word}"' for word in words]]
        return self._result(f"vyre.subgroup_{name}({', '.join(arguments)})")

    def print(self, text: str, values: Sequence[str]) -> None:
        self.line(f'vyre.debug_print("{text}", {", ".join(values)})')

    def check(self, condition: str, message: str) -> None:
        self.line(f'assert {condition}, "{message}"')

    def copy(self, buffer: str, at: str, tile: str, place: str, ty: str) -> None:
        self.line(f"vyre.copy_async({tile}, {place}, {buffer}, {at}, 1)")

    def wait(self) -> None:
        self.line("vyre.copy_wait()")
