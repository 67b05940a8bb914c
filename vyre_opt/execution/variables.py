"""The environment variables of vyre_opt and the values that each takes; docs/reference/environment.md says what they do.

`value_of` reads one.  `check_variables` looks at all of them once in a process, also at those that only a later call would read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable

from ..ir.suggestions import suggest
from ..ir.tracebacks import level_of_caller
from .dispatcher import TARGETS, BadInputs

__all__ = ["BadVariable", "CHECKS", "VARIABLES", "check_variables", "value_of"]

CHECKS = {
    "bounds": ("ref", "cpu", "cuda"),
    "race": ("ref",),
    "uninit": ("ref",),
    "nan": ("ref",),
}
"""Checks, and the targets that make them.  ref always checks all but `nan`, and every target checks bounds."""


class BadVariable(BadInputs):
    """An environment variable has a value that it does not take."""


_SWITCH = ("0", "1")


def _refuse_target(value: str) -> str | None:
    if value.strip() in ("", *TARGETS):
        return None
    from ..syntax.synonyms import advice

    return _not_one_of(value, TARGETS, advice(value, "run_target", TARGETS))


def _refuse_checks(value: str) -> str | None:
    for word in value.replace(",", " ").split():
        if word in ("now", "later"):
            return f"some of {', '.join(CHECKS)}; when faults of a GPU are told, VYRE_FAULTS={word} says"
        if word not in CHECKS:
            return "some of " + _not_one_of(word, CHECKS, suggest(word, CHECKS))
    return None


def _refuse_threads(value: str) -> str | None:
    return None if value.isdecimal() and int(value) > 0 else f"a number of threads from 1 up, not {value!r}"


def _not_one_of(value: str, values: Iterable[str], hint: str | None) -> str:
    return f"{', '.join(values)}, not {value!r}" + (f"; {hint}" if hint else "")


VARIABLES: dict[str, tuple[str, ...] | Callable[[str], str | None] | None] = {
    "VYRE_TARGET": _refuse_target,
    "VYRE_CHECK": _refuse_checks,
    "VYRE_FAULTS": ("later", "now"),
    "VYRE_ZERO_MEMORY": _SWITCH,
    "VYRE_THREADS": _refuse_threads,
    "VYRE_RECORD": None,
    "VYRE_DEBUG_INFO": _SWITCH,
    "VYRE_NVTX": _SWITCH,
    "VYRE_PERF": _SWITCH,
    "VYRE_DEBUG": _SWITCH,
    "VYRE_REFUSED_RESULT": ("error",),
    "VYRE_CACHE_DIR": None,
    "VYRE_CACHE_SIZE": None,
    "VYRE_PACKS": None,
}
"""The values of each variable, or a function that says what a wrong one should be; None where the reader takes any text."""

_OF_TESTS = {
    "VYRE_BLESS", "VYRE_CACHE_CAMPAIGN", "VYRE_JOBS", "VYRE_PIPELINES", "VYRE_PROGRAMS",
    "VYRE_PROPERTY_PROGRAMS", "VYRE_PROPERTY_SEED", "VYRE_SPEC_MAPS",
}  # fmt: skip

_is_checked = False


def value_of(name: str) -> str:
    """The value of a variable of the table, "" where it is not set.  Raises BadInputs for a value that it does not take."""
    value = os.environ.get(name, "")
    if value:  # nearly always it is not set, and calls ask for some
        values = VARIABLES[name]
        if callable(values):
            wrong = values(value)
        elif values is None or value in values:
            wrong = None
        else:
            wrong = _not_one_of(value, values, suggest(value, values))
        if wrong is not None:
            raise BadVariable(f"{name} is {wrong}")
    return value


def check_variables() -> None:
    """Raise BadInputs for a variable with a wrong value, and warn of one whose name is nearly that of another; once in a process."""
    global _is_checked
    if _is_checked:
        return
    for name in VARIABLES:
        if name != "VYRE_TARGET":  # which calls that name a target do not read
            value_of(name)
    _is_checked = True
    for name in os.environ:
        if name.startswith("VYRE_") and name not in VARIABLES and name not in _OF_TESTS:
            stem = len("VYRE_")
            hint = suggest(name[stem:], [known[stem:] for known in VARIABLES], "VYRE_")
            if hint:
                warnings.warn(
                    f"the environment variable {name} does nothing; {hint}", stacklevel=level_of_caller()
                )
