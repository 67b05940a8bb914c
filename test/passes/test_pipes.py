"""`vyre-opt --pass=a | vyre-opt --pass=b` prints what `vyre-opt --pass=a --pass=b` prints, to the byte.

A pass is to know nothing of a module that its text does not say: the manager gives it the normal form (syntax/normal_form.py).
"""

from __future__ import annotations

import random

import pytest
from support.features.running import random_passes
from support.pipes import RANDOM_TEXTS, in_one_process, piped, written_files, written_texts
from support.quick import quick

from vyre_opt import parse
from vyre_opt.ir import print_program
from vyre_opt.passes import PassManager
from vyre_opt.syntax.normal_form import normalize

FILES = written_files()
SEEDS = 250
"""Random modules of each sort in the campaign."""


def _check(text: str, passes: str) -> None:
    assert in_one_process(text, passes) == piped(text, passes), f"{passes}\n{text}"


@pytest.mark.parametrize("path", quick(FILES, lambda path: path.rpartition("/")[0], keep=6))
def test_written_modules(path: str) -> None:
    for text in written_texts(path):
        _check(text, "default")


@pytest.mark.campaign
@pytest.mark.parametrize("path", FILES)
def test_written_modules_in_version_2_and_in_other_orders(path: str) -> None:
    for text in written_texts(path):
        newer = print_program(parse(text), version=2)
        _check(newer, "default")
        for version in (text, newer):
            _check(version, random_passes(random.Random(version)))


@pytest.mark.parametrize(
    ("sort", "seed"), quick([(sort, seed) for seed in range(SEEDS) for sort in RANDOM_TEXTS])
)
def test_random_modules(sort: str, seed: int) -> None:
    module = parse(RANDOM_TEXTS[sort](seed))
    first, second = random.Random(seed).sample((1, 2), 2)
    _check(print_program(module, version=first), "default")
    _check(print_program(module, version=second), random_passes(random.Random(seed)))


def test_what_a_pass_requires_has_the_options_that_it_has_by_itself() -> None:
    """The kernel that was to stay is expanded for what cannot do with it."""
    text = """vyre 1
pipeline @main {
  buffer @x : f32[1024] read
  buffer @y : f32[1024] write live_out
  math.softmax(@x, @y) {columns = 32}
}
"""
    passes = "expand_kernels{native=true},fusion_pressure"
    assert in_one_process(text, passes) == piped(text, passes)
    assert "launch @" in in_one_process(text, passes)


def test_programs_are_in_the_order_of_the_text() -> None:
    """One that fusion makes stands before the pipelines, and so before a program that stands behind them."""
    text = next(written_texts("examples/pipelines/diamond.vyre"))
    module = parse(f"{text}\nprogram @last workgroup(1) {{\n}}\n")
    assert PassManager("default").run(module)
    assert list(module.programs) == list(parse(print_program(module)).programs)
    assert list(module.programs)[-1] == "last"


def test_version_of_the_normal_form() -> None:
    """That of the text: constants which were read from a text of version 1 have names in one of version 2."""
    module = parse("vyre 1\nprogram @p workgroup(4) {\n  param @n : u32\n}\n")
    normalize(module)
    assert module.version == 2
    assert print_program(module).startswith("vyre 2\n")
