"""Decisions of the fusing passes on a text, for each buffer and each launch, with their reasons.

The passes run on a module of their own, in which type parameters are the types that they are by default.  `decode_scan_fuse` sees the programs as they are written, and `launch_fusion` the
pipelines; then `decode_scan_fuse` sees what became of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..ir.diagnostics import Source
from ..passes.manager import PassManager, Remark
from ..specialization.binding import fix_types
from ..syntax.parser import parse_source
from .text_parts import Span

__all__ = ["buffer_decisions", "launch_decisions"]

_LAUNCH = re.compile(r"launch\s+@([\w.$]+)", re.ASCII)
_PIPELINES = ("decode_scan_fuse", "launch_fusion,decode_scan_fuse")


@lru_cache(maxsize=4)
def _remarks(text: str) -> tuple[tuple[Remark, ...], ...]:
    """Remarks on each of the pipelines of a text that verifies."""
    runs = []
    for passes in _PIPELINES:
        module = parse_source(Source(text))
        fix_types(module, {})
        runs.append(tuple(PassManager(passes, verify_each=False).run(module).remarks))
    return tuple(runs)


def buffer_decisions(text: str, owner: tuple[str, str], name: str) -> Iterator[str]:
    """Why a buffer of a program is moved to workgroup memory or is not; of a pipeline, why it is still needed or is not.

    `owner`: kind and name of the item that declares it.
    """
    alone, joined = _remarks(text)
    kind, item = owner
    if kind == "program":
        for remark in alone:
            facts = remark.certificate
            if (facts.get("program"), facts.get("buffer")) == (item, name):
                yield _text(remark)
        return
    programs = {r.certificate.get("program") for r in joined if r.certificate.get("pipeline") == item}
    for remark in joined:
        facts = remark.certificate
        is_here = facts.get("pipeline") == item or facts.get("program") in programs - {None}
        if is_here and (facts.get("buffer") == name or name in facts.get("internal", ())):
            yield _text(remark)


def launch_decisions(text: str, pipeline: str, line: Span) -> Iterator[str]:
    """Why the launch in a line of the text became one with others, or did not."""
    launch = _LAUNCH.search(text, line.start, line.end)
    for remark in _remarks(text)[1]:
        facts = remark.certificate
        if facts.get("pipeline") != pipeline or remark.pass_name != "launch_fusion":
            continue
        is_here = remark.loc is not None and line.start <= remark.loc.start <= line.end
        is_named = launch is not None and launch[1] in (facts.get("first"), facts.get("second"))
        if is_here or is_named or _is_joined(remark, text, pipeline, line):
            yield _text(remark)


def _is_joined(remark: Remark, text: str, pipeline: str, line: Span) -> bool:
    """Whether the launch in a line is one of those that a remark says are one now."""
    numbers: Sequence[int] = remark.certificate.get("at", ())
    if not numbers:
        return False
    stages = _launches(text, pipeline)
    return any(number < len(stages) and line.start <= stages[number] <= line.end for number in numbers)


@lru_cache(maxsize=4)
def _launches(text: str, pipeline: str) -> tuple[int, ...]:
    """Starts of the launches of a pipeline, in the order of their numbers in remarks."""
    module = parse_source(Source(text))
    stages = module.pipelines[pipeline].stages if pipeline in module.pipelines else []
    return tuple(stage.loc.start if stage.loc is not None else -1 for stage in stages)


def _text(remark: Remark) -> str:
    return f"{remark.pass_name}, {remark.kind}: {remark.message}"
