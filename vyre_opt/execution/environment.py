"""Environment variables for all calls of a process: the target of those that name none, and the checks.

    VYRE_TARGET=ref                      ref, cpu or cuda, for arrays in main memory; cpu without it
    VYRE_CHECK=bounds,race,uninit,nan    some of them, or all

A call runs where all that VYRE_CHECK names is checked: on ref where its target does not do that and was not named by the call.
`variables` has these and all others.
"""

from __future__ import annotations

import warnings

from ..ir.tracebacks import level_of_caller
from .dispatcher import DispatcherLike, shared_dispatcher
from .target import as_target
from .variables import CHECKS, check_variables, value_of

__all__ = ["checks_of_environment", "chosen_target", "default_target", "passes_of_call"]

CHECK = "VYRE_CHECK"

_told: set[tuple[str, str]] = set()
"""Targets and checks about which a warning was given."""


def default_target() -> str:
    """The name of the target of calls that name none and pass arrays in main memory.  Raises BadInputs."""
    check_variables()
    name = value_of("VYRE_TARGET").strip() or "cpu"
    return "ref" if _unchecked(name) else name


def checks_of_environment() -> frozenset[str]:
    """Checks that VYRE_CHECK asks for.  Raises BadInputs for a word that is no check."""
    named = value_of(CHECK)
    return frozenset(named.replace(",", " ").split()) if named else frozenset()


def chosen_target(target: DispatcherLike | None, arrays_on_gpu: bool = False) -> DispatcherLike:
    """The target of a call that names `target`, or none.  `arrays_on_gpu`: whether its arrays are there, and so it runs there.

    Warns, once of each target, where a call runs on one that does not do what VYRE_CHECK asks for.  Raises BadInputs.
    """
    check_variables()
    if target is None:
        target = "cuda" if arrays_on_gpu else default_target()
    checks = checks_of_environment()
    if not checks or not isinstance(target, str):
        return target
    if target == "ref" and "nan" in checks:
        return shared_dispatcher("ref", nan=True)
    missing = _unchecked(target)
    if missing and (target, missing) not in _told:
        _told.add((target, missing))
        why = (
            "its arrays are on a GPU: pass arrays in main memory"
            if arrays_on_gpu
            else "it names that: name ref, or none"
        )
        warnings.warn(
            f"{CHECK} asks for {missing}, which {target} does not check, and a call runs there since {why}",
            stacklevel=level_of_caller(),
        )
    return target


def passes_of_call(passes: str | None, target: DispatcherLike) -> str | None:
    """The passes of a kernel or a pipeline of Python: none where the default ones might hide what VYRE_CHECK asks for."""
    name = target if isinstance(target, str) else as_target(target).name
    looks_closely = name == "ref" and bool(checks_of_environment() - {"bounds"})
    return None if passes == "default" and looks_closely else passes


def _unchecked(target: str) -> str:
    """The words of VYRE_CHECK for which a target has no check."""
    checks = checks_of_environment()
    return (
        ", ".join(word for word in CHECKS if word in checks and target not in CHECKS[word]) if checks else ""
    )
