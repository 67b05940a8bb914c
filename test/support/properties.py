"""What must hold of every program: of its text, and of what passes make of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError, on_debug_print
from vyre_opt.ir import Buffer, DiagnosticError, Module, Program, errors_of, fingerprint, parse, print_program
from vyre_opt.ir.diagnostics import render
from vyre_opt.ir.program import Dim3
from vyre_opt.passes import PassManager
from vyre_opt.passes.manager import PassFailure, Result
from vyre_opt.passes.registry import LEGALIZATIONS, pass_names

from .printed import differing_lines
from .sample import Sample, random_inputs

__all__ = [
    "Baseline",
    "Broken",
    "baseline",
    "bits",
    "check_pipeline",
    "check_text",
    "ordinary_passes",
    "random_pipeline",
    "run",
    "with_options",
]

Outputs = dict[str, np.ndarray[Any, Any]]


class Broken(Exception):
    """A property does not hold of the program `text`, after `pipeline` if one is named.

    `kind` is text, fault, crash, contract, proof or result.
    """

    def __init__(self, kind: str, what: str, text: str, pipeline: str = "") -> None:
        super().__init__(f"{pipeline}: {what}" if pipeline else what)
        self.kind = kind
        self.text = text
        self.pipeline = pipeline

    @property
    def what(self) -> str:
        return str(self)


def check_text(sample: Sample) -> None:
    """The program verifies; both forms of its text, in both versions, parse to it and print the same bytes."""
    module = sample.module
    text = print_program(module)
    errors = errors_of(module)
    if errors:
        raise Broken("text", f"does not verify: {render(errors[0])}", text)
    print_ = fingerprint(module)
    for generic, version in product((False, True), (1, 2)):
        form = f"{'generic' if generic else 'short'} form of version {version}"
        printed = print_program(module, generic=generic, version=version)
        try:
            again = parse(printed)
        except DiagnosticError as wrong:
            raise Broken("text", f"the {form} does not parse: {wrong}", printed) from None
        if print_program(again, generic=generic) != printed:
            raise Broken("text", f"the {form} prints as other bytes after parsing", printed)
        if fingerprint(again) != print_:
            raise Broken("text", f"the {form} parses to another program", printed)


MAX_STEPS = 500_000
"""Far more than a generated program takes; reduction may remove what ends a loop."""


def run(
    program: Program, module: Module, grid: Dim3, inputs: dict[str, Any], lines: list[str] | None = None
) -> Outputs:
    """The outputs by buffer name; appends what it prints to `lines`.  Raises ProgramError for a program at fault."""
    arguments = [inputs[b.name] for b in program.bound_buffers]
    printed: list[str] = [] if lines is None else lines
    with on_debug_print(printed.append):
        arrays = dispatcher("ref", max_steps=MAX_STEPS).dispatch(program, arguments, grid, module=module)
    return dict(zip([b.name for b in outputs(program)], arrays, strict=True))


def outputs(program: Program) -> list[Buffer]:
    return [b for b in program.bound_buffers if b.is_output]


def named_inputs(sample: Sample, seed: int) -> dict[str, Any]:
    """Inputs by name, so that they fit a program that has lost a binding."""
    arrays = random_inputs(sample.program, sample.grid, seed)
    return {b.name: a for b, a in zip(sample.program.bound_buffers, arrays, strict=True)}


@dataclass(frozen=True, slots=True)
class Baseline:
    """A program's text, inputs by name, and what the interpreter makes of them; `lines`: what it prints."""

    text: str
    inputs: dict[str, Any]
    outcome: Outputs | ProgramError
    lines: list[str]


def baseline(sample: Sample, seed: int = 0) -> Baseline:
    """Run a program as it is.  Raises Broken for one that is sound but at fault."""
    text = print_program(sample.module)
    inputs = named_inputs(sample, seed)
    lines: list[str] = []
    try:
        outcome = run(sample.program, sample.module, sample.grid, inputs, lines)
        return Baseline(text, inputs, outcome, lines)
    except ProgramError as fault:
        if sample.sound:
            raise Broken("fault", f"a sound program is at fault: {fault}", text) from None
        return Baseline(text, inputs, fault, lines)


def check_pipeline(sample: Sample, pipeline: str, before: Baseline | None = None) -> Result:
    """Run passes on a copy of the program: it must still verify, print, and compute the same bits.

    Of a program that faults, only this is checked: it stays well-formed, and a buffer of which it reads
    unwritten elements is not fused as a hand-off.
    """
    before = before or baseline(sample)
    text, expected = before.text, before.outcome
    module = parse(text)
    try:
        result = PassManager(pipeline, verify_each=True).run(module)
    except PassFailure as failure:
        why = "".join(f"\n{render(d)}" for d in failure.diagnostics[:3])
        raise Broken("contract", f"{failure}{why}", text, pipeline) from None
    except Exception as crash:
        raise Broken("crash", f"{type(crash).__name__}: {crash}", text, pipeline) from crash
    try:
        check_text(Sample(module, module.programs[sample.program.name], sample.grid, sample.seed))
    except Broken as broken:
        raise Broken("text", f"after it, {broken}", text, pipeline) from None
    if isinstance(expected, ProgramError):
        _check_refusal(expected, result.remarks, pipeline, text)
        return result
    program = module.programs[sample.program.name]
    try:
        lines: list[str] = []
        actual = run(program, module, sample.grid, before.inputs, lines)
    except ProgramError as fault:
        raise Broken("fault", f"the program is at fault after it: {fault}", text, pipeline) from None
    _compare(sample.program, expected, actual, text, pipeline)
    if differ := differing_lines(before.lines, lines):
        raise Broken("result", differ, text, pipeline)
    return result


def _check_refusal(fault: ProgramError, remarks: Sequence[Any], pipeline: str, text: str) -> None:
    """A buffer whose unwritten elements are read must not have been fused as a hand-off."""
    fused = [r for r in remarks if r.kind == "applied" and r.pass_name == "decode_scan_fuse"]
    promoted = {r.certificate.get("buffer") for r in fused}
    blamed = {name for name in promoted if name and f"@{name}" in fault.diagnostic.message}
    if fault.kind == "uninitialised" and blamed:
        raise Broken("proof", f"@{min(blamed)} was proven a hand-off, but: {fault}", text, pipeline)


def _compare(program: Program, expected: Outputs, actual: Outputs, text: str, pipeline: str) -> None:
    if expected.keys() != actual.keys():
        raise Broken("result", f"outputs {sorted(expected)} became {sorted(actual)}", text, pipeline)
    for name, want in expected.items():
        dtype = program.buffers[name].dtype.element
        a, b = bits(want, dtype.name), bits(actual[name], dtype.name)
        if a.shape != b.shape:
            raise Broken("result", f"@{name} has shape {b.shape}, not {a.shape}", text, pipeline)
        differing = np.argwhere(a != b)
        if len(differing):
            index = tuple(int(i) for i in differing[0])
            message = f"@{name}{list(index)} is {actual[name][index]}, not {want[index]}"
            raise Broken("result", f"{message} ({len(differing)} of {a.size} differ)", text, pipeline)


def bits(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """The bit patterns, with one pattern for every NaN."""
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    unsigned = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    if name == "bf16":
        return np.where((unsigned & 0x7FFF) > 0x7F80, 0x7FC0, unsigned)
    return np.where(np.isnan(array), 0, unsigned + 0) if array.dtype.kind == "f" else unsigned


def ordinary_passes() -> list[str]:
    """The passes that leave a module of the language."""
    return [name for name in pass_names() if name not in LEGALIZATIONS]


def random_pipeline(rng: random.Random, names: Sequence[str] = ()) -> str:
    """Two to six passes in any order, some with options."""
    candidates = list(names) or ordinary_passes()
    sequence = [rng.choice(candidates) for _ in range(rng.randrange(2, 7))]
    return ",".join(with_options(name, rng) for name in sequence)


def with_options(name: str, rng: random.Random) -> str:
    """A pass with some of its options.  Those that wait for a GPU, and for lengths, have such as do not."""
    return name + rng.choice(_OPTIONS.get(name, ("",)))


_OPTIONS = {
    "batch_loads": ("{always=true}",),
    "keep_loads": ("{always=true}",),
    "coarsen": ("{by=2}", "{by=4}", "{by=8}"),
    "decode_scan_fuse": ("", "{narrow=false}", "{budget=200000}", "{budget=64}"),
    "inline": ("", "{keep=true}"),
    "launch_fusion": ("", "{halo=always}", "{halo=never}", "{strategy=greedy}", "{max_group=2}"),
    "privatize": ("{workgroups=1}", "{workgroups=3}", "{workgroups=40}"),
    "unroll": ("", "{factor=2}", "{full=true}", "{factor=3 max_ops=40}"),
}
