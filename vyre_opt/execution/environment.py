"""What the environment says of all calls of a process: the target of those that name none, and what is checked.

    VYRE_TARGET=ref                      ref, cpu or cuda, for arrays in main memory; cpu without it
    VYRE_CHECK=bounds,race,uninit,nan    some of them, or all

A call runs where all that VYRE_CHECK names is checked: on ref where its target does not do that and was not named by the call.
docs/environment.md has these and all other variables.
"""

from __future__ import annotations

import os
import warnings

from ..ir.diagnostics import suggest
from ..ir.tracebacks import level_of_caller
from .dispatcher import TARGETS, BadInputs, DispatcherLike, shared_dispatcher
from .target import as_target

__all__ = ["CHECKS", "checks_of_environment", "chosen_target", "default_target", "passes_of_call"]

TARGET, CHECK = "VYRE_TARGET", "VYRE_CHECK"

CHECKS = {
    "bounds": ("ref", "cpu", "cuda"),
    "race": ("ref",),
    "uninit": ("ref",),
    "nan": ("ref",),
}
"""What may be checked, and the targets that do.  ref always checks all but `nan`, and every target checks bounds."""

_told: set[tuple[str, str]] = set()
"""Of targets and checks, those about which a warning was given."""


def default_target() -> str:
    """The name of the target of calls that name none and pass arrays in main memory.  Raises BadInputs."""
    name = os.environ.get(TARGET, "").strip() or "cpu"
    if name not in TARGETS:
        from ..syntax.synonyms import advice

        hint = advice(name, "run_target", TARGETS)
        raise BadInputs(f"{TARGET} is {', '.join(TARGETS)}, not {name!r}" + (f"; {hint}" if hint else ""))
    return "ref" if _unchecked(name) else name


def checks_of_environment() -> frozenset[str]:
    """What VYRE_CHECK asks for.  Raises BadInputs for a word that is no check."""
    named = os.environ.get(CHECK)
    if not named:  # as in most calls, some of which are short
        return frozenset()
    words = named.replace(",", " ").split()
    for word in words:
        if word not in CHECKS:
            if word in ("now", "later"):
                raise BadInputs(
                    f"{CHECK} is some of {', '.join(CHECKS)}; when faults of a GPU are told, VYRE_FAULTS={word} says"
                )
            hint = suggest(word, CHECKS)
            raise BadInputs(
                f"{CHECK} is some of {', '.join(CHECKS)}, not {word!r}" + (f"; {hint}" if hint else "")
            )
    return frozenset(words)


def chosen_target(target: DispatcherLike | None, arrays_on_gpu: bool = False) -> DispatcherLike:
    """The target of a call that names `target`, or none.  `arrays_on_gpu`: whether its arrays are there, and so it runs there.

    Warns, once of each target, where a call runs on one that does not do what VYRE_CHECK asks for.  Raises BadInputs.
    """
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
