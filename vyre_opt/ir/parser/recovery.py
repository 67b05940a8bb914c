"""What is made of a text around an error: all that was read is kept, the rest is remembered as lost.

So the verifier sees the whole module, and no mistake hides another: values that lost text would
have defined become poison (see actions.py), and `holes` says where declarations, names or the end
of a block may be missing, so that nothing is reported that would only follow from an error.
"""

from __future__ import annotations

import re
from typing import Any

from ..diagnostics import suggest
from ..ops import OPS
from ..pipeline import HostRead, KernelStage, Launch, Pipeline, Repeat
from ..program import Block, Buffer, Func, Op, Program, Spec
from . import tables
from .actions import ModuleActions
from .messages import explain

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SYMBOL = re.compile(r"@([\w.$]+)", re.ASCII)
_VALUE = re.compile(r"%[\w.$]+", re.ASCII)
_WORD = re.compile(r"[\w.$]+", re.ASCII)
_RESULTS = re.compile(r"%[\w.$]++(?:[ \t]*+,[ \t]*+%[\w.$]++){0,63}+\s*+=", re.ASCII)

_ITEMS = ("program", "func", "pipeline")
_STATEMENTS = (Op, Buffer, Spec, Launch, HostRead, KernelStage, Repeat)


class Recovery(ModuleActions):
    """Syntax errors: their messages, and what becomes of the text around them.

    `gave_up`: something of the text is not in the module, or not as it was written.
    """

    gave_up = False

    def syntax_error(
        self, parts: list[Any], before: Any, state: int, terminal: int, start: int, end: int
    ) -> None:
        """`parts` were read of the statement that goes wrong at the token of `start` to `end`.

        `before` is what stands before the statement, a list of such or something else.
        """
        if start < self.explained_to or self._misspelt(parts, start):
            return
        token = self.source.text[start:end]
        if token in ("buffer", "spec") and isinstance(before, list) and not any(before):
            return  # after what may have been declarations
        loaded = tables.load()
        message, help = explain(self.source.text, loaded, state, terminal, start, end)
        if _NAME.fullmatch(token):
            expected = (w for w, number in loaded.keywords.items() if number in loaded.actions[state])
            help = suggest(token, expected) or help
        if _VALUE.fullmatch(token) and message.startswith("unexpected"):
            message = f"an `=` is missing behind {token[:40]}, or an op before it"
        self.error(message, start, max(end, start + 1), help=help)

    def _misspelt(self, parts: list[Any], end: int) -> bool:
        """Report a word that no statement starts with, rather than what does not fit behind it."""
        words = [part for part in parts[:2] if isinstance(part, str)]
        if words and words[0][:1] == "%" and words[0][-1:] == "=":
            del words[0]
        if not words or not _NAME.fullmatch(words[0]) or _is_word(words[0]):
            return False
        place = self.source.text.rfind(words[0], 0, end)
        self.unknown_word(words[0], place, is_bare=words[0] is parts[0])
        return True

    def lost(self, parts: list[Any], before: Any, start: int, end: int) -> None:
        """The text from `start` to `end` is given up; `parts` are what had been built of it.

        `before` is what stands before: a list of statements or items, or something else.
        """
        self.gave_up, self.pending = True, None
        for part in reversed(parts):
            if self.owners and part is self.owners[-1]:
                self.unbalanced = True
                self.close_scope()
        text = self.source.text[start:end]
        kept = _statements(parts)
        head = next((part for part in parts if isinstance(part, Program | Func | Pipeline)), None)
        if not self.owners:
            self._lost_items(head, kept, before, start, text)
            return
        owner, item = self.owners[-1], self.owners[0]
        self.holes.mark_invalid(owner if isinstance(owner, Block | Pipeline) else owner.body)
        self.holes.add_lost_names(item, _SYMBOL.findall(text))
        if owner is item and not _has_ops(before) and not _has_ops(kept):
            self.holes.mark_invalid(item)  # it may have been a declaration
        self.kept.setdefault(id(owner), []).extend(kept)
        for found in _RESULTS.findall(text):
            self.poison(found)
        if result := _VALUE.match(text):  # its `=` is missing
            self.poisoned.add(result.group())
        if isinstance(before, list) and before and self._goes_on(before[-1], start):
            self.holes.mark_invalid(before[-1])

    def _lost_items(
        self, head: Program | Func | Pipeline | None, kept: list[Any], before: Any, start: int, text: str
    ) -> None:
        """An item that is not closed counts as closed; of others, only the words in them are known."""
        if head is not None:
            self.kept.setdefault(id(head), []).extend(kept)
            if not _has_ops(kept):
                self.holes.mark_invalid(head)
            self.unbalanced = True
            for found in _RESULTS.findall(text):
                self.poison(found)
            self.complete(head, [])
            return
        self.holes.add_lost_names(None, _WORD.findall(text))
        word = _NAME.match(text)
        if word is not None and (word.group() in _ITEMS or not _is_word(word.group())):
            return
        self.holes.has_lost_items = True
        last = before[-1] if isinstance(before, list) and before else None
        if isinstance(last, Program | Func):
            self.unbalance(last)  # a brace too many may have closed it

    def inserted(self, sign: str, start: int) -> None:
        """The token at `start` is read as if a sign that is missing stood there."""
        self.gave_up, self.explained_to = True, start + 1
        self.unbalanced |= sign == "}"

    def passed_over(self, head: int) -> None:
        """What is wrong in the head that begins at `head` is left out."""
        self.gave_up = True
        self.broken_heads.add(head)

    def stopped(self, parts: list[Any]) -> None:
        """Nothing is read any more: keep what was built of an item, and doubt that others exist."""
        self.gave_up = True
        del self.owners[:], self.scopes[:]
        head = next((part for part in parts if isinstance(part, Program | Func | Pipeline)), None)
        if head is not None:
            self.holes.mark_invalid(head)
            start = head.loc.start if head.loc else 0
            self._lost_items(head, _statements(parts), None, start, self.source.text[start:])
        self.holes.has_lost_items = True

    def _goes_on(self, last: Any, start: int) -> bool:
        """Whether the text at `start` may belong to the statement before it."""
        if isinstance(last, Op) and last.name == "if" and len(last.regions) == 1:
            return True  # as its else
        line = self.source.text.rfind("\n", 0, start) + 1
        return isinstance(last, _STATEMENTS) and bool(self.source.text[line:start].strip())


def _is_word(name: str) -> bool:
    """Whether a name is a word of the language."""
    return name in OPS or name in tables.load().keywords


def _statements(parts: list[Any]) -> list[Any]:
    """Ops, declarations and stages among the parts of a text that is given up, in order.

    What stands in a block that is not closed counts as standing where the block does.
    """
    flat = (item for part in parts for item in (part if isinstance(part, list) else (part,)))
    return [item for item in flat if isinstance(item, _STATEMENTS)]


def _has_ops(statements: Any) -> bool:
    """Whether a list of statements is past the declarations."""
    return isinstance(statements, list) and any(not isinstance(s, Buffer | Spec) for s in statements[-1:])
