"""All proofs, one after the other, and the table of what came of them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import z3

from vyre_opt.ir.identities import RULES
from vyre_opt.ir.types import DataType

from .compiled_ops import compare_with_interpreter
from .folds import check_bytes, check_samples, foldable
from .identities import RuleProof, prove_rules
from .llvm_terms import Unreadable
from .lowered_ops import LOWERINGS
from .lowerings import LoweredOp, lowered_ops, prove_lowering, prove_program
from .proving import PROVED, REFUTED, Outcome
from .ranges import RANGED, bounded_programs, wrong_ranges
from .values import INTS, SCALARS

__all__ = ["Line", "Results", "measure", "table"]

BYTES = [DataType.BOOL, DataType.U8, DataType.I8]
SECONDS = 10.0
"""For one question to z3."""
F16_SECONDS = 30.0
"""The same for floats of 16 bits, whose claims are few."""
SAMPLES = 200
"""Operands of a fold on types of more than 8 bits."""


@dataclass(slots=True)
class Line:
    """A row of the table.  `proved`: types or casts; `tested`: with what instead, for those that are not proved."""

    section: str
    rule: str
    about: str
    proved: list[str]
    tested: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    how: str = "z3"


@dataclass(slots=True)
class Results:
    date: str
    machine: str
    solver: str
    lines: list[Line] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [text for line in self.lines for text in line.wrong]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(quick: bool, tell: Callable[[str], None] = lambda line: None) -> Results:
    """Every proof and test; on types of 8 bits alone if `quick`.  `tell` gets each row as it is done."""
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    results = Results(datetime.now(UTC).date().isoformat(), machine, f"z3 {z3.get_version_string()}")
    for line in (*_rules(quick), *_folds(quick), *_lowerings(quick), *_ranges(quick)):
        results.lines.append(line)
        tell(" | ".join(_cells(line)))
    return results


def _rules(quick: bool) -> Iterator[Line]:
    about = {rule.__name__: rule.__doc__ or "" for rules in RULES.values() for rule in rules}
    proofs = prove_rules(BYTES) if quick else _merged([
        prove_rules([t for t in SCALARS if not t.is_float], every=True),
        # z3 does not decide floats of more bits in that time
        prove_rules([DataType.F16], every=True, seconds=F16_SECONDS, by_exponent=True),
    ])  # fmt: skip
    for proof in proofs:
        proved = [name for name, verdict in proof.types.items() if verdict == PROVED]
        open_ = [
            f"{name}: not decided"
            for name, verdict in proof.types.items()
            if verdict not in (PROVED, REFUTED)
        ]
        how = "z3, any operands"
        yield Line(
            "identity",
            proof.rule,
            about[proof.rule],
            proved,
            open_,
            proof.counterexamples,
            proof.seconds,
            how,
        )


def _merged(groups: Iterable[Sequence[RuleProof]]) -> list[RuleProof]:
    """The same rules on several groups of types."""
    merged: dict[str, RuleProof] = {}
    for proof in (proof for group in groups for proof in group):
        total = merged.setdefault(proof.rule, RuleProof(proof.rule))
        for dtype, verdict in proof.types.items():
            total.add(dtype, Outcome(verdict, 0.0), "")
        total.counterexamples = [*filter(None, total.counterexamples), *proof.counterexamples]
        total.seconds += proof.seconds
    return list(merged.values())


def _folds(quick: bool) -> Iterator[Line]:
    start, checked, wrong = time.perf_counter(), 0, []
    for op in foldable(8):
        check = check_bytes(op, step=5 if quick else 1)
        checked += check.checked
        wrong += [f"{op} {operands}" for operands in check.wrong]
    seconds = time.perf_counter() - start
    pairs = "every 5th byte" if quick else "all bytes and pairs of bytes"
    yield Line("fold", "fold", "ops of u8 and i8", [], [f"{checked} operands"], wrong, seconds, pairs)
    if not quick:
        start, checked, wrong = time.perf_counter(), 0, []
        for op in foldable():
            is_long = op.name == "rem" and op.type.is_float  # the term has a case for each exponent
            check = check_samples(op, 5 if is_long else SAMPLES)
            checked += check.checked
            wrong += [f"{op} {operands}" for operands in check.wrong]
        seconds = time.perf_counter() - start
        about = "all ops, casts and types"
        yield Line(
            "fold", "fold", about, [], [f"{checked} operands"], wrong, seconds, "edges and random ones"
        )


def _lowerings(quick: bool) -> Iterator[Line]:
    by_name: dict[str, list[LoweredOp]] = {}
    for op in lowered_ops():
        if op.widest <= 8 or not quick:
            by_name.setdefault(op.name, []).append(op)
    for name, ops in by_name.items():
        for lowering in LOWERINGS if not quick else ("nvptx", "cpu lanes"):
            yield _lowering(name, ops, lowering)


def _lowering(name: str, ops: list[LoweredOp], lowering: str) -> Line:
    line = Line("lowering", f"{name}, {lowering}", "", [], how="z3")
    start = time.perf_counter()
    for op in ops:
        what = f"{op.source} -> {op.type}" if op.source else op.type.name
        try:
            outcome = prove_lowering(op, lowering, SECONDS)
        except Unreadable:
            outcome = Outcome("unread", 0.0)
        if outcome.verdict == PROVED:
            line.proved.append(what)
        elif outcome.verdict == REFUTED:
            line.wrong.append(f"{op} by {lowering}: {outcome.counterexample}")
        else:
            tried, differing = compare_with_interpreter(op)
            line.tested.append(f"{what}: {tried} operands")
            line.wrong += [f"{op}: {differing} results on the cpu"] if differing else []
    line.seconds = time.perf_counter() - start
    return line


def _ranges(quick: bool) -> Iterator[Line]:
    for name in RANGED:
        start, tried, wrong = time.perf_counter(), 0, []
        for dtype in (DataType.U8,) if quick else (DataType.U8, DataType.I8):
            count, bad = wrong_ranges(name, dtype)
            tried += count
            wrong += [f"{name} {dtype} {pair}" for pair in bad]
        seconds = time.perf_counter() - start
        tested = [f"{tried} pairs of ranges"]
        yield Line("guard", f"range of {name}", "", [], tested, wrong, seconds, "all bytes in them")
    for lowering in ("nvptx", "cpu lanes"):
        for dtype in [DataType.U8, DataType.I8] if quick else INTS:
            programs = list(bounded_programs([dtype]))
            chosen = programs[:: 7 if quick else 1 if dtype.bits == 8 else 5]
            outcomes = [prove_program([p.type] * 2, p.lines, p.type, lowering, SECONDS) for p in chosen]
            proved = sum(o.verdict == PROVED for o in outcomes)
            wrong = [
                f"{p.lines}: {o.counterexample}"
                for p, o in zip(chosen, outcomes, strict=True)
                if o.verdict == REFUTED
            ]
            left = (
                [f"{len(chosen) - proved - len(wrong)} not decided"]
                if proved + len(wrong) < len(chosen)
                else []
            )
            seconds = sum(o.seconds for o in outcomes)
            about = f"{proved} of {len(chosen)} divisions and shifts by operands in ranges"
            yield Line("guard", f"left out, {lowering}", about, [dtype.name], left, wrong, seconds)


def table(results: Results) -> Iterator[str]:
    """The rows as text."""
    yield f"{results.solver}, {results.machine}, {results.date}"
    yield from (" | ".join(_cells(line)) for line in results.lines)
    yield from (f"WRONG: {text}" for text in results.wrong)


def _cells(line: Line) -> list[str]:
    return [line.rule, line.about.partition("\n")[0], " ".join(line.proved), "; ".join(line.tested),
            f"{line.seconds:.1f} s", line.how, *(["WRONG"] if line.wrong else [])]  # fmt: skip
