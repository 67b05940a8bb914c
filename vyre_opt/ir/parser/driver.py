"""The LALR(1) loop: reads tokens off one regular expression, shifts, reduces, recovers.

Values and places are kept on two parallel stacks, so a token costs no object of
its own.  After an error the parser skips to a token that can start a statement or
an item, outside any braces it skipped over and at the start of a line, and goes on
from the nearest state that takes it; an error is therefore reported once.  What it
leaves behind goes to `lost`, with all that had been built of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from .tables import END, Tables

MAX_ERRORS = 20


class Actions(Protocol):
    """What the driver needs besides a method for every action of the grammar.

    A method gets the rule's start, the end of its last token, then the parts.
    """

    def syntax_error(
        self, parts: list[Any], before: Any, state: int, terminal: int, start: int, end: int
    ) -> None: ...
    def lost(self, parts: list[Any], before: Any, start: int, end: int) -> None: ...
    def inserted(self, sign: str, start: int) -> None: ...
    def passed_over(self, head: int) -> None: ...
    def stopped(self, parts: list[Any]) -> None: ...
    @property
    def error_count(self) -> int: ...


Reduction = tuple[int, int, int, Callable[..., Any] | None, tuple[int, ...]]
_PASS, _START, _APPEND, _CALL_ALL, _CALL = range(5)


def reductions(tables: Tables, actions: Actions) -> list[Reduction]:
    """For each rule: left-hand side, size, kind, method, places."""
    bound: list[Reduction] = []
    for rule in tables.rules:
        args = tuple(rule.args)
        if rule.action == "":
            bound.append((rule.lhs, rule.size, _PASS, None, args))
        elif rule.action == "*":
            bound.append((rule.lhs, rule.size, _START, None, args))
        elif rule.action == "+":
            bound.append((rule.lhs, rule.size, _APPEND, None, args))
        else:
            method = getattr(actions, rule.action)
            kind = _CALL_ALL if args == tuple(range(rule.size)) else _CALL
            bound.append((rule.lhs, rule.size, kind, method, args))
    return bound


def run(text: str, tables: Tables, actions: Actions, starters: frozenset[int]) -> Any:
    """Parse `text`.  Returns the start rule's value, or None where errors left none.

    `starters` are the terminals to go on from after an error.
    """
    rules = reductions(tables, actions)
    table, gotos, keywords = tables.actions, tables.gotos, tables.keywords
    name, end_of_text = tables.number("NAME"), tables.number(END)
    state = tables.start
    states = [state]
    values: list[Any] = []
    places: list[int] = []
    end = 0
    skipping: _Skip | _ToBrace | None = None
    held: tuple[int, str, int, int] | None = None  # waits for a brace that is put in before it

    for match in tables.pattern.finditer(text):
        terminal: int = match.lastindex  # type: ignore[assignment]  # a group always matches
        start, stop = match.span(terminal)
        token = text[start:stop]
        if terminal == name and token in keywords:
            terminal = keywords[token]
        if skipping is not None:
            if not skipping.resume(terminal, token, start, text):
                continue
            if isinstance(skipping, _Skip):
                depth = _resumable(terminal, tables, states)
                if depth < 0:
                    actions.stopped(values)
                    return None
                _unwind(depth, skipping.start, start, states, values, places, actions)
            state, skipping = states[-1], None
        while True:
            target = table[state].get(terminal)
            if target is None:
                target = _only_reduction(table[state])
            if target is None:
                mended = _mend(
                    terminal, token, (start, stop), text, tables, starters, states, values, places, actions
                )
                state = states[-1]
                if mended is None:
                    return None
                if isinstance(mended, _Skip | _ToBrace):
                    skipping = mended
                    break
                if mended == "=":
                    terminal, token = tables.number("RESULTS"), f"{token}="
                elif mended:
                    held = terminal, token, start, stop
                    terminal, token, stop = tables.number(_BRACES[mended]), mended, start
                continue
            if target > 0:  # shift
                state = target - 1
                states.append(state)
                values.append(token)
                places.append(start)
                end = stop
                if held is None:
                    break
                (terminal, token, start, stop), held = held, None
                continue
            lhs, size, kind, method, args = rules[-target - 1]
            if size:
                parts = values[-size:]
                del states[-size:], values[-size:]
                place = places[-size]
                del places[-size:]
            else:
                parts = []
                place = start
            if kind == _CALL_ALL:
                value = method(place, end, *parts)  # type: ignore[misc]
            elif kind == _CALL:
                value = method(place, end, *[parts[i] if i >= 0 else None for i in args])  # type: ignore[misc]
            elif kind == _APPEND:
                value = parts[0]
                for i in args[1:]:
                    value.append(parts[i])
            elif kind == _PASS:
                value = parts[args[0]]
            else:
                value = [parts[i] for i in args]
            state = gotos[states[-1]][lhs]
            states.append(state)
            values.append(value)
            places.append(place)
            if terminal == end_of_text and state == tables.accept:
                return value
    raise AssertionError("the token pattern ends with the end of the text")


@cache
def _list_states(tables: Tables) -> frozenset[int]:
    """The states between two statements or items: those that could also go on to the list's end."""

    def shifts(row: dict[int, int], name: str) -> bool:
        return row.get(tables.number(name), 0) > 0

    return frozenset(
        state
        for state, row in enumerate(tables.actions)
        if shifts(row, "PROGRAM")
        or (shifts(row, "RBRACE") and any(shifts(row, start) for start in ("RESULTS", "BUFFER", "LAUNCH")))
    )


def _only_reduction(row: dict[int, int]) -> int | None:
    """The reduction that a state comes to whatever follows, so that an error leaves whole what is whole."""
    found = set(row.values())
    return found.pop() if len(found) == 1 and min(found) < 0 else None


_BRACES = {"{": "LBRACE", "}": "RBRACE"}


def _mend(
    terminal: int,
    token: str,
    place: tuple[int, int],
    text: str,
    tables: Tables,
    starters: frozenset[int],
    states: list[int],
    values: list[Any],
    places: list[int],
    actions: Actions,
) -> _Skip | _ToBrace | str | None:
    """Report that `token` does not fit, and say how to go on: None for not at all, what to skip, a sign
    that is to be read as if it stood there, or "" with the stack made to fit."""
    start, stop = place
    lists, end_of_text = _list_states(tables), tables.number(END)
    depth = max((d for d, s in enumerate(states) if s in lists), default=0)
    begins = _starts_line(text, start)
    missing = _missing(tables, states, terminal, begins, terminal in starters)
    before = values[depth - 1] if depth else None
    actions.syntax_error(values[depth:], before, states[-1], terminal, start, stop)
    if actions.error_count >= MAX_ERRORS or terminal == end_of_text:
        actions.stopped(values)
        return None
    if missing:
        actions.inserted(missing, start)
        return missing
    head = _head(tables, states, depth) if _has_brace(text, start) else -1
    if head >= 0:
        del states[head + 1 :], values[head:], places[head:]
        actions.passed_over(places[depth])
        opening = tables.number("LBRACE")
        return "" if terminal == opening else _ToBrace(opening)
    _begin(tables, states, values, places)
    skip = _Skip(_wanted(starters, tables, states), end_of_text, token, start)
    depth = _resumable(terminal, tables, states) if terminal in skip.wanted else -1
    if depth < 0 or not (begins or _closes(token, depth, places, start, text)):
        return skip
    _unwind(depth, start, start, states, values, places, actions)
    return ""


def _missing(tables: Tables, states: list[int], terminal: int, begins: bool, is_starter: bool) -> str | None:
    """What stands to reason at `terminal`: the brace of a block that begins on its line, the brace before
    an else, the `=` behind a value that begins a line."""
    opening, closing = tables.number("LBRACE"), tables.number("RBRACE")
    row = tables.actions[states[-1]]
    if begins and is_starter and opening in row and closing not in row:
        return "{"
    if terminal in (tables.number("ELSE"), tables.number("DO")) and closing in row:
        return "}"
    if begins and terminal == tables.number("VALUE") and tables.number("RESULTS") in row:
        return "="
    return None


def _head(tables: Tables, states: list[int], depth: int) -> int:
    """The place on the stack of an item's head so far, if a brace may follow; -1 else.  `depth`: the list
    that the error is in."""
    opening, closing = tables.number("LBRACE"), tables.number("RBRACE")
    if tables.number("PROGRAM") not in tables.actions[states[depth]]:
        return -1
    for place in range(len(states) - 1, depth, -1):
        row = tables.actions[states[place]]
        if opening in row and closing not in row:
            return place
    return -1


def _has_brace(text: str, start: int) -> bool:
    """Whether a block begins on the line, from `start` on."""
    end = text.find("\n", start)
    rest = text[start : len(text) if end < 0 else end]
    return "{" in rest.partition("//")[0]


class _ToBrace:
    """Skips what is wrong in an item's head, up to the brace behind it."""

    def __init__(self, opening: int) -> None:
        self.opening = opening

    def resume(self, terminal: int, token: str, start: int, text: str) -> bool:
        return terminal == self.opening


def _wanted(starters: frozenset[int], tables: Tables, states: list[int]) -> frozenset[int]:
    """The terminals at which some open list of statements or items can go on."""
    lists = _list_states(tables).intersection(states)
    closing = tables.number("RBRACE")
    return frozenset(
        t
        for s in lists
        for t, action in tables.actions[s].items()
        if action > 0 and (t in starters or t == closing)
    )


class _Skip:
    """Skips tokens from `start` until a wanted one that starts a line, outside the braces opened since."""

    def __init__(self, wanted: frozenset[int], end_of_text: int, token: str, start: int) -> None:
        self.wanted = wanted
        self.end_of_text = end_of_text
        self.start = start
        self.depth = 1 if token == "{" else 0

    def resume(self, terminal: int, token: str, start: int, text: str) -> bool:
        if terminal == self.end_of_text:
            return True
        if token == "{":
            self.depth += 1
            return False
        if token == "}":
            if self.depth == 0:
                return terminal in self.wanted
            self.depth -= 1
            return False
        return self.depth == 0 and terminal in self.wanted and _starts_line(text, start)


def _starts_line(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 256), start) + 1
    return not text[line:start].strip()


def _closes(token: str, depth: int, places: list[int], start: int, text: str) -> bool:
    """Whether a brace closes the list at `depth`, which was begun on the brace's own line."""
    return token == "}" and "\n" not in text[places[depth - 1] : start]


def _resumable(terminal: int, tables: Tables, states: list[int]) -> int:
    """The place on the stack of the nearest list that goes on with `terminal`; -1 if none does."""
    lists, at_end = _list_states(tables), terminal == tables.number(END)
    for depth in range(len(states) - 1, -1, -1):
        action = tables.actions[states[depth]].get(terminal, 0)
        if (action > 0 and states[depth] in lists) or (at_end and action):
            return depth
    return -1


def _begin(tables: Tables, states: list[int], values: list[Any], places: list[int]) -> None:
    """Where the format version cannot be read, go on behind it, at the first item."""
    version = next(rule.lhs for rule in tables.rules if rule.action == "version")
    behind = tables.gotos[tables.start][version]
    if behind not in states:
        states[:], values[:], places[:] = [tables.start, behind], [None], [0]


def _unwind(
    depth: int,
    start: int,
    end: int,
    states: list[int],
    values: list[Any],
    places: list[int],
    actions: Actions,
) -> None:
    """Go back to the list at `depth`.  `start` is the place of the error, `end` of the token to go on with."""
    first = places[depth] if depth < len(places) else start
    parts, before = values[depth:], values[depth - 1] if depth else None
    del states[depth + 1 :], values[depth:], places[depth:]
    actions.lost(parts, before, first, end)
