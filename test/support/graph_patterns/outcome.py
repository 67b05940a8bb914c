"""What a target makes of a case, and whether that is what the case must show."""

from __future__ import annotations

from dataclasses import dataclass

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Module, Source, parse_source

from .cases import ERRORS, PLANTED, Case

__all__ = ["Outcome", "complaint", "module_of", "outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error`: its kind, as `ProgramError` names them, or "".  `places`: of the access at fault, and of the one that it
    collides with.  `outputs`: lists, a worklist's sorted; none after an error."""

    error: str
    places: frozenset[str]
    outputs: list[list[int]]
    message: str = ""


def module_of(case: Case) -> Module:
    """The case's module, not verified: a barrier in the wrong place would be refused."""
    return parse_source(Source(str(case.text), "case.vyre"))


def outcome(case: Case, target: str = "ref", module: Module | None = None) -> Outcome:
    """Dispatch the case, or another module in its place, to a target."""
    module = module or module_of(case)
    try:
        outputs = dispatcher(target).dispatch(
            module.programs["p"], case.inputs, case.workgroups, module=module
        )
    except ProgramError as error:
        return Outcome(error.kind, _places(case, error), [], str(error))
    return Outcome("", frozenset(), case.in_any_order([output.tolist() for output in outputs]))


def _places(case: Case, error: ProgramError) -> frozenset[str]:
    notes = [loc for message, loc in error.diagnostic.notes if message.startswith("the other access")]
    lines = [loc.line for loc in (error.diagnostic.loc, *notes) if loc is not None]
    return frozenset(case.text.places.get(line, f"line {line}") for line in lines)


def complaint(case: Case, seen: Outcome) -> str:
    """What is wrong with a target that checks everything; "" if nothing is."""
    verdict, kind = case.verdict, case.variant.kind
    wanted = ERRORS[kind] if verdict.kinds else ""
    if seen.error != wanted:
        return f"expected {wanted or 'no error'}, not {seen.error or 'a run to the end'}"
    if not seen.error:
        return "" if seen.outputs == case.modelled else f"outputs {seen.outputs}, not {case.modelled}"
    possible = {
        "race": seen.places in verdict.races,
        "bounds": seen.places <= verdict.outside,
        "uninitialised": seen.places <= verdict.unwritten,
        "divergence": True,
    }[seen.error]
    if not possible:
        return f"no execution has this error at {sorted(seen.places)}: {verdict}"
    if not any(place.startswith(PLANTED[kind]) for place in seen.places):
        return f"{sorted(seen.places)} are not where the mistake is"
    return ""
