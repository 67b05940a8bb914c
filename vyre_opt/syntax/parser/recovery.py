"""Actions that recover from syntax errors: they keep all that was built, and record what was discarded.

The verifier then checks the whole module, so one error does not hide another.  Values that the
discarded text would have defined become poison (see actions.py), and `holes` says where declarations,
names or the end of a block may be missing, so that no error is reported that only follows from another.
"""

from __future__ import annotations

import re
from typing import Any

from ...ir.diagnostics import Location
from ...ir.ops import OPS
from ...ir.pipeline import Fill, HostRead, KernelStage, Launch, Pipeline, Repeat
from ...ir.program import Block, Buffer, Func, Op, Program, Spec
from ...ir.suggestions import suggest
from . import tables
from .actions import Item, ModuleActions
from .messages import CLOSING_BRACE, DECLARATION, explain
from .parse_loop import Token
from .rewritten_lines import rewritten

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SYMBOL = re.compile(r"@([\w.$]+)", re.ASCII)
_LAST_WORD = re.compile(r"\b([a-z_]+)\s*\Z", re.ASCII)
"""The word that a text ends with."""
_LAST_TOKEN = re.compile(r"([%@]?[\w.$]+|\S)\s*\Z", re.ASCII)
_VALUE = re.compile(r"%[\w.$]+", re.ASCII)
_WORD = re.compile(r"[\w.$]+", re.ASCII)
_RESULTS = re.compile(r"%[\w.$]++(?:[ \t]*+,[ \t]*+%[\w.$]++){0,127}+\s*+=", re.ASCII)

_ITEMS = ("program", "func", "pipeline")
_STATEMENTS = (Op, Buffer, Spec, Launch, Fill, HostRead, KernelStage, Repeat)


_UNKNOWN = {
    "op": "unknown op {}",
    "type": "unknown type {}",
    "flag": "not a buffer flag",
    "item": "expected a program, a func or a pipeline",
    "first line": "a .vyre text begins with its format version",
    "stage": "expected a buffer, a launch, a fill, a host_read or a kernel",
}
"""The message about a word of another language, by its place."""
MAX_EXPLAINED = 500
"""Characters of a line, before an error and behind it, in which other languages are looked for."""
MAX_BEFORE = 4000
"""Characters before a line in which a declaration is looked for."""


class OtherLanguage(Exception):
    """The text is of another language; parsing stops."""


class RecoveringActions(ModuleActions):
    """Reports syntax errors, and keeps what was built of the text around them.

    `is_incomplete`: something of the text is not in the module, or not as it was written.
    """

    is_incomplete = False

    # --- called by the parse loop; see parse_loop.Actions ---------------------------

    def syntax_error(self, values: list[Any], preceding: Any, state: int, token: Token, start: int) -> None:
        if token.start < self.reported_until:
            return
        loaded = tables.load()
        if not self.owners and state == loaded.start:
            self._refuse_other_languages()
            self.module.version = 2  # which allows what both have, so that this is one mistake
        if self._foreign(values, state, token, start) or self._misspelt(values, token.start):
            return
        text = self.source.text[token.start : token.end]
        if text in ("buffer", "spec") and isinstance(preceding, list) and not any(preceding):
            return  # the statements before it, none of which could be built, may have been declarations
        message, help = self._sentence(state, token)
        word = (
            _LAST_WORD.search(self.source.text, token.start - 100, token.start)
            if message.endswith("; expected a string")
            else None
        )
        if word is not None:  # `trap`, and the token is on another line
            help = f'write {word[1]} "why"'
            self.error(f"{word[1]}: a text in quotes is missing", *word.span(1), help=help)
            return
        end = min(max(token.end, token.start + 1), len(self.source.text))
        place = (
            self._unfinished_line(token) if message != CLOSING_BRACE and not self._may_end(state) else None
        )
        error = self.error(message, *(place or (token.start, end)), help=help)
        if not text or message == CLOSING_BRACE:
            opener = self._opener(token.start)
            if opener is not None:
                error.note("opened here", Location(self.source, opener, opener + 1))

    def _may_end(self, state: int) -> bool:
        """Whether a brace could follow: what was read is complete."""
        loaded = tables.load()
        return loaded.number("RBRACE") in loaded.actions[state]

    def _unfinished_line(self, token: Token) -> tuple[int, int] | None:
        """The last word before a token that begins its line, of a statement that goes on there."""
        before = self.source.text[max(0, token.start - MAX_EXPLAINED) : token.start]
        line = before.rstrip().rpartition("\n")[2]
        if not self.owners or before.rpartition("\n")[2].strip() or "//" in line:
            return None
        word = _LAST_TOKEN.search(before)
        start = token.start - len(before)
        return None if word is None else (start + word.start(1), start + word.end(1))

    def _sentence(self, state: int, token: Token) -> tuple[str, str | None]:
        """The message for a token that does not fit, and what to do about it."""
        loaded, text = tables.load(), self.source.text[token.start : token.end]
        message, help = explain(self.source.text, loaded, state, token)
        first = self.source.text.rfind("\n", max(0, token.start - MAX_EXPLAINED), token.start) + 1
        if token.start - first <= MAX_EXPLAINED:
            line = self.source.text[first : token.end + MAX_EXPLAINED].partition("\n")[0].partition("//")[0]
            help = rewritten(message, line, token.start - first, token.end - first, self.scope) or help
        # what stands before the token is complete if a brace could close its block
        if self.owners and loaded.number("RBRACE") in loaded.actions[state]:
            begins_line = not self.source.text[: token.start].rpartition("\n")[2].strip()
            if not text or (text in _ITEMS and begins_line):
                return CLOSING_BRACE, "write } here" if not text else "write } in the line before this one"
            if text in ("buffer", "spec") and isinstance(self.owners[0], Program):
                return DECLARATION, "declare buffers and spec constants before the ops"
        if text == "else" and self._opener(token.start) not in (None, self._first_brace()):
            return CLOSING_BRACE, "write } before it"  # that of the block before, or the else would fit
        if _NAME.fullmatch(text) and text not in loaded.keywords:
            expected = (w for w, number in loaded.keywords.items() if number in loaded.actions[state])
            help = suggest(text, expected) or help
        if _VALUE.fullmatch(text) and message.startswith("unexpected"):
            message = f"an `=` is missing behind {text[:40]}, or an op before it"
            if self.owners and isinstance(self.owners[0], Pipeline):
                return "a pipeline has no values; a buffer's name begins with @", f"write @{text[1:40]}"
        return message, help

    def discarded(self, values: list[Any], preceding: Any, start: int, end: int) -> None:
        self.is_incomplete, self.pending = True, None
        for value in reversed(values):
            if self.owners and value is self.owners[-1]:
                self.unbalanced = True
                self.close_scope()
        text = self.source.text[start:end]
        statements = _statements(values)
        if not self.owners:
            self._discarded_items(_item_in(values), statements, preceding, start, text)
            return
        owner, item = self.owners[-1], self.owners[0]
        self.holes.mark_invalid(owner if isinstance(owner, Block | Pipeline) else owner.body)
        self.holes.add_lost_names(item, _SYMBOL.findall(text))
        if owner is item and not _has_ops(preceding) and not _has_ops(statements):
            self.holes.mark_invalid(item)  # the text may have been a declaration
        self.salvaged.setdefault(id(owner), []).extend(statements)
        for results in _RESULTS.findall(text):
            self.poison(results)
        if result := _VALUE.match(text):  # its `=` is missing
            self.poisoned.add(result.group())
        if isinstance(preceding, list) and preceding and self._continues(preceding[-1], start):
            self.holes.mark_invalid(preceding[-1])

    def inserted(self, sign: str, start: int) -> None:
        self.is_incomplete, self.reported_until = True, max(self.reported_until, start + 1)
        self.unbalanced |= sign == "}"

    def skipped_in_head(self, start: int) -> None:
        self.is_incomplete = True
        self.broken_heads.add(start)

    def aborted(self, values: list[Any]) -> None:
        """Keep what was built of an open item, and assume that any other item may follow."""
        self.is_incomplete = True
        del self.owners[:], self.scopes[:], self.openings[:]
        item = _item_in(values)
        if item is not None:
            self.holes.mark_invalid(item)
            start = item.loc.start if item.loc else 0
            self._discarded_items(item, _statements(values), None, start, self.source.text[start:])
        self.holes.has_lost_items = True

    # --- their parts ----------------------------------------------------------------

    def _refuse_other_languages(self) -> None:
        """Raises OtherLanguage, after an error, for a text that does not begin as one of ours, but as another's."""
        from .text_language import lowered_head, text_language

        lowered = lowered_head(self.source.text)
        if lowered is not None:
            help = "give the text of before its legalization, which --emit=llvm and calls do by themselves"
            self.error("this is a lowered program, which only its target reads", *lowered, help=help)
            raise OtherLanguage
        other = text_language(self.source.text)
        if other is not None:
            language, start, end = other
            help = "a kernel is a program here: vyre 2, then program @name workgroup(256) { ... }"
            if language == "Python":
                help += "; a file of Python is run by python, and kernel.text() is the text of a kernel in it"
            self.error(f"this is {language}, not a .vyre text", start, end, help)
            raise OtherLanguage

    def _foreign(self, values: list[Any], state: int, token: Token, start: int) -> bool:
        """Report what another language writes in the place of the error, or a number among operands, if that is there."""
        if self._is_head(values):
            return False
        return any(self._foreign_in(line, state, token) for line in self._lines_in_error(start, token))

    def _foreign_in(self, span: tuple[int, int], state: int, token: Token) -> bool:
        """`_foreign` in a part of a line."""
        from .foreign_syntax import Statement, foreign_construct, foreign_word

        start, line_end = span
        owner = self.owners[0] if self.owners else None
        context = "stage" if isinstance(owner, Pipeline) else "op"
        if owner is None:
            context = "first line" if state == tables.load().start else "item"
        if self._follows_buffer(start) and self.source.text[start] != "%":
            context = "flag"
        line = self.source.text[start:line_end].partition("//")[0]
        at, end = (min(max(offset - start, 0), len(line)) for offset in (token.start, token.end))
        before = self.source.text[max(0, start - MAX_BEFORE) : start]
        statement = Statement(
            line, start, at, end, context, self.scope, self.declared, self.module.version, before
        )
        if (word := foreign_word(statement)) is not None:
            name, offset, row = word
            message = _UNKNOWN[row.context if row.context in ("type", "flag") else context]
            self.name_error(message.format(name), start + offset, start + offset + len(name), row.help)
            if row.context == "flag" and self.last_buffer is not None:
                self.holes.mark_invalid(self.last_buffer)
        elif context != "flag" and (advice := foreign_construct(statement)) is not None:
            self._withdraw(advice.start)
            self.name_error(advice.message, advice.start, advice.end, advice.help)
        else:
            return False
        self.reported_until = line_end
        self.poisoned.update(f"%{name}" for name in _NAME.findall(line))
        return True

    def _withdraw(self, start: int) -> None:
        """Forget the last error if it is about an undefined name at `start`, for which there is a better message."""
        error = self.diagnostics[-1] if self.diagnostics else None
        if error is not None and error.loc is not None and error.loc.start == start:
            name = self.source.text[start : error.loc.end]
            if self.undefined.get(name) is error:
                self.diagnostics.pop()
                del self.undefined[name]

    def _lines_in_error(self, start: int, token: Token) -> list[tuple[int, int]]:
        """Bounds of the lines that may have the mistake: parts of the statement from `start` on.

        A token that begins a line may be wrong because the line before it is unfinished.
        """
        text = self.source.text
        end = text.find("\n", token.start, token.end + MAX_EXPLAINED)
        end = min(len(text), token.end + MAX_EXPLAINED) if end < 0 else end
        begin = max(start, text.rfind("\n", 0, token.start) + 1)
        begin += len(text[begin : token.start]) - len(text[begin : token.start].lstrip())
        lines = [(begin, end)] if end > begin and token.start - begin <= MAX_EXPLAINED else []
        is_character = tables.load().terminals[token.terminal] == "$BAD"
        if begin == token.start and begin > start and not is_character:
            end = start + len(text[start:begin].rstrip())
            begin = max(start, text.rfind("\n", start, end) + 1)
            if end - begin <= MAX_EXPLAINED:
                lines.insert(0, (begin, end))
        return lines

    def _is_head(self, values: list[Any]) -> bool:
        """Whether the statement with the error begins as a program, func or pipeline does."""
        return bool(values) and values[0] in _ITEMS

    def _opener(self, end: int) -> int | None:
        """The offset of the brace that is most likely open at `end` by mistake."""
        from .unclosed_braces import unclosed_brace

        return unclosed_brace(self.source.text, self._item_start(), end)

    def _first_brace(self) -> int:
        """The offset of the brace that the body of the item begins with."""
        return self.source.text.find("{", self._item_start())

    def _item_start(self) -> int:
        """The offset of the name of the program, func or pipeline that is being read; 0 between them."""
        owner = self.owners[0] if self.owners else None
        return owner.loc.start if owner is not None and owner.loc is not None else 0

    def _misspelt(self, values: list[Any], end: int) -> bool:
        """Report the first word of a statement if no statement starts with it.

        That explains the error better than the token after it, which does not fit.
        """
        tokens = [value for value in values[:2] if isinstance(value, str)]
        if tokens and tokens[0][:1] == "%" and tokens[0][-1:] == "=":
            del tokens[0]
        if not tokens or not _NAME.fullmatch(tokens[0]) or _is_word(tokens[0]):
            return False
        offset = self.source.text.rfind(tokens[0], 0, end)
        self.unknown_word(tokens[0], offset, is_bare=tokens[0] is values[0])
        return True

    def _discarded_items(
        self, item: Item | None, statements: list[Any], preceding: Any, start: int, text: str
    ) -> None:
        """`text` between items is given up.  If an unclosed `item` begins in it, that counts as closed."""
        if item is not None:
            self.salvaged.setdefault(id(item), []).extend(statements)
            if not _has_ops(statements):
                self.holes.mark_invalid(item)
            self.unbalanced = True
            for results in _RESULTS.findall(text):
                self.poison(results)
            self.complete(item, [])
            return
        self.holes.add_lost_names(None, _WORD.findall(text))
        word = _NAME.match(text)
        if word is not None and (word.group() in _ITEMS or not _is_word(word.group())):
            return
        # The text starts with a statement or a brace, so a `}` too many may have closed the item
        # before it, and what follows may belong to an item whose head was never seen.
        self.holes.has_lost_items = True
        last = preceding[-1] if isinstance(preceding, list) and preceding else None
        if isinstance(last, Program | Func):
            self.unbalance(last)

    def _continues(self, last: Any, start: int) -> bool:
        """Whether the text at `start` may belong to the statement `last` before it."""
        if isinstance(last, Op) and last.name == "if" and len(last.regions) == 1:
            return True  # as its else
        line = self.source.text.rfind("\n", 0, start) + 1
        return isinstance(last, _STATEMENTS) and bool(self.source.text[line:start].strip())


def _is_word(name: str) -> bool:
    """Whether a name is a word of the language."""
    return name in OPS or name in tables.load().keywords


def _item_in(values: list[Any]) -> Item | None:
    """The item that was being built, if the stack's `values` hold its head."""
    return next((value for value in values if isinstance(value, Program | Func | Pipeline)), None)


def _statements(values: list[Any]) -> list[Any]:
    """Ops, declarations and stages among the values discarded from the stack, in order.

    Those of a block that is not closed count as standing where the block does.
    """
    flat = (item for value in values for item in (value if isinstance(value, list) else (value,)))
    return [item for item in flat if isinstance(item, _STATEMENTS)]


def _has_ops(statements: Any) -> bool:
    """Whether a list of statements is past the declarations."""
    return isinstance(statements, list) and any(not isinstance(s, Buffer | Spec) for s in statements[-1:])
