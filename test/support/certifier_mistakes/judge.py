"""What a mistake leads to, by the interpreter on random inputs, and what the certifier says of it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from vyre_opt import parse, run
from vyre_opt.certify.certifier import CERTIFIED, Certifier
from vyre_opt.cli.certify import add_lowering
from vyre_opt.driver.binding import Signature, find_entry
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.execution import DispatchError, ProgramError
from vyre_opt.ir import Module
from vyre_opt.ir.grids import evaluate, lengths_by_dimension
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module

from ..properties import bits
from ..sample import random_array
from .mistake import Mistake

__all__ = ["Verdict", "is_wrong", "judged"]

SECONDS = 3.0
CALLS = 200
"""Random ones, until one shows that a program is wrong."""

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Verdict:
    """`status`: that of the decision that is worst.  `by`: the pass it is about.  `how`: z3, a call that was found where
    z3 knows nothing, or one that was found for a pass of which nothing is proved.  `witness`: in words.

    `is_proved`: whether all decisions about a pass that is certified were proved, though what it made is wrong.
    """

    status: str
    by: str
    how: str
    witness: str
    is_proved: bool


def after_passes(mistake: Mistake, certifier: Certifier) -> Module:
    """The module of a mistake's text after its passes, with the mistake in them."""
    module = parse(mistake.text)
    with mistake.is_made():
        if mistake.passes == "lowering":
            add_lowering(certifier, module)
        else:
            PassManager(mistake.passes, verify_each=False, observers=[certifier]).run(module)
    return module


def judged(mistake: Mistake) -> Verdict:
    """What the certifier says of what the passes made."""
    certifier = Certifier(partial(counterexample, seconds=SECONDS))
    after_passes(mistake, certifier)
    decided = list(certifier.decisions)
    for decision in decided:
        decision.certify(SECONDS)
    tried = list(certifier.tried())
    for decision in tried:
        decision.certify(SECONDS)
    guilty = {decision.by for decision in tried} & {*CERTIFIED, "lowering"}
    is_proved = any(all(d.status == "proved" for d in decided if d.by == by) for by in guilty)
    for status in ("refuted", "unknown"):
        for decision in (*decided, *tried):
            if decision.status == status:
                answer = next(a for a in decision.answers if a.status == status)
                shown = ", ".join(f"{name} = {value}" for name, value in answer.witness.items())
                how = ("a call, z3" if decision in decided else "a call") if answer.reason else "z3"
                words = f"{answer.reason or answer.obligation.what}: {shown}"
                return Verdict(status, decision.by, how, words, is_proved)
    return Verdict("proved", mistake.passes, "", "", is_proved)


def is_wrong(mistake: Mistake) -> bool:
    """Whether the interpreter finds another result after the passes, or a fault, on random inputs on which the text as it is
    has none; for the lowering, whether an access that is not checked may be out of bounds."""
    before = parse(mistake.text)
    after = after_passes(mistake, Certifier())
    return (
        any(_differs(before, after, call) for call in _calls(before))
        if mistake.passes != "lowering"
        else any(_kind(before, call) == "bounds" for call in _calls(before))
    )


def _calls(module: Module) -> Iterator[Mapping[str, Any]]:
    """Random arguments for a module's pipeline, or its only program."""
    item = find_entry(module, None)
    signature = Signature.of(item)
    for seed in range(CALLS):
        rng = random.Random(seed)
        params: dict[str, Any] = {name: rng.randrange(9) for name in signature.params}
        known: dict[str, int | None] = {f"@{name}": value for name, value in params.items()}
        arrays: Arrays = {}
        for buffer in signature.buffers:
            sizes = buffer.sizes or (None,) * buffer.dimensions
            shape = [
                evaluate(size, known) if size is not None else rng.randrange(70) if extent is None else extent
                for extent, size in zip(buffer.shape, sizes, strict=True)
            ]
            known |= {buffer.name: prod(shape), **lengths_by_dimension(buffer.name, tuple(shape))}
            if buffer in signature.parameters:
                array = random_array(buffer.dtype, shape, rng)
                arrays[buffer.name] = array if seed % 2 else array % 4 if array.dtype.kind in "ui" else array
        is_open = getattr(item, "grid", True) is None
        yield {"inputs": arrays, "params": params, "grid": (rng.randrange(1, 3), 1, 1) if is_open else None}


def _kind(module: Module, call: Mapping[str, Any]) -> str:
    """Of the fault of a call; "" for none."""
    try:
        run(copy_module(module), **call, target="ref")
    except ProgramError as fault:
        return fault.kind
    except DispatchError:
        pass
    return ""


def _differs(before: Module, after: Module, call: Mapping[str, Any]) -> bool:
    try:
        expected = run(copy_module(before), **call, target="ref")
    except DispatchError:
        return False
    try:
        own = {b.name for b in Signature.of(find_entry(after, None)).parameters}
        inputs = {name: array for name, array in call["inputs"].items() if name in own}
        actual = run(copy_module(after), **{**call, "inputs": inputs}, target="ref")
    except ProgramError:
        return True
    types = {b.name: b.dtype.element.name for b in Signature.of(find_entry(before, None)).buffers}
    if expected.keys() != actual.keys():
        return True
    return any(
        (bits(expected[name], types[name]) != bits(actual[name], types[name])).any() for name in expected
    )
