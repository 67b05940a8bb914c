"""The form of the printer for texts that people write: its spaces and indentation, with comments where they stand.

Tokens stay as they are, in their order; only the space between them changes.  A statement is on one line, unless a
comment stands inside of it.  One empty line is left where there were several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache
from typing import NamedTuple

from ..ir.ops import OPS
from ..records import dataclass
from ..syntax.parser import tables
from .text_parts import Span

__all__ = ["formatted"]

_COMMENT = re.compile(r"//[^\n]*")
_DECLARATIONS = ("buffer", "spec", "param")
_STATEMENTS = frozenset(
    {
        *_DECLARATIONS,
        "program",
        "func",
        "pipeline",
        "launch",
        "fill",
        "host_read",
        "repeat",
        "for",
        "while",
        "if",
    }
)
_OPENING, _CLOSING = "([<", ")]>"
_LEVEL = "  "
_CONTINUATION = "    "


class _Token(NamedTuple):
    """`terminal`: its name in the grammar; `gap`: what stands before it."""

    terminal: str
    text: str
    gap: str


def formatted(text: str, broken: Sequence[Span] = ()) -> str:
    """A text in the printer's form, but for its parts that do not parse, which stay as they are."""
    parts, end = [], 0
    for span in (*broken, Span(len(text), len(text))):
        whole = text[end : span.start]
        if whole.strip():
            empty = "\n" * (len(whole) - len(whole.rstrip("\n")) > 1 and span.start < len(text))
            parts.append(_formatted(whole) + empty)
        else:
            parts.append(whole)
        parts.append(text[span.start : span.end])
        end = span.end
    return "".join(parts)


def _formatted(text: str) -> str:
    """A text that parses, in the form.  Raises ValueError if that would change anything else."""
    tokens = list(_tokens(text))
    result = _Formatter(tokens).text()
    if [token[:2] for token in _tokens(result)] != [token[:2] for token in tokens] or _comments(
        result
    ) != _comments(text):
        raise ValueError("the form would change more than space")
    return result


def _comments(text: str) -> list[str]:
    return [comment.rstrip() for token in _tokens(text) for comment in _COMMENT.findall(token.gap)]


@cache
def _terminals() -> list[str]:
    return tables.load().terminals


def _tokens(text: str) -> Iterator[_Token]:
    """All tokens; the last one is the end of the text."""
    names, end = _terminals(), 0
    for match in tables.load().pattern.finditer(text):
        group = match.lastindex or 0
        start, stop = match.span(group)
        if names[group] == "$BAD":
            raise ValueError(f"{match[group]!r} is no token")
        written = match[group]
        if names[group] == "RESULTS":
            written = f"{', '.join(name.strip() for name in written[:-1].split(','))} ="
        yield _Token(names[group], written, text[end:start])
        end = stop


@dataclass(slots=True)
class _Formatter:
    """`brackets`: what is open within the statement; a brace there is one of attributes.  `blocks`: of a generic op or not."""

    tokens: list[_Token]
    lines: list[str] = field(default_factory=list)
    line: str = ""
    level: int = 0
    brackets: list[str] = field(default_factory=list)
    outer: list[list[str]] = field(default_factory=list)
    behind: dict[int, tuple[str, str]] = field(
        default_factory=dict
    )  # code and comment of a line that has both
    head: str = ""  # the word that the statement begins with

    def text(self) -> str:
        last = _Token("", "", "")
        for number, token in enumerate(self.tokens):
            following = self.tokens[number + 1] if number + 1 < len(self.tokens) else token
            self._comments(token, last)
            if token.terminal == tables.END:
                break
            self._token(token, last, following)
            last = token
        self._end_line()
        self._align_comments()
        return "\n".join(self.lines).rstrip("\n") + "\n"

    def _token(self, token: _Token, last: _Token, following: _Token) -> None:
        text = token.text
        if text == "}" and not (self.brackets and self.brackets[-1] == "{"):
            self._end_line()
            while self.lines and not self.lines[-1]:
                self.lines.pop()
            self.level = max(0, self.level - 1)
            self.brackets = self.outer.pop() if self.outer else []
            self._write("}", "")
            return
        if self._begins(token, last):
            self._end_line()
            self.brackets = []
            self.head = "" if token.terminal == "RESULTS" else text
        elif last.terminal == "RESULTS" and not self.brackets:
            self.head = text
        self._write(text, " " if _is_spaced(last, token, self.head, bool(self.brackets)) else "")
        if text == "{" and self._opens_block(following):
            self.outer.append(self.brackets)
            self.brackets = []
            self.level += 1
            if following.text != "^":
                self._end_line()
        elif text in _OPENING or text == "{":
            self.brackets.append(text)
        elif (text in _CLOSING or text == "}") and self.brackets:
            self.brackets.pop()
            if text == ")" and self.line.rpartition("{")[2].startswith(" ^("):
                self._end_line()  # the arguments of a block in the generic form

    def _begins(self, token: _Token, last: _Token) -> bool:
        """Whether a token begins a statement."""
        if self.brackets:
            return False
        if token.terminal == "RESULTS":
            return last.text != "for"
        if last.terminal == "RESULTS":
            return False
        if token.terminal in ("KERNEL", "STRING"):
            return last.text not in ("trap", "debug_print", ",")
        return token.text in _STATEMENTS or token.text in OPS

    def _opens_block(self, following: _Token) -> bool:
        if following.text == "^":
            return True
        return self.head != "launch" and "." not in self.head and not self.head.startswith('"')

    def _align_comments(self) -> None:
        """Let the comments behind the code of neighbouring lines begin in one column."""
        for number, (code, comment) in self.behind.items():
            first = last = number
            while first - 1 in self.behind:
                first -= 1
            while last + 1 in self.behind:
                last += 1
            column = max(len(self.behind[line][0]) for line in range(first, last + 1))
            self.lines[number] = f"{code:{column}}  {comment}"

    # --- lines ------------------------------------------------------------------------

    def _write(self, text: str, space: str) -> None:
        if self.line:
            self.line += space + text
        else:
            level = self.level
            self.line = _LEVEL * level + text

    def _end_line(self) -> None:
        if self.line:
            self.lines.append(self.line.rstrip())
            self.line = ""

    def _comments(self, token: _Token, last: _Token) -> None:
        """Write what stands before a token: comments, each on its line or behind the token before, and empty lines."""
        gap, at = token.gap, 0
        for match in _COMMENT.finditer(gap):
            before = gap[at : match.start()]
            comment = match[0].rstrip()
            if "\n" not in before and (self.line or (at == 0 and self.lines)):
                if not self.line and self.lines and self.lines[-1]:
                    self.line = self.lines.pop()
                self.behind[len(self.lines)] = (self.line, comment)
                self.line += comment
                self._end_line()
            else:
                is_inside = bool(self.brackets)
                self._end_line()
                self._empty_line(before, last)
                self.lines.append(_LEVEL * self.level + (_CONTINUATION if is_inside else "") + comment)
            at = match.end()
            last = _Token("COMMENT", comment, "")
        rest = gap[at:]
        if (
            at
            and not self._begins(token, last)
            and token.text != "}"
            and token.terminal != tables.END
            and not self.line
        ):
            self.line = _LEVEL * self.level + _CONTINUATION[: len(_CONTINUATION) - 1]
        if rest.count("\n") > 1 and (
            self._begins(token, last) or token.text == "}" or token.terminal == tables.END
        ):
            self._end_line()
            self._empty_line(rest, last)

    def _empty_line(self, gap: str, last: _Token) -> None:
        is_first = last.text == "{" or not self.lines
        if gap.count("\n") > 1 and not is_first and self.lines[-1]:
            self.lines.append("")


def _is_spaced(last: _Token, token: _Token, head: str, in_brackets: bool) -> bool:
    """Whether a space stands between two tokens of a line."""
    before, text = last.text, token.text
    if text in (",", ")", "]", ">") or before in ("(", "[", "<", "^"):
        return False
    if text == "<":
        return False
    if text == "(":
        return before in (")", "->", ":", "{", "=", "}")
    if text == "[":
        return before in ("=", ":", ",") or (last.terminal == "NAME" and head != "buffer")
    return text != "}" and (before != "{" or text == "^")
