"""The LALR(1) loop, and its recovery from syntax errors.

Recovery tries three things, in this order (see Aho, Lam, Sethi and Ullman, "Compilers", 4.8.3):

    insertion   a brace or an `=` that is plainly missing is read as if it stood there
    deletion    what is wrong in the head of a program, func or pipeline is skipped up to its `{`
    panic mode  tokens are skipped up to one that can start a statement or an item (or closes a
                block), outside any braces skipped over and at the start of a line; the stack is cut
                back to the nearest list that goes on with it

An error is therefore reported once.  Panic mode hands all that had been built of the discarded text
to `Actions.discarded`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, Protocol

from ...records import dataclass
from .tables import END, Tables

MAX_ERRORS = 20


class Token(NamedTuple):
    """`terminal` is its number in the tables; `start` and `end` are offsets into the text."""

    terminal: int
    text: str
    start: int
    end: int


class Actions(Protocol):
    """Methods that the loop calls besides one for every action of the grammar.

    A method of the grammar gets the offset of the rule's start, that of the end of its last token,
    and then the values of its parts.
    """

    def syntax_error(self, values: list[Any], preceding: Any, state: int, token: Token, start: int) -> None:
        """`token` does not fit in `state`; `values` were built of the statement it stands in, from `start` on.

        `preceding` is the value before those: the list of earlier statements, or something else.
        """

    def discarded(self, values: list[Any], preceding: Any, start: int, end: int) -> None:
        """The text from `start` to `end` is given up, and with it `values`; `preceding` as above."""

    def inserted(self, sign: str, start: int) -> None:
        """The token at `start` is read as if `sign` stood before it."""

    def skipped_in_head(self, start: int) -> None:
        """Some text was left out of the item head that starts at `start`."""

    def version_missing(self) -> None:
        """The text goes on at its first item, without a format version."""

    def aborted(self, values: list[Any]) -> None:
        """Nothing more is read; `values` is the whole stack."""

    @property
    def distinct_errors(self) -> int:
        """The errors so far, each mistake once however often the text makes it."""


class ParserStack:
    """The LR stack as three parallel lists, so that a token costs no object of its own.

    `states[0]` is the start state; `values[i]` and `offsets[i]` (of its first character) belong to the
    symbol that led from `states[i]` to `states[i + 1]`.  A depth is an index into `states`.
    """

    __slots__ = ("offsets", "states", "values")

    def __init__(self, start: int) -> None:
        self.states = [start]
        self.values: list[Any] = []
        self.offsets: list[int] = []

    def pop_to(self, depth: int) -> list[Any]:
        """Make the state at `depth` the current one.  Returns the values popped."""
        popped = self.values[depth:]
        del self.states[depth + 1 :], self.values[depth:], self.offsets[depth:]
        return popped

    def value_below(self, depth: int) -> Any:
        """The value that led to the state at `depth`; None for the start state."""
        return self.values[depth - 1] if depth else None


class Recovery(NamedTuple):
    """The tokens to read next after a syntax error: `token`, then `deferred`, then the rest of the text."""

    token: Token
    deferred: Token | None = None


Reduction = tuple[int, int, int, Callable[..., Any] | None, tuple[int, ...]]
_PASS, _START, _APPEND, _CALL_ALL, _CALL = range(5)
_KINDS = {"": _PASS, "*": _START, "+": _APPEND}


def _reductions(tables: Tables, actions: Actions) -> list[Reduction]:
    """(left-hand side, size, kind, method, indices of the parts it gets) of each rule."""
    bound: list[Reduction] = []
    for rule in tables.rules:
        args = tuple(rule.args)
        if rule.action in _KINDS:
            bound.append((rule.lhs, rule.size, _KINDS[rule.action], None, args))
        else:
            kind = _CALL_ALL if args == tuple(range(rule.size)) else _CALL
            bound.append((rule.lhs, rule.size, kind, getattr(actions, rule.action), args))
    return bound


class Shortcut(Protocol):
    """Reads statements in place of the loop.  `follows`: the symbols behind which there may be some to read."""

    follows: frozenset[int]

    def read(self, stack: ParserStack, start: int) -> int:
        """Do to the stack what the loop would with the statements from `start` on.  Returns the offset behind them."""


def run(
    text: str, tables: Tables, actions: Actions, starters: frozenset[int], shortcut: Shortcut | None = None
) -> Any:
    """Parse `text`.  Returns the start rule's value, or None if parsing was aborted.

    `starters` are the terminals that can start a statement or an item; panic mode stops at them.
    """
    rules, table, gotos = _reductions(tables, actions), tables.actions, tables.gotos
    keywords, name, end_of_text = tables.keywords, tables.number("NAME"), tables.number(END)
    stack = ParserStack(tables.start)
    # The hot loop works on the stack's lists themselves, and keeps the top state in a local.
    states, values, offsets, state = stack.states, stack.values, stack.offsets, tables.start
    recoverer = _Recoverer(text, tables, stack, actions, starters, tables.pattern.finditer(text))
    before_shortcut = shortcut.follows if shortcut else ()
    deferred: Token | None = None
    end = 0  # where the last token shifted ends
    while True:
        match = next(recoverer.matches)  # which a recovery has moved beyond what it skipped
        terminal: int = match.lastindex  # type: ignore[assignment]  # a group always matches
        start, stop = match.span(terminal)
        token = text[start:stop]
        if terminal == name and token in keywords:
            terminal = keywords[token]
        while True:
            target = table[state].get(terminal) or _default_reduction(table[state])
            if not target:
                if (recovery := recoverer.recover(Token(terminal, token, start, stop))) is None:
                    return None
                (terminal, token, start, stop), state = recovery.token, states[-1]
                deferred = recovery.deferred or deferred
                continue
            if target > 0:  # shift
                state = target - 1
                states.append(state)
                values.append(token)
                offsets.append(start)
                end = stop
                if deferred is None:
                    break
                (terminal, token, start, stop), deferred = deferred, None
                continue
            lhs, size, kind, method, args = rules[-target - 1]
            if size:  # values[-0:] would be the whole stack
                parts, offset = values[-size:], offsets[-size]
                del states[-size:], values[-size:], offsets[-size:]
            else:
                parts, offset = [], start
            if kind == _CALL_ALL:
                value = method(offset, end, *parts)  # type: ignore[misc]
            elif kind == _CALL:
                value = method(offset, end, *[parts[i] if i >= 0 else None for i in args])  # type: ignore[misc]
            elif kind == _APPEND:
                value = parts[0]
                value += [parts[i] for i in args[1:]]
            else:
                value = parts[args[0]] if kind == _PASS else [parts[i] for i in args]
            state = gotos[states[-1]][lhs]
            states.append(state)
            values.append(value)
            offsets.append(offset)
            if terminal == end_of_text and state == tables.accept:
                return value
            if lhs in before_shortcut and shortcut and (resumed := shortcut.read(stack, start)) > start:
                recoverer.matches, state = tables.pattern.finditer(text, resumed), states[-1]
                break


def _default_reduction(row: dict[int, int]) -> int:
    """The only action of a state, if it is a reduction; 0 otherwise.

    It is done whatever token follows, so that an error in the next statement leaves the one before
    it complete.
    """
    targets = set(row.values())
    target = targets.pop()
    return target if not targets and target < 0 else 0


@cache
def _list_states(tables: Tables) -> frozenset[int]:
    """The states between two statements or items: those that could also go on to the list's end."""

    def shifts(row: dict[int, int], name: str) -> bool:
        return row.get(tables.number(name), 0) > 0

    return frozenset(
        state
        for state, row in enumerate(tables.actions)
        if shifts(row, "PROGRAM")
        or (
            shifts(row, "RBRACE")
            and any(shifts(row, start) for start in ("RESULTS", "BUFFER", "LAUNCH"))
            and not shifts(row, "FASTMATH")  # a key of attributes, which are between braces too
        )
    )


@dataclass(slots=True)
class _Recoverer:
    """Recovers from the syntax errors of one text; `matches` yields the tokens not yet read."""

    text: str
    tables: Tables
    stack: ParserStack
    actions: Actions
    starters: frozenset[int]
    matches: Iterator[re.Match[str]]

    def recover(self, token: Token) -> Recovery | None:
        """Report that `token` does not fit, and change the stack so that the result does.

        None: the parser cannot go on.
        """
        tables, stack, actions = self.tables, self.stack, self.actions
        lists = _list_states(tables)
        depth = max((d for d, s in enumerate(stack.states) if s in lists), default=0)
        sign = self._insertion(token)
        start = stack.offsets[depth] if depth < len(stack.offsets) else token.start
        actions.syntax_error(stack.values[depth:], stack.value_below(depth), stack.states[-1], token, start)
        if actions.distinct_errors >= MAX_ERRORS or token.terminal == tables.number(END):
            actions.aborted(stack.values)
            return None
        if sign:
            actions.inserted(sign, token.start)
            if sign == "=":
                text = f"{token.text}="
                return Recovery(token._replace(terminal=tables.number("RESULTS"), text=text))
            brace = tables.number("LBRACE" if sign == "{" else "RBRACE")
            return Recovery(Token(brace, sign, token.start, token.start), token)
        head = self._head_end(depth) if self._opens_block(token.start) else -1
        if head >= 0:
            stack.pop_to(head)
            actions.skipped_in_head(stack.offsets[depth])
            return self._skip_to_brace(token)
        return self._panic(token)

    def _following(self) -> Iterator[Token]:
        """The tokens after the offending one, made as in `run`."""
        name, keywords = self.tables.number("NAME"), self.tables.keywords
        for match in self.matches:
            group = match.lastindex or 0
            text = match[group]
            terminal = keywords.get(text, group) if group == name else group
            yield Token(terminal, text, *match.span(group))

    # --- insertion ------------------------------------------------------------------

    def _insertion(self, token: Token) -> str:
        """The sign that is plainly missing before `token` (of "=", after it); "" if there is none.

        It is the brace of a block that begins on its line, the brace before an else or a do, or the
        `=` after a value that begins a line.
        """
        tables = self.tables
        opening, closing = tables.number("LBRACE"), tables.number("RBRACE")
        row = tables.actions[self.stack.states[-1]]
        begins_line = self._begins_line(token.start)
        if begins_line and token.terminal in self.starters and opening in row and closing not in row:
            return "{"
        if token.terminal in (tables.number("ELSE"), tables.number("DO")) and closing in row:
            return "}"
        if begins_line and token.terminal == tables.number("VALUE") and tables.number("RESULTS") in row:
            return "="
        return ""

    def _begins_line(self, start: int) -> bool:
        # Indentation is not followed farther back than this: on a line of a megabyte it would be for each token.
        indentation = self.text[max(0, start - 256) : start].rpartition("\n")[2]
        return not indentation.strip()

    # --- deletion in the head of an item --------------------------------------------

    def _head_end(self, depth: int) -> int:
        """The depth where the head of an item is read so far that a brace may follow; -1 if there is none.

        `depth`: of the list that the error is in.
        """
        tables, states = self.tables, self.stack.states
        opening, closing = tables.number("LBRACE"), tables.number("RBRACE")
        if tables.number("PROGRAM") not in tables.actions[states[depth]]:
            return -1
        for head in range(len(states) - 1, depth, -1):
            row = tables.actions[states[head]]
            if opening in row and closing not in row:
                return head
        return -1

    def _opens_block(self, start: int) -> bool:
        """Whether there is a brace in the rest of the line, from `start` on."""
        end = self.text.find("\n", start)
        rest = self.text[start : end if end >= 0 else None]
        return "{" in rest.partition("//")[0]

    def _skip_to_brace(self, token: Token) -> Recovery | None:
        opening, end_of_text = self.tables.number("LBRACE"), self.tables.number(END)
        if token.terminal == opening:
            return Recovery(token)
        for following in self._following():
            if following.terminal == opening:
                return Recovery(following)
            if following.terminal == end_of_text:
                break  # the brace on the line was in a string
        self.actions.aborted(self.stack.values)
        return None

    # --- panic mode -----------------------------------------------------------------

    def _panic(self, token: Token) -> Recovery | None:
        """Skip to a synchronising token, if `token` is none, and cut the stack back to what fits it."""
        self._assume_version()
        syncs = self._sync_terminals()
        if token.terminal in syncs and (
            self._begins_line(token.start) or self._closes_list(token, self._sync_depth(token.terminal))
        ):
            return self._resynchronise(token, token.start)
        nesting = int(token.text == "{") + self._open_attributes(
            token
        )  # braces that are open at the next token
        end_of_text = self.tables.number(END)
        for following in self._following():
            if following.terminal == end_of_text:
                return self._resynchronise(following, token.start)
            if following.text == "{":
                nesting += 1
            elif following.text == "}" and nesting:
                nesting -= 1
            elif (
                nesting == 0
                and following.terminal in syncs
                and (following.text == "}" or self._begins_line(following.start))
            ):
                return self._resynchronise(following, token.start)
        raise AssertionError("the token pattern ends with the end of the text")

    def _open_attributes(self, token: Token) -> int:
        """The braces of the unfinished statement that may be closed on the line of `token`: of its attributes."""
        lists = _list_states(self.tables)
        depth = max((d for d, s in enumerate(self.stack.states) if s in lists), default=0)
        end = self.text.find("\n", token.start)
        rest = self.text[token.start : end if end >= 0 else None]
        opened = [value for value in self.stack.values[depth:] if value == "{"]
        return min(len(opened), rest.count("}"))

    def _assume_version(self) -> None:
        """Go on at the first item, in the newest format, if the format version could not be read."""
        tables, stack = self.tables, self.stack
        version = next(rule.lhs for rule in tables.rules if rule.action == "version")
        after = tables.gotos[tables.start][version]
        if after not in stack.states:
            stack.states[:], stack.values[:], stack.offsets[:] = [tables.start, after], [None], [0]
            self.actions.version_missing()

    def _sync_terminals(self) -> frozenset[int]:
        """The terminals with which some open list of statements or items can go on."""
        lists = _list_states(self.tables).intersection(self.stack.states)
        firsts = self.starters | {self.tables.number("RBRACE")}
        return frozenset(
            t for s in lists for t, action in self.tables.actions[s].items() if action > 0 and t in firsts
        )

    def _sync_depth(self, terminal: int) -> int:
        """The depth of the innermost list that goes on with `terminal`; -1 if none does."""
        tables, states = self.tables, self.stack.states
        lists, at_end = _list_states(tables), terminal == tables.number(END)
        for depth in range(len(states) - 1, -1, -1):
            action = tables.actions[states[depth]].get(terminal, 0)
            if (action > 0 and states[depth] in lists) or (at_end and action):
                return depth
        return -1

    def _closes_list(self, token: Token, depth: int) -> bool:
        """Whether a brace closes the list at `depth`, which was begun on the brace's own line."""
        return token.text == "}" and "\n" not in self.text[self.stack.offsets[depth - 1] : token.start]

    def _resynchronise(self, token: Token, error: int) -> Recovery | None:
        """Discard what was built of the list's unfinished statement, which goes wrong at offset `error`."""
        stack, depth = self.stack, self._sync_depth(token.terminal)
        if depth < 0:
            self.actions.aborted(stack.values)
            return None
        start = stack.offsets[depth] if depth < len(stack.offsets) else error
        preceding = stack.value_below(depth)
        self.actions.discarded(stack.pop_to(depth), preceding, start, token.start)
        return Recovery(token)
