"""Certificates, written while passes run: the texts between them, and for each change a claim that the checker can check.

A change of which the checker proves no claim is written down as trusted only, with what it misses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ..checker.certificate import FORMAT, VERSION, Finding, check, digest
from ..checker.claims import check_same
from ..checker.cover import Uncovered
from ..checker.facts import (
    Facts,
    Multiples,
    facts_of,
    holds,
    is_in_bounds,
    is_race_free,
    room_above,
    room_below,
)
from ..checker.reader import Module as Text
from ..checker.reader import read_module
from ..checker.walk import Access, Mismatch
from ..ir.program import Module
from ..syntax.printer import print_program

if TYPE_CHECKING:
    from ..passes.context import Remark
    from ..passes.registry import Pass

__all__ = ["CertificateWriter", "claims_of", "facts", "findings", "generic_text"]

Claim = dict[str, Any]
MOST_FACTS = 24
"""Most facts around an access: the innermost ones, among which two are looked for."""


class CertificateWriter:
    """Observes a pass manager.  `checks`: whether claims that the checker refuses become trusted ones; without it they stay."""

    def __init__(self, checks: bool = True) -> None:
        self.checks = checks
        self.texts: list[str] = []
        self.steps: list[Claim] = []
        self.refused: list[Finding] = []
        """Claims that the passes make, and the checker does not follow: limits of it, or mistakes of theirs."""

    def clear(self) -> None:
        """Begin with another text."""
        self.texts.clear()
        self.steps.clear()
        self.refused.clear()

    def before(self, running: Pass, module: Module) -> None:
        if not self.texts:
            self.texts.append(generic_text(module))

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        text = generic_text(module)
        if text == self.texts[-1]:
            return
        applied = [r.certificate for r in remarks if r.kind == "applied" and "claim" in r.certificate]
        claims = claims_of(self.texts[-1], text, applied)
        if self.checks:
            claims, refused = _checked(self.texts[-1], text, running.name, claims)
            self.refused += refused
        self.steps.append({"pass": running.name, "text": text, "claims": claims})
        self.texts.append(text)

    @property
    def written(self) -> str:
        """The text before the passes, in the generic form."""
        return self.texts[0]

    @property
    def optimised(self) -> str:
        """The text after them."""
        return self.texts[-1]

    def certificate(self, module: Module | None = None) -> str:
        """JSON in one form: equal runs give equal bytes.  `module`: what no pass ran on, if none did."""
        if not self.texts and module is not None:
            self.texts.append(generic_text(module))
        steps = [dict(step) for step in self.steps]
        if steps:
            steps[-1]["text"] = None
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "written": digest(self.written),
            "optimised": digest(self.optimised),
            "steps": steps,
            "facts": list(facts(self.optimised)),
        }
        return json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n"


def generic_text(module: Module) -> str:
    """The text of a module as the checker reads it."""
    return print_program(module, generic=True)


# --- steps


def claims_of(before: str, after: str, applied: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Claims about the change from one text to another; `applied`: the certificates of the pass.

    Raises Malformed for a text that is not in the generic form.
    """
    return list(_claims(read_module(before), read_module(after), applied))


def _claims(before: Text, after: Text, applied: Sequence[Mapping[str, Any]]) -> Iterator[Claim]:
    """Claims about the changes of a pass: by its certificates, and by what changed."""
    joins = [facts for facts in applied if facts["claim"] == "join"]
    joined = {facts["program"] for facts in joins}
    for facts in joins:
        if _is_other_launch(facts):
            why = "launches over another grid, with a halo or in another order"
            yield _trusted("program", facts["program"], why)
            yield _trusted("pipeline", facts["pipeline"], f"@{facts['program']} is trusted")
        else:
            yield {key: facts[key] for key in ("claim", "pipeline", "program")} | {
                "at": list(facts["at"]),
                "barriers": list(facts["barriers"]),
                "buffers": dict(facts["buffers"]),
            }
    has_other_functions = any(before.functions.get(name) != text for name, text in after.functions.items())
    for name, program in after.programs.items():
        was = before.programs.get(name)
        if was is None and name not in joined:
            yield _trusted("program", name, "it is new")
        elif was is not None and (was.text != program.text or has_other_functions):
            moved = [
                b.name
                for b in program.buffers.values()
                if b.access == "workgroup"
                and b.name in was.buffers
                and was.buffers[b.name].access != "workgroup"
            ]
            yield _tiles(before, after, name, moved) if moved else {"claim": "same", "program": name}
    launched = {stage.program for pipeline in before.pipelines.values() for stage in pipeline.stages}
    for name in before.programs:
        if name not in after.programs and name not in launched:
            yield _trusted("program", name, "it is not there any more")
    for name, pipeline in before.pipelines.items():
        now = after.pipelines.get(name)
        heads = {
            s.program: (before.programs.get(s.program), after.programs.get(s.program))
            for s in pipeline.stages
            if s.program
        }
        is_same = all(
            a and b and (a.head, a.scalars, a.bound) == (b.head, b.scalars, b.bound)
            for a, b in heads.values()
        )
        is_trusted = any(facts["pipeline"] == name for facts in joins if _is_other_launch(facts))
        new = (
            {stage.program for stage in now.stages} & after.programs.keys() - before.programs.keys() - joined
            if now
            else ()
        )
        if new:
            yield _trusted("pipeline", name, f"@{min(new)} is new")
        elif not is_trusted and (now is None or now.text != pipeline.text or not is_same):
            yield {"claim": "same", "pipeline": name}


def _is_other_launch(facts: Mapping[str, Any]) -> bool:
    """Whether launches that became one run over another grid, some elements again, or in another order."""
    return bool(facts["halo"] or facts.get("regrid") or facts.get("order"))


def _tiles(before: Text, after: Text, name: str, moved: Sequence[str]) -> Claim:
    try:
        tiles = check_same(before, after, name, moved)
    except (Mismatch, Uncovered, LookupError):
        tiles = {}
    shown = {buffer: {"const": tile.const, "times": dict(tile.times)} for buffer, tile in tiles.items()}
    none = {buffer: {"const": 0, "times": {}} for buffer in moved}
    return {"claim": "tile", "program": name, "buffers": {**none, **shown}}


def _trusted(kind: str, name: str, why: str) -> Claim:
    return {"claim": "trusted", kind: name, "why": why}


def _checked(
    before: str, after: str, name: str, claims: Sequence[Claim]
) -> tuple[list[Claim], list[Finding]]:
    """Claims of which the checker refuses none, and the findings for which others became trusted ones.

    A claim may rest on another: a pipeline's on the tiles that it passes no more.  So they are checked until none is refused.
    """
    refused = list[Finding]()
    while True:
        found = findings(before, after, name, claims)
        wrong = [n for n, finding in enumerate(found) if finding.status == "refused"]
        trusted = {
            json.dumps(claim, sort_keys=True): claim
            for n in wrong
            for claim in _given_up(found[n], claims[n] if n < len(claims) else None)
        }
        kept = [claim for n, claim in enumerate(claims) if n not in wrong]
        pipelines = {
            claim.get("pipeline") for claim in (*kept, *trusted.values()) if claim["claim"] == "trusted"
        }
        kept = [c for c in kept if c["claim"] != "same" or c.get("pipeline", "") not in pipelines]
        if not wrong or not trusted:
            return list(claims), refused
        refused += [found[n] for n in wrong]
        claims = [*kept, *(claim for claim in trusted.values() if claim not in kept)]


def _given_up(finding: Finding, claim: Claim | None) -> Iterator[Claim]:
    """Trusted claims in the place of a refused one, or of none about a change."""
    where = "" if finding.line is None else f", line {finding.line}"
    if claim is None:
        if finding.kind in ("program", "pipeline"):
            yield _trusted(finding.kind, finding.subject.removeprefix("@"), finding.why)
    elif claim["claim"] != "trusted":
        kind = "pipeline" if claim["claim"] == "same" and "pipeline" in claim else "program"
        yield _trusted(kind, claim[kind], f"{claim['claim']} is not proven: {finding.why}{where}")
        if claim["claim"] == "join":
            yield _trusted("pipeline", claim["pipeline"], f"@{claim['program']} is trusted")


def findings(before: str, after: str, name: str, claims: Sequence[Claim]) -> list[Finding]:
    """Verdicts of the checker on the claims of one step, in order, and on the changes that they leave out."""
    step = {"pass": name, "text": None, "claims": list(claims)}
    whole = {"format": FORMAT, "version": VERSION, "steps": [step], "facts": []}
    whole |= {"written": digest(before), "optimised": digest(after)}
    return check(before, after, whole).findings


# --- facts


def facts(text: str) -> Iterator[Claim]:
    """Claims about the programs of a text: accesses in bounds, buffers without races between workgroups."""
    module = read_module(text)
    for name in module.programs:
        try:
            found = facts_of(module, name)
        except Mismatch:
            continue
        for number, access in enumerate(found.accesses):
            low, high = (
                _multiples(found, access, rooms)
                for rooms in (room_below(found, access), room_above(found, access))
            )
            if low is not None and high is not None and is_in_bounds(found, access, low, high):
                line = access.op.line
                yield {
                    "claim": "in_bounds",
                    "program": name,
                    "access": number,
                    "line": line,
                    "low": low,
                    "high": high,
                }
        for buffer in found.buffers():
            if is_race_free(found, buffer):
                yield {"claim": "race_free", "program": name, "buffer": buffer}


def _multiples(facts: Facts, access: Access, rooms: Sequence[Any]) -> list[Multiples] | None:
    """Facts whose multiples show that each room is not negative; None without such facts."""
    terms, found = facts.walk.terms, list[Multiples]()
    numbers = list(range(len(access.facts)))[-MOST_FACTS:]
    for room in rooms:
        factors = sorted({abs(times) for times in room.atoms.values()} | {1})
        one = [[(times, n)] for n in numbers for times in factors]
        two = [[(a, n), (b, m)] for n, m in combinations(numbers, 2) for a in factors for b in factors]
        shown = next((each for each in ([], *one, *two) if holds(terms, access, room, each)), None)
        if shown is None:
            return None
        found.append(shown)
    return found
