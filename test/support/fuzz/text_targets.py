"""The parser and the verifier, the parser's two ways to read, the passes, and texts of pass pipelines."""

from __future__ import annotations

import random
from itertools import product

from vyre_opt.ir import DiagnosticError, Module, Source, errors_of, parse_source, print_program, verify
from vyre_opt.ir.diagnostics import decode, render_all
from vyre_opt.passes import PassManager
from vyre_opt.passes.pipeline_text import DEFAULT, format_pipeline, parse_pipeline
from vyre_opt.passes.registry import BUILTIN, PassError

from ..parser_paths import difference, respaced
from ..properties import random_pipeline
from .header import UNTIMED_PASSES, bytes_of, mutate_with_header, split_header, text_of, with_header
from .seed_texts import any_texts
from .target import Target, Wrong, shape_of
from .text_mutations import ALL_EDITS, OTHER_LANGUAGES, SMALL_EDITS, mutate

__all__ = ["FAST_PATH", "PASSES", "PASS_TEXT", "TEXT"]

LONGEST_MESSAGES = 200_000


# --- a text: it parses and verifies, or is diagnosed


def _text_seeds() -> list[bytes]:
    """Every text, and some with locations, which few have."""
    texts = list(any_texts())
    return [bytes_of(text) for text in (*texts, *filter(None, map(_located, texts[::8])))]


def _located(text: str) -> str | None:
    try:
        return print_program(parse_source(Source(text, "seed.vyre")), locations=True)
    except DiagnosticError:
        return None


def _mutate_text(case: bytes, other: bytes, rng: random.Random) -> bytes:
    mutations = rng.choice((ALL_EDITS, ALL_EDITS, SMALL_EDITS, OTHER_LANGUAGES))
    return bytes_of(mutate(text_of(case), text_of(other), rng, mutations))


def _run_text(case: bytes) -> str:
    """Messages render; a right text prints in both forms and with locations, and what is printed parses to the same text."""
    try:
        module = parse_source(Source(decode(case, "case.vyre"), "case.vyre"))
        diagnostics = verify(module)
    except DiagnosticError as error:
        return _rendered(error)
    if any(d.severity == "error" for d in diagnostics):
        return _rendered(DiagnosticError(diagnostics))
    for generic, locations in product((False, True), repeat=2):
        printed = print_program(module, generic, locations)
        if print_program(_reparsed(printed), generic, locations) != printed:
            located = " with locations" * locations
            raise Wrong(f"the {'generic' if generic else 'short'} form{located} reads back as another text")
    return "right"


def _rendered(error: DiagnosticError) -> str:
    if sum(map(len, render_all(error.diagnostics))) > LONGEST_MESSAGES:
        raise Wrong("the messages are too long to read")
    for diagnostic in error.diagnostics:
        loc = diagnostic.loc
        if loc is None or not 0 <= loc.start <= loc.end <= len(loc.source.text):
            raise Wrong(f"a message without a place in the text: {shape_of(diagnostic.message)}")
    return f"refused: {shape_of(error.diagnostics[0].message)}"


def _reparsed(printed: str) -> Module:
    try:
        module = parse_source(Source(printed, "printed.vyre"))
        errors = errors_of(module)
    except DiagnosticError as error:
        errors = list(error.diagnostics)
    if errors:
        raise Wrong(f"what is printed is wrong: {shape_of(errors[0].message)}")
    return module


TEXT = Target(
    "text", ".vyre", "a text through parser, verifier and printer", _text_seeds, _mutate_text, _run_text
)


# --- a text by the fast path and by the tables


def _mutate_spaces(case: bytes, other: bytes, rng: random.Random) -> bytes:
    return bytes_of(respaced(text_of(_mutate_text(case, other, rng)), rng))


def _run_fast_path(case: bytes) -> str:
    """Both give the same module, or the same errors."""
    try:
        text = decode(case, "case.vyre")
    except DiagnosticError as error:
        return _rendered(error)
    different = difference(text)
    if different is not None:
        raise Wrong(different)
    return "alike"


FAST_PATH = Target(
    "fast-path",
    ".vyre",
    "a text by the parser's fast path and by its tables",
    _text_seeds,
    _mutate_spaces,
    _run_fast_path,
)


# --- a text and passes


def _passes_seeds() -> list[bytes]:
    rng = random.Random(0)
    pipelines = [DEFAULT, *UNTIMED_PASSES]
    return [
        bytes_of(with_header(text, rng.choice((rng.choice(pipelines), random_pipeline(rng, pipelines)))))
        for text in any_texts()
    ]


def _mutate_passes(case: bytes, other: bytes, rng: random.Random) -> bytes:
    return bytes_of(mutate_with_header(text_of(case), text_of(other), rng, SMALL_EDITS))


def _run_passes(case: bytes) -> str:
    """Passes take a right text, or refuse it with a diagnostic; what is wrong after one is a PassFailure."""
    passes, _, text = split_header(text_of(case))
    try:
        module = parse_source(Source(text, "case.vyre"))
        if errors_of(module):
            return "refused: wrong text"
        result = PassManager(passes).run(module)
        print_program(module)
    except DiagnosticError as error:
        return _rendered(error)
    except PassError as error:
        return f"refused: no pipeline: {shape_of(str(error))}"
    return " ".join(sorted({f"{r.pass_name} {shape_of(r.message)}" for r in result.remarks}))[:400]


PASSES = Target(
    "passes",
    ".vyre",
    "a text through the passes of its first line",
    _passes_seeds,
    _mutate_passes,
    _run_passes,
    batch=2000,
)


# --- the text of a pipeline of passes

_PIPELINES = (
    "cse",
    DEFAULT,
    "unroll{factor=4},cse",
    "unroll{factor=4 full=true max_ops=40}",
    "inline{keep=true},dce,default",
    "decode_scan_fuse{budget=64 narrow=false}",
    "fusion_pressure{threshold=1.5},launch_fusion{max_group_bytes=1000}",
    "vectorize-access , barrier_elim",
    "tune{trials=3}",
)


def _pass_text_seeds() -> list[bytes]:
    rng = random.Random(0)
    return [bytes_of(text) for text in (*_PIPELINES, *BUILTIN, *(random_pipeline(rng) for _ in range(60)))]


def _mutate_pass_text(case: bytes, other: bytes, rng: random.Random) -> bytes:
    return bytes_of(mutate(text_of(case), text_of(other), rng, ALL_EDITS, BUILTIN))


def _run_pass_text(case: bytes) -> str:
    """A list of passes whose text reads back as the same, or a PassError."""
    try:
        manager = PassManager(text_of(case))
        text = format_pipeline(parse_pipeline(text_of(case)))
    except PassError as error:
        return f"refused: {shape_of(str(error))}"
    if format_pipeline(parse_pipeline(text)) != text:
        raise Wrong("the text of the pipeline reads back as another one")
    return " ".join(sorted(p.name for p in manager.passes))


PASS_TEXT = Target(
    "pass-text",
    ".txt",
    "the text of a pipeline of passes",
    _pass_text_seeds,
    _mutate_pass_text,
    _run_pass_text,
)
