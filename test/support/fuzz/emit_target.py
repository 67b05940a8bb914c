"""What vyre-opt writes beside the language: reports, and code of LLVM for the cpu and for GPUs."""

from __future__ import annotations

import random

from vyre_opt.cli.compile_options import CompileOptions
from vyre_opt.cli.session import InternalError, Session
from vyre_opt.ir import Source
from vyre_opt.passes import PassManager
from vyre_opt.passes.registry import PassError

from .header import bytes_of, mutate_with_header, split_header, text_of, with_header
from .seed_texts import runnable_texts
from .target import Target, shape_of
from .text_mutations import SMALL_EDITS, WELL_TYPED

__all__ = ["EMIT"]

FORMS = (
    {"emit": "json", "stats": True},
    {"emit": "dot"},
    {"emit": "html"},
    {"emit": "llvm", "target": "cpu"},
    {"emit": "ptx", "target": "sm_90", "bounds": "trap"},
    {"emit": "ptx", "target": "sm_70", "bounds": "clamp"},
    {"emit": "llvm", "target": "sm_80"},
)


def _seeds() -> list[bytes]:
    passes = ("", "default", "expand_kernels")
    return [
        bytes_of(with_header(text, passes[number % len(passes)]))
        for number, text in enumerate(runnable_texts())
    ]


def _mutate(case: bytes, other: bytes, rng: random.Random) -> bytes:
    mutations = WELL_TYPED if rng.random() < 0.6 else SMALL_EDITS
    return bytes_of(mutate_with_header(text_of(case), text_of(other), rng, mutations))


def _run(case: bytes) -> str:
    """Each form is written, or the text is diagnosed."""
    passes, _, text = split_header(text_of(case))
    written: list[str] = []
    for form in FORMS:
        options = CompileOptions(passes=(passes,) if passes else (), **form)
        try:
            session = Session(options, PassManager(passes, target=options.target or "") if passes else None)
            output = session.compile(Source(text, "case.vyre"))
        except PassError as error:
            return f"refused: {shape_of(str(error))}"
        except InternalError as error:
            raise error.bug from None
        if output is None and not written and form is FORMS[0]:
            return "refused: wrong text"
        if output is not None:
            written.append(options.emit)
    return " ".join(written)


EMIT = Target(
    "emit",
    ".vyre",
    "a text as JSON, as pictures, as LLVM IR and PTX",
    _seeds,
    _mutate,
    _run,
    batch=1000,
)
