"""`check(written, optimised, certificate)`: each claim of a certificate, checked from the texts alone."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .claims import Join, Tile, check_join, check_pipelines, check_same
from .cover import Uncovered
from .facts import axes_of, facts_of, is_in_bounds, is_race_free
from .reader import Malformed, Module, read_module
from .walk import Mismatch

__all__ = ["FORMAT", "VERSION", "Finding", "Report", "check", "digest"]

FORMAT, VERSION = "vyre-certificate", 1
PROVEN, TRUSTED, REFUSED = "proven", "trusted", "refused"
Claim = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """`status`: proven, trusted or refused.  `kind`: of the claim.  `step`: the pass that is claimed to have done it, "" of what is
    said of the optimised text.  `why`, `line`: what is wrong or not proven, and where in a text of the step."""

    status: str
    kind: str
    subject: str
    step: str = ""
    why: str = ""
    line: int | None = None

    @property
    def claim(self) -> str:
        """Its kind and subject, and why and where something is not so."""
        where = f", line {self.line}" if self.line is not None else ""
        return f"{self.kind} of {self.subject}" + (f": {self.why}{where}" if self.why else "")

    def __str__(self) -> str:
        by = f"[{self.step}] " if self.step else ""
        return f"{self.status}: {by}{self.claim}"


@dataclass
class Report:
    """Counts of proven facts.  `accesses`, `in_bounds`: of the optimised programs, all and those proven to lie in their buffers;
    `shared`, `race_free`: their written buffers in storage, and those proven free of races between workgroups."""

    findings: list[Finding] = field(default_factory=list)
    accesses: int = 0
    in_bounds: int = 0
    shared: int = 0
    race_free: int = 0
    supposed: list[str] = field(default_factory=list)
    """Suppositions about the calls that the facts are of."""

    def of(self, status: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.status == status]

    @property
    def is_refused(self) -> bool:
        return bool(self.of(REFUSED))

    @property
    def is_equal_proven(self) -> bool:
        """Whether the optimised text is proven to do what the text as written does, in every step."""
        return not self.is_refused and not any(f.step for f in self.of(TRUSTED))

    def summary(self) -> str:
        """Lines for people."""
        counts = Counter((f.kind, f.status) for f in self.findings if f.step)
        kinds = dict.fromkeys(kind for kind, _ in counts)
        lines = []
        for kind in kinds:
            parts = [f"{counts[kind, s]} {s}" for s in (PROVEN, TRUSTED, REFUSED) if counts[kind, s]]
            lines.append(f"{kind}: {', '.join(parts)}")
        equal = "proven" if self.is_equal_proven else "refused" if self.is_refused else "trusted only in part"
        lines.append(f"equal to the text as written: {equal}")
        lines.append(f"in bounds: {self.in_bounds} of {self.accesses} accesses proven")
        lines.append(f"no races between workgroups: {self.race_free} of {self.shared} written buffers proven")
        lines += [f"supposed: {each}" for each in self.supposed]
        lines += [str(f) for f in self.findings if f.status != PROVEN]
        return "\n".join(lines) + "\n"


def check(written: str, optimised: str, certificate: str | bytes | Mapping[str, Any]) -> Report:
    """Check what a certificate claims of two texts in the generic form.  Nothing is raised for wrong ones: the report refuses them."""
    report = Report()
    try:
        whole = json.loads(certificate) if isinstance(certificate, (str, bytes)) else certificate
        _check(written, optimised, whole, report)
    except RecursionError:
        report.findings.append(
            Finding(REFUSED, "certificate", "the texts", why="they nest too deeply to be read")
        )
    except (Malformed, ValueError, LookupError, TypeError, AttributeError) as error:
        # of what is not in the form that the functions below read
        shown = (
            str(error)
            if isinstance(error, Malformed)
            else f"it is malformed: {type(error).__name__}: {error}"
        )
        report.findings.append(Finding(REFUSED, "certificate", "the texts", why=shown))
    return report


def digest(text: str) -> str:
    """SHA-256 of a text, by which a certificate names it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _check(written: str, optimised: str, certificate: Claim, report: Report) -> None:
    if certificate["format"] != FORMAT or certificate["version"] != VERSION:
        raise Malformed(f"the certificate is not of format {FORMAT}, version {VERSION}")
    if [certificate["written"], certificate["optimised"]] != [digest(written), digest(optimised)]:
        raise Malformed("the certificate is of other texts")
    steps = certificate["steps"]
    texts = [written, *(step["text"] for step in steps[:-1]), optimised] if steps else [optimised]
    if not steps and written != optimised:
        report.findings.append(
            Finding(REFUSED, "certificate", "the texts", why="they differ, and no step says how")
        )
    if steps and steps[-1]["text"] is not None:
        raise Malformed("the last step ends in the optimised text, and has none of its own")
    before = read_module(texts[0])
    for step, text in zip(steps, texts[1:], strict=True):
        after = read_module(text)
        report.findings += _step(before, after, step)
        before = after
    _facts(before, certificate["facts"], report)


# --- steps


def _step(before: Module, after: Module, step: Claim) -> Iterator[Finding]:
    """A finding for each claim of a step, and for each change that none is about."""
    by, claims = step["pass"], step["claims"]
    joins = [_join(claim) for claim in claims if claim["claim"] == "join"]
    tiles = {c["program"]: list(c["buffers"]) for c in claims if c["claim"] == "tile"}
    for claim in claims:
        kind = claim["claim"]
        if kind == TRUSTED:
            what = next(each for each in _KINDS if each in claim)
            yield Finding(TRUSTED, what, f"@{claim[what]}", by, claim["why"])
        elif kind == "same" and "pipeline" in claim:
            name = claim["pipeline"]
            yield _found(
                "pipeline", f"@{name}", by, lambda n=name: check_pipelines(before, after, n, joins, tiles)
            )
        elif kind == "same":
            yield _found(
                kind, f"@{claim['program']}", by, lambda n=claim["program"]: check_same(before, after, n)
            )
        elif kind == "tile":
            yield _found(kind, f"@{claim['program']}", by, lambda c=claim: _check_tiles(before, after, c))
        elif kind == "join":
            join = _join(claim)
            yield _found(kind, f"@{join.program}", by, lambda j=join: check_join(before, after, j, joins))
        else:
            yield Finding(REFUSED, str(kind), "a claim", by, "no such claim is known")
    yield from _unclaimed(before, after, by, claims, joins)


_KINDS = ("program", "pipeline")


def _join(claim: Claim) -> Join:
    at, barriers = tuple(claim["at"]), tuple(claim["barriers"])
    if not all(type(n) is int and n >= 0 for n in (*at, *barriers)) or len(set(at)) != len(at):
        raise Malformed("the numbers of a join are wrong")
    return Join(claim["pipeline"], at, claim["program"], barriers, dict(claim["buffers"]))


def _check_tiles(before: Module, after: Module, claim: Claim) -> None:
    tiles = check_same(before, after, claim["program"], list(claim["buffers"]))
    for name, tile in claim["buffers"].items():
        if tiles[name] != Tile(tile["const"], tile["times"]):
            raise Mismatch(
                f"the tile of @{name} lies elsewhere: from {tiles[name].const} and {dict(tiles[name].times)} on"
            )


def _found(kind: str, subject: str, by: str, run: Any) -> Finding:
    try:
        run()
    except Mismatch as mismatch:
        return Finding(REFUSED, kind, subject, by, str(mismatch), mismatch.op.line if mismatch.op else None)
    except Uncovered as uncovered:
        op = uncovered.access.op
        return Finding(REFUSED, kind, subject, by, f"{op.name} of @{op.buffer}: {uncovered}", op.line)
    except KeyError as error:
        return Finding(REFUSED, kind, subject, by, f"it names {error}, which is not there")
    return Finding(PROVEN, kind, subject, by)


def _unclaimed(
    before: Module, after: Module, by: str, claims: Sequence[Claim], joins: Sequence[Join]
) -> Iterator[Finding]:
    """A refused finding for each program and pipeline that is another one, though no claim is about it."""
    claimed = {(c["claim"], kind, c[kind]) for c in claims for kind in _KINDS if kind in c}
    joined = {join.program for join in joins}
    launched = {stage.program for pipeline in before.pipelines.values() for stage in pipeline.stages}
    items: list[tuple[str, Mapping[str, Any], Mapping[str, Any], set[str], set[str]]] = [
        # programs of launches may go: the claims about their pipelines see to it
        ("program", before.programs, after.programs, joined, launched),
        ("pipeline", before.pipelines, after.pipelines, set(), set()),
    ]
    for kind, old, new, added, removed in items:
        for name in dict.fromkeys((*old, *new)):
            why = ""
            if name not in new:
                why = "it is not there any more" if name not in removed else ""
            elif name not in old:
                why = "it is new, and no claim says of what it is made" if name not in added else ""
            elif _is_changed(before, after, kind, name) and not claimed & {
                (claim, kind, name) for claim in ("same", "tile")
            }:
                why = "it changed, and no claim is about it"
            if why and (TRUSTED, kind, name) not in claimed:
                yield Finding(REFUSED, kind, f"@{name}", by, why)


def _is_changed(before: Module, after: Module, kind: str, name: str) -> bool:
    """Whether a program has another text, or calls what has; or a pipeline, or launches what takes or fixes something else."""
    if kind == "program":
        has_other_functions = any(before.functions.get(f) != text for f, text in after.functions.items())
        return has_other_functions or before.programs[name].text != after.programs[name].text
    now = after.pipelines[name]
    launched = {stage.program for stage in now.stages if stage.program}
    return before.pipelines[name].text != now.text or any(
        _interface(before, program) != _interface(after, program) or program not in after.programs
        for program in launched
    )


def _interface(module: Module, name: str) -> object:
    program = module.programs.get(name)
    return program and (program.head, program.scalars, program.bound)


# --- facts


def _facts(module: Module, claims: Sequence[Claim], report: Report) -> None:
    """Check what is claimed of the optimised programs, and count what could be."""
    by_program = dict.fromkeys(module.programs)
    found = {}
    for name in by_program:
        try:
            found[name] = facts_of(module, name)
        except Mismatch as mismatch:
            report.findings.append(Finding(TRUSTED, "facts", f"@{name}", why=str(mismatch)))
    bounded, free = set[tuple[str, int]](), set[tuple[str, str]]()
    for claim in claims:
        facts, kind = found[claim["program"]], claim["claim"]
        if kind == "in_bounds":
            number = claim["access"]
            access = (
                facts.accesses[number]
                if type(number) is int and number >= 0
                else facts.accesses[len(facts.accesses)]
            )
            if access.op.line == claim["line"] and is_in_bounds(facts, access, claim["low"], claim["high"]):
                bounded.add((claim["program"], number))
                continue
            access_text, why = (
                f"{access.op.name} of @{access.buffer}",
                "the multiples of facts do not show it",
            )
            report.findings.append(Finding(REFUSED, kind, access_text, why=why, line=access.op.line))
        elif kind == "race_free":
            if claim["buffer"] in facts.buffers() and is_race_free(facts, claim["buffer"]):
                free.add((claim["program"], claim["buffer"]))
                continue
            why = "accesses of different workgroups may be of one element"
            report.findings.append(
                Finding(REFUSED, kind, f"@{claim['buffer']} of @{claim['program']}", why=why)
            )
        else:
            report.findings.append(Finding(REFUSED, str(kind), "a fact", why="no such claim is known"))
    for name, facts in found.items():
        axes = axes_of(module, facts.program)
        if axes is not None and facts.buffers():
            along = f"along {' and '.join(axes)} alone" if axes else "of one workgroup"
            report.supposed.append(f"@{name}, which no pipeline launches, runs over grids {along}")
    report.accesses = sum(len(facts.accesses) for facts in found.values())
    report.in_bounds = len(bounded)
    shared = {(name, buffer) for name, facts in found.items() for buffer in facts.buffers()}
    report.shared, report.race_free = len(shared), len(shared & free)
