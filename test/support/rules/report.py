"""All proofs, one after the other, and the table of what came of them."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import z3

from vyre_opt.ir import OPS, DataType
from vyre_opt.rewriting.identities import RULES

from .compiled_ops import compare_with_interpreter
from .folds import FoldCheck, check_bytes, check_patterns, check_samples, foldable, unary_on_halves
from .identities import prove_rules, rule_names
from .llvm_terms import Unreadable
from .lowered_ops import LOWERINGS
from .lowerings import LoweredOp, lowered_ops, prove_lowering, prove_program
from .proving import PROVED, REFUTED, UNKNOWN, Outcome
from .ranges import RANGED, bounded_programs, wrong_ranges
from .values import INTS, SCALARS

__all__ = ["Line", "Results", "as_json", "measure", "merged", "table"]

BYTES = [DataType.BOOL, DataType.U8, DataType.I8]
SECONDS = 10.0
"""For one question to z3."""
F16_SECONDS = 30.0
"""The same for floats of 16 bits, whose claims are few."""
SAMPLES = 200
"""Operands of a fold on types of more than 8 bits."""
SECTIONS = ("identity", "fold", "lowering", "guard")
"""Parts of the table, in order."""


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


@dataclass(slots=True)
class Results:
    date: str
    machine: str
    solver: str
    lines: list[Line] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [text for line in self.lines for text in line.wrong]


def measure(quick: bool, tell: Callable[[str], None] = lambda line: None, only: str = "") -> Results:
    """Every proof and test; on types of 8 bits alone if `quick`.  `tell` gets each row as it is done.  `only`: those about an op of
    this name, or a rule.  Raises ValueError where neither is called so."""
    if only and not _rules_of(only) and not any(op.name == only for op in lowered_ops()):
        raise ValueError(f"no op that has a term is called {only}, and no rule")
    machine = f"{_cpu()}, Python {platform.python_version()}"
    results = Results(datetime.now(UTC).date().isoformat(), machine, f"z3 {z3.get_version_string()}")
    for line in chain(
        _rules(quick, only), _folds(quick, only), _lowerings(quick, only), _ranges(quick, only)
    ):
        results.lines.append(line)
        tell(" | ".join(_cells(line)))
    return results


def _cpu() -> str:
    """The processor's name where Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _rules_of(only: str) -> list[str]:
    """The names of the rules that are tried on an op, or of the one that is called so; all for ""."""
    about = {rule.name for rule in RULES if only in ("", rule.name, rule.name.lstrip("_"), *rule.roots)}
    return [name for name in rule_names() if name in about]


def _rules(quick: bool, only: str) -> Iterator[Line]:
    about = {rule.name: rule.doc for rule in RULES}
    integers = BYTES if quick else [t for t in SCALARS if not t.is_float]
    for name in _rules_of(only):
        proofs = prove_rules(integers, rules=[name])
        if not quick:  # z3 does not decide floats of more bits in that time
            proofs += prove_rules([DataType.F16], seconds=F16_SECONDS, by_exponent=True, rules=[name])
        verdicts = {dtype: verdict for proof in proofs for dtype, verdict in proof.types.items()}
        proved = [dtype for dtype, verdict in verdicts.items() if verdict == PROVED]
        undecided = [f"{dtype}: not decided" for dtype, verdict in verdicts.items() if verdict == UNKNOWN]
        wrong = [text for proof in proofs for text in proof.counterexamples]
        seconds = sum(proof.seconds for proof in proofs)
        yield Line("identity", name, about[name], proved, undecided, wrong, seconds)


def _folds(quick: bool, only: str) -> Iterator[Line]:
    """Bytes by NumPy, samples of all types by z3, f16 beside the interpreter."""
    step = 5 if quick else 1
    checks: list[tuple[str, str, Iterator[FoldCheck]]] = [
        ("ops of u8 and i8", f"bytes and pairs of bytes, each {step}th" if quick else "all bytes and pairs of bytes",
         (check_bytes(op, step) for op in foldable(8) if only in ("", op.name))),
    ]  # fmt: skip
    if not quick:
        checks += [
            ("all ops, casts and types", "edge values and random ones",
             (check_samples(op, _fold_samples(op)) for op in foldable() if only in ("", op.name))),
            ("unary ops of f16, and casts from it", "every f16, beside the interpreter",
             (check_patterns(op) for op in unary_on_halves() if only in ("", op.name))),
        ]  # fmt: skip
    for about, how, pending in checks:
        start = time.process_time()
        done = list(pending)
        wrong = [f"{check.op} {operands}" for check in done for operands in check.wrong]
        tested = [f"{sum(check.checked for check in done)} operands: {how}"]
        yield Line("fold", "fold", about, [], tested, wrong, time.process_time() - start)


def _fold_samples(op: LoweredOp) -> int:
    """The term of fmod has a case for each exponent."""
    return 5 if op.name == "rem" and op.type.is_float else SAMPLES


def _lowerings(quick: bool, only: str) -> Iterator[Line]:
    by_name: dict[str, list[LoweredOp]] = {}
    for op in lowered_ops():
        if (op.widest <= 8 or not quick) and only in ("", op.name):
            by_name.setdefault(op.name, []).append(op)
    for name, ops in by_name.items():
        for lowering in LOWERINGS if not quick else ("nvptx", "cpu lanes"):
            yield _lowering(name, ops, lowering)


def _lowering(name: str, ops: list[LoweredOp], lowering: str) -> Line:
    line = Line("lowering", f"{name}, {lowering}", "", [])
    start = time.process_time()
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
    line.seconds = time.process_time() - start
    return line


def _ranges(quick: bool, only: str) -> Iterator[Line]:
    for name in (name for name in RANGED if only in ("", name)):
        start, tried, wrong = time.process_time(), 0, []
        for dtype in (DataType.U8,) if quick else (DataType.U8, DataType.I8):
            count, bad = wrong_ranges(name, dtype)
            tried += count
            wrong += [f"{name} {dtype} {pair}" for pair in bad]
        seconds = time.process_time() - start
        tested = [f"u8, i8: {tried} pairs of ranges, all bytes in them"]
        yield Line("guard", f"range of {name}", "", [], tested, wrong, seconds)
    for lowering in ("nvptx", "cpu lanes") if not only else ():
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


def merged(before: dict[str, Any], results: Results) -> dict[str, Any]:
    """An earlier run of all, with the rows of a run of one op in it.  Rows of folds are about all ops, and stay."""
    rows = asdict(results)["lines"]
    made = {(row["section"], row["rule"]): row for row in rows if row["section"] != "fold"}
    kept = [made.pop((row["section"], row["rule"]), row) for row in before["lines"]]
    ops = {name: at for at, name in enumerate(OPS)}

    def place(row: dict[str, Any]) -> tuple[int, int]:
        at = ops.get(row["rule"].partition(",")[0], 0) if row["section"] == "lowering" else 0
        return SECTIONS.index(row["section"]), at

    return {**before, "lines": sorted([*kept, *made.values()], key=place)}


def as_json(results: dict[str, Any]) -> str:
    """Text of results, with a line for each row."""
    head = {key: value for key, value in results.items() if key != "lines"}
    rows = ",\n".join(map(json.dumps, results["lines"]))
    return f'{json.dumps(head)[:-1]}, "lines": [\n{rows}\n]}}\n'


def table(results: Results) -> Iterator[str]:
    """The rows as text."""
    yield f"{results.solver}, {results.machine}, {results.date}"
    yield from (" | ".join(_cells(line)) for line in results.lines)
    yield from (f"WRONG: {text}" for text in results.wrong)


def _cells(line: Line) -> list[str]:
    return [line.rule, line.about.partition("\n")[0], " ".join(line.proved), "; ".join(line.tested),
            f"{line.seconds:.1f} s", *(["WRONG"] if line.wrong else [])]  # fmt: skip
