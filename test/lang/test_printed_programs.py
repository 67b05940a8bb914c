"""Random programs of the IR, printed as Python, translate to the same programs."""

from __future__ import annotations

import difflib
import importlib.util
from pathlib import Path

import pytest
from support.generator import random_program
from support.python_normal_form import bring_to_normal_form
from support.python_printer import print_as_python
from support.python_subset import SETTINGS, python_subset

from vyre_opt import fingerprint
from vyre_opt.ir.ops import NAMED_KERNELS, OPS
from vyre_opt.ir.printer import canonical_text
from vyre_opt.ir.program import Module
from vyre_opt.ir.verifier import verify

SEEDS = range(200)
MORE = range(200, 3200)
CHUNK, BIG_CHUNK = 20, 150

WITHOUT_A_WORD = {
    "spec": "Python has params and constants of the file; `specialize` binds specs before",
    "call": "a kernel in Python inlines its functions; the functions of each program are printed and called",
    "region": "Python has no named groups; their bodies are compared",
    **dict.fromkeys(NAMED_KERNELS, "pipelines launch named kernels, a program calls none"),
}
"""The ops that no translation has, and why."""


def translated(text: str, seed: int, folder: Path) -> Module:
    path = folder / f"printed_{seed}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result: Module = module.main.module
    return result


def check(seed: int, folder: Path) -> set[str]:
    """The names of the ops that were compared."""
    expected = python_subset(random_program(seed, SETTINGS))
    assert not [d for d in verify(expected) if d.severity == "error"]
    text = print_as_python(expected, expected.programs["main"], seed)
    actual = translated(text, seed, folder)
    programs = expected.programs["main"], actual.programs["main"]
    for module, program in zip((expected, actual), programs, strict=True):
        bring_to_normal_form(module, program)
    if fingerprint(programs[0]) != fingerprint(programs[1]):
        one, other = (canonical_text(program).splitlines() for program in programs)
        pytest.fail("\n".join([f"seed {seed}", text, *difflib.unified_diff(one, other, "IR", "Python", n=4)]))
    return {op.name for op in programs[1].walk()}


def check_all(seeds: range, folder: Path) -> set[str]:
    """The names of the ops that were compared; each seed is."""
    compared = {seed: check(seed, folder) for seed in seeds}
    assert list(compared) == list(seeds)
    assert all(compared.values())
    return set().union(*compared.values())


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, CHUNK))
def test_a_printed_program_translates_to_itself(first: int, tmp_path: Path) -> None:
    check_all(SEEDS[first : first + CHUNK], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MORE.start, MORE.stop, BIG_CHUNK))
def test_more_printed_programs_of_all_ops(first: int, tmp_path: Path) -> None:
    """Each chunk has every op that a kernel can say."""
    names = check_all(range(first, first + BIG_CHUNK), tmp_path)
    assert sorted(OPS.keys() - names) == sorted(WITHOUT_A_WORD)


def test_the_ranges_are_covered() -> None:
    """No seed falls between two chunks."""
    assert len(SEEDS) % CHUNK == 0
    assert len(MORE) % BIG_CHUNK == 0
