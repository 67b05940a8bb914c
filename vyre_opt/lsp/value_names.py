"""Values of an item's text: the `%names` that mean one value.

Read from the text and its blocks alone, so that it works while the text does not parse.  A name means the innermost
definition before it.  The results of an op with blocks are visible behind its last block; the counter and the iteration
arguments of a loop are in its blocks.
"""

from __future__ import annotations

import re
from dataclasses import field

from ..records import dataclass
from .text_parts import Span

__all__ = ["Binding", "bindings", "value_at", "visible_names"]

_NAME = re.compile(r"%[\w.$]+", re.ASCII)
_SIGNS = r"""//[^\n]*+ | "(?:[^"\\\n]|\\.)*+" | (?P<brace>[{}]) | (?P<close>\)) | (?P<iter>\biter\s*\(|\^\s*\()
             | (?P<func>\bfunc\b[^({\n]*\() | (?P<word>\b(?:for|while|do|else)\b)"""
_DEFINES = re.compile(
    r"(?:[ \t]*,[ \t]*%[\w.$]+){0,63}\s*=\s*(?:(?P<block>for|while|if|region)\b)?", re.ASCII
)


_NOWHERE = Span(0, 0)


@dataclass(slots=True, eq=False)
class Binding:
    """A value by the places of its name: `definitions`, of which a loop's argument has one, and `uses`.

    `visible`: from where to where the name means it.
    """

    definitions: list[Span] = field(default_factory=list)
    uses: list[Span] = field(default_factory=list)
    visible: Span = _NOWHERE

    @property
    def places(self) -> list[Span]:
        return sorted([*self.definitions, *self.uses])


@dataclass(slots=True)
class _Block:
    """`binding`: what the name means in it.  `pending`: what it means behind the op that is being read."""

    start: int
    binding: Binding | None = None
    pending: Binding | None = None
    arguments: Binding | None = None  # of the blocks that the op opens


def value_at(text: str, offset: int) -> tuple[str, Span] | None:
    """The `%name` that an offset is in, or right behind."""
    line = text.rfind("\n", 0, offset) + 1
    for match in _NAME.finditer(text, line):
        if match.start() > offset:
            break
        if match.end() >= offset:
            return match[0], Span(*match.span())
    return None


def bindings(item: str, name: str) -> list[Binding]:
    """The values that `%name` means in the text of an item; one without definitions has the uses that mean nothing."""
    return _Reader(item, name).read()


class _Reader:
    def __init__(self, item: str, name: str) -> None:
        self.item = item
        self.pattern = re.compile(rf"{_SIGNS} | (?P<name>{re.escape(name)}(?![\w.$]))", re.ASCII | re.VERBOSE)
        self.blocks = [_Block(0)]
        self.bindings: list[Binding] = []
        self.unbound = Binding()
        self.in_arguments = ""  # the parenthesis that is open: of arguments, or of a func

    def read(self) -> list[Binding]:
        word = ""
        for match in self.pattern.finditer(self.item):
            kind, place = match.lastgroup, match.start()
            if kind == "name":
                self._name(Span(*match.span()), word)
            elif kind == "brace":
                self._brace(match[0], place)
            elif kind == "close":
                self.in_arguments = ""
            elif kind in ("iter", "func"):
                self.in_arguments = match[0]
            word = match[0] if kind == "word" else ""
        while self.blocks:
            self._close(len(self.item))
        return [*self.bindings, *([self.unbound] if self.unbound.uses else [])]

    def _name(self, span: Span, word: str) -> None:
        block = self.blocks[-1]
        defines = _DEFINES.match(self.item, span.end)
        if self.in_arguments and (defines or self.in_arguments[0] in "^f"):
            if self.in_arguments[0] == "^":  # its block is open already
                self._bind(block, self._new(span))
            else:
                block.arguments = self._new(span)
        elif defines and word == "for":
            block.arguments = self._new(span)
        elif defines:
            binding = self._new(span)
            if defines["block"]:
                block.pending = binding
            else:
                self._bind(block, binding)
        else:
            binding = next((b.binding for b in reversed(self.blocks) if b.binding is not None), self.unbound)
            binding.uses.append(span)

    def _brace(self, brace: str, place: int) -> None:
        if brace == "{":
            inner = _Block(place)
            if (arguments := self.blocks[-1].arguments) is not None:
                inner.binding = arguments
                if not arguments.visible.end:
                    arguments.visible = Span(place, 0)
            self.blocks.append(inner)
        elif len(self.blocks) > 1:
            self._close(place)
            block = self.blocks[-1]
            if not re.compile(r"\s*(?:else|do)\b").match(self.item, place + 1):
                block.arguments = None
                if block.pending is not None:
                    self._bind(block, block.pending)
                    block.pending.visible = Span(place, 0)
                    block.pending = None

    def _new(self, span: Span) -> Binding:
        binding = Binding([span], [], Span(span.start, 0))
        self.bindings.append(binding)
        return binding

    def _bind(self, block: _Block, binding: Binding) -> None:
        if block.binding is not None:
            block.binding.visible = Span(block.binding.visible.start, binding.visible.start)
        block.binding = binding

    def _close(self, place: int) -> None:
        block = self.blocks.pop()
        for binding in (block.binding, block.pending, block.arguments):
            if binding is not None:
                binding.visible = Span(binding.visible.start, max(place, binding.visible.end))


_DEFINITIONS = re.compile(
    r"""//[^\n]*+ | "(?:[^"\\\n]|\\.)*+" | (?P<brace>[{}]) | (?P<close>\)) | (?P<iter>\biter\s*\(|\^\s*\()
      | (?P<func>\bfunc\b[^({\n]*\() | (?P<loop>\bfor\b) | (?P<names>%[\w.$]+(?:[ \t]*,[ \t]*%[\w.$]+)*)(?P<defines>\s*=)?""",
    re.ASCII | re.VERBOSE,
)


def visible_names(before: str) -> list[str]:
    """The `%names` that mean something at the end of the start of an item, in the order of their definitions."""
    blocks: list[list[str]] = [[]]
    arguments: list[str] = []
    opened = ""
    is_counter = False
    for match in _DEFINITIONS.finditer(before):
        kind = match.lastgroup
        if kind in ("iter", "func"):
            opened = match[0]
        elif kind == "close":
            opened = ""
        elif match["brace"] == "{":
            blocks.append(arguments)
            arguments = []
        elif match["brace"] == "}" and len(blocks) > 1:
            blocks.pop()
        elif match["names"]:
            names = [name.strip() for name in match["names"].split(",")]
            if opened[:1] == "^":
                blocks[-1] += names
            elif opened[:1] == "f" or (match["defines"] and (opened or is_counter)):
                arguments += names
            elif match["defines"]:
                blocks[-1] += names
        is_counter = kind == "loop"
    return list(dict.fromkeys(name for names in blocks for name in names))
