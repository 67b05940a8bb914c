"""The LALR(1) loop: reads tokens off one regular expression, shifts, reduces, recovers.

Values and places are kept on two parallel stacks, so a token costs no object of
its own.  After an error the parser skips to a token that can start a statement or
an item, outside any braces it skipped over and at the start of a line, and goes on
from the nearest state that takes it; an error is therefore reported once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .tables import END, Tables

MAX_ERRORS = 20


class Actions(Protocol):
    """What the driver needs besides a method for every action of the grammar.

    A method gets the rule's start, the end of its last token, then the parts.
    """

    def syntax_error(self, state: int, terminal: int, start: int, end: int) -> None: ...
    def abandon(self, value: Any) -> None: ...
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
    resumable = frozenset[int]()
    state = tables.start
    states = [state]
    values: list[Any] = []
    places: list[int] = []
    end = 0
    skipping: _Skip | None = None

    for match in tables.pattern.finditer(text):
        terminal: int = match.lastindex  # type: ignore[assignment]  # a group always matches
        start, stop = match.span(terminal)
        token = text[start:stop]
        if terminal == name and token in keywords:
            terminal = keywords[token]
        if skipping is not None:
            if not skipping.resume(terminal, token, start, text):
                continue
            skipping = None
            state = _unwind(
                terminal, resumable, terminal == end_of_text, table, states, values, places, actions
            )
            if state < 0:
                return None
        while True:
            target = table[state].get(terminal)
            if target is None:
                actions.syntax_error(state, terminal, start, stop)
                if actions.error_count >= MAX_ERRORS or terminal == end_of_text:
                    return None
                resumable = resumable or _list_states(tables)
                if terminal not in starters or not _starts_line(text, start):
                    skipping = _Skip(starters, end_of_text, token)
                    break
                state = _unwind(terminal, resumable, False, table, states, values, places, actions)
                if state < 0:
                    return None
                continue
            if target > 0:  # shift
                state = target - 1
                states.append(state)
                values.append(token)
                places.append(start)
                end = stop
                break
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


class _Skip:
    """Skips tokens until one, outside the braces opened since, that starts a line and a statement."""

    def __init__(self, starters: frozenset[int], end_of_text: int, token: str) -> None:
        self.starters = starters
        self.end_of_text = end_of_text
        self.depth = 1 if token == "{" else 0

    def resume(self, terminal: int, token: str, start: int, text: str) -> bool:
        if terminal == self.end_of_text:
            return True
        if token == "{":
            self.depth += 1
            return False
        if token == "}":
            if self.depth == 0:
                return True
            self.depth -= 1
            return False
        return self.depth == 0 and terminal in self.starters and _starts_line(text, start)


def _starts_line(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 256), start) + 1
    return not text[line:start].strip()


def _unwind(
    terminal: int,
    resumable: frozenset[int],
    at_end: bool,
    table: list[dict[int, int]],
    states: list[int],
    values: list[Any],
    places: list[int],
    actions: Actions,
) -> int:
    """Pop to the nearest list of statements or items that goes on with `terminal`; -1 if none does."""
    for depth in range(len(states) - 1, -1, -1):
        action = table[states[depth]].get(terminal, 0)
        if (action > 0 and states[depth] in resumable) or (at_end and action):
            for value in reversed(values[depth:]):
                actions.abandon(value)
            del states[depth + 1 :], values[depth:], places[depth:]
            return states[-1]
    return -1
