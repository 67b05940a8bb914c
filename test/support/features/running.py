"""A program of the campaign, run as it is and after passes, against its outputs by NumPy."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from vyre_opt import ProgramWarning
from vyre_opt.driver.compile import compile_module
from vyre_opt.execution import on_debug_print
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.fusion.result_check import UnsoundResult
from vyre_opt.ir import Module, parse
from vyre_opt.ir.verifier import check as verify_module
from vyre_opt.passes import PassManager, decode_scan_fuse, launch_fusion, store_forward
from vyre_opt.passes.manager import Result
from vyre_opt.rewriting.cloning import copy_module
from vyre_opt.specialization.binding import fix_types

from ..properties import ordinary_passes, with_options
from .arithmetic import Array, bits_of
from .composition import Composed, Observed

__all__ = ["Outcome", "check", "is_refusal", "random_passes"]

AS_WRITTEN = 4
VERIFIED = 8
"""Of so many programs one is verified after each pass, the others at the end."""


@dataclass(slots=True)
class Outcome:
    """What came of a program.  `effects`: what passes did, of EFFECTS but `together`.

    `together`: the features of launches that became one, a set for each such launch.  `failures`: how, what.
    """

    effects: set[str] = field(default_factory=set)
    together: list[set[str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    runs: int = 0


def random_passes(rng: random.Random, *, specs: bool = False) -> str:
    """The passes in a random order, one to all of them; what they require comes with them.

    `specs`: whether a run gives specialization constants other values than their defaults, which `specialize` takes.
    """
    names = [
        name
        for name in ordinary_passes()
        if name not in ("tune", "verify") and not (specs and name == "specialize")
    ]
    chosen = rng.sample(names, rng.randrange(1, len(names) + 1))
    for name in ("launch_fusion", "decode_scan_fuse", "store_forward"):
        if name not in chosen and rng.random() < 0.5:
            chosen.insert(rng.randrange(len(chosen) + 1), name)
    return ",".join(with_options(name, rng) for name in chosen)


def check(composed: Composed, target: str | Dispatcher) -> Outcome:
    """Run a program on a target: after the default passes, after passes in a random order, and some as they are.

    One in AS_WRITTEN runs as it is, and one that fails does, too, so that it is known what is at fault.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProgramWarning)  # a stage may be drawn whose result no other reads
        return _check(composed, target)


def _check(composed: Composed, target: str | Dispatcher) -> Outcome:
    outcome, rng = Outcome(), random.Random(f"passes {composed.seed}")
    expected = composed.expected()
    try:
        module = composed.pipeline().module if composed.is_python else parse(composed.text())
    except Exception as error:
        outcome.failures.append(("translate", _message(error)))
        return outcome
    for how in ("default", random_passes(rng, specs=bool(composed.specs))):
        try:
            copy, result = _after(composed, module, how)
        except UnsoundResult as refusal:
            outcome.failures.append(
                (how, f"{_message(refusal)}; {_unchecked(composed, module, how, target, expected)}")
            )
            continue
        except Exception as error:
            outcome.failures.append((how, _message(error)))
            continue
        _add_effects(outcome, result, composed)
        _compare(outcome, composed, expected, how, partial(_observe, composed, copy, target))
    if not outcome.failures and _is_called(composed, expected):
        _compare(outcome, composed, expected, "called", partial(_called, composed, target))
    if composed.seed % AS_WRITTEN == 0 or outcome.failures:
        _compare(outcome, composed, expected, "as written", partial(_observe, composed, module, target))
    return outcome


def _after(composed: Composed, module: Module, passes: str) -> tuple[Module, Result]:
    """A copy of a module after passes."""
    copy = copy_module(module)
    fix_types(copy, {name: value for name, value in composed.specs.items() if name.startswith("T")})
    result = PassManager(passes, verify_each=composed.seed % VERIFIED == 0).run(copy)
    verify_module(copy)
    return copy, result


CHECKS = ((launch_fusion, "check_joined"), (decode_scan_fuse, "check_tiles"), (store_forward, "check_stores"))
RIGHT = "it is right"


def _unchecked(
    composed: Composed, module: Module, passes: str, target: str | Dispatcher, expected: Observed
) -> str:
    """What a result that its check refuses would have given: RIGHT, or what is wrong with it."""
    with ExitStack() as stack:
        for place, name in CHECKS:
            stack.enter_context(patch.object(place, name, lambda *_: None))
        try:
            copy, _ = _after(composed, module, passes)
            return (
                difference(composed, expected, _observe(composed, copy, target), exact_lines=False) or RIGHT
            )
        except Exception as error:
            return _message(error)


def _is_called(composed: Composed, expected: Observed) -> bool:
    """Whether to call a function of Python on arrays, too: half of those that read nothing for the host."""
    has_reads = any(name.startswith("host_read") for name, _ in expected.arrays)
    return composed.is_python and composed.seed % 2 == 1 and not has_reads


def _compare(
    outcome: Outcome, composed: Composed, expected: Observed, how: str, observe: Callable[[], Observed]
) -> None:
    outcome.runs += 1
    try:
        what = difference(composed, expected, observe(), exact_lines=how == "as written")
    except Exception as error:
        what = _message(error)
    if what:
        outcome.failures.append((how, what))


def is_refusal(what: str) -> bool:
    """Whether a failure is that a check refused what a pass had made, though that was right."""
    return what.startswith(UnsoundResult.__name__) and what.endswith(RIGHT)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _observe(composed: Composed, module: Module, target: str | Dispatcher) -> Observed:
    specs = composed.specs
    known = {name for program in module.programs.values() for name in program.specs}
    executable: Any = compile_module(
        module, "main", target, {k: v for k, v in specs.items() if k in known}, ""
    )
    lines: list[str] = []
    reads: list[tuple[str, Array]] = []
    with on_debug_print(lines.append):
        outputs = executable(
            composed.inputs(),
            lengths=composed.lengths(),
            params=composed.params(),
            on_host_read=lambda name, array: reads.append((f"host_read {name}", array)),
        )
    return Observed([*reads, *outputs.items()], lines)


def _called(composed: Composed, target: str | Dispatcher) -> Observed:
    """A call of the Python function on arrays, which it changes in place."""
    arrays = composed.inputs()
    lines: list[str] = []
    with on_debug_print(lines.append):
        composed.pipeline().options(target=target)(*composed.arguments(arrays))
    return Observed(
        [(b.name, arrays[b.name]) for b in composed.buffers.values() if b.kind in ("write", "both")], lines
    )


def difference(composed: Composed, expected: Observed, actual: Observed, *, exact_lines: bool) -> str:
    """Where two observations differ first, in words; "" if nowhere."""
    names = [[name for name, _ in observed.arrays] for observed in (expected, actual)]
    if sorted(names[0]) != sorted(names[1]) or [n for n in names[0] if " " in n] != [
        n for n in names[1] if " " in n
    ]:
        return f"gives {', '.join(names[1])}, not {', '.join(names[0])}"
    outputs = {name: array for name, array in actual.arrays if " " not in name}
    reads = [array for name, array in actual.arrays if " " in name]
    at = 0
    for name, want in expected.arrays:
        if " " in name:
            got, at = reads[at], at + 1
        else:
            got = outputs[name]
        ty = composed.buffers[name.split(" ")[-1]].ty
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"@{name} is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
        wrong = np.argwhere(bits_of(got, ty) != bits_of(want, ty))
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            return f"@{name}{list(place)} is {got[place]}, not {want[place]} ({len(wrong)} of {want.size} differ)"
    lines = (expected.lines, actual.lines) if exact_lines else (sorted(expected.lines), sorted(actual.lines))
    if lines[0] != lines[1]:
        return f"prints {lines[1]}, not {lines[0]}"
    return ""


def _add_effects(outcome: Outcome, result: Result, composed: Composed) -> None:
    if result.changed:
        outcome.effects.add("changed")
    for remark in result.remarks:
        facts = remark.certificate
        if remark.kind != "applied" or facts.get("pipeline", "main") != "main":
            continue
        if remark.pass_name == "launch_fusion" and facts.get("claim") == "join":
            outcome.effects.add("joined")
            if facts.get("halo"):
                outcome.effects.add("halo")
            if any(each["factor"] > 1 or each["single"] for each in facts.get("regrid", ())):
                outcome.effects.add("regrid")
            outcome.together.append(_features_of(facts["launches"], composed))
        elif remark.pass_name == "decode_scan_fuse":
            outcome.effects.add("tile")
        elif remark.pass_name == "store_forward":
            outcome.effects.add("forward")


def _features_of(launches: Sequence[str], composed: Composed) -> set[str]:
    """The features of the programs that were joined; a program may itself be of several."""
    parts = [part for name in launches for part in name.split("_then_")]
    features = set(composed.whole)
    for part in parts:
        for name, own in composed.features.items():
            if part == name or part.startswith(f"{name}_"):
                features |= own
    return features
