"""Random programs of the IR, printed as Python, translate to the same programs."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from support.dimension_programs import random_pipeline
from support.generator import random_program
from support.modules import written_module
from support.python_normal_form import bring_to_normal_form
from support.python_printer import print_as_python
from support.python_subset import SETTINGS, python_subset
from support.quick import quick
from support.sample import Sample

from vyre_opt import fingerprint, parse
from vyre_opt.ir import OPS, Module, errors_of
from vyre_opt.ir.ops import NAMED_KERNELS
from vyre_opt.syntax.printer import canonical_text

# what is random does what no author means
pytestmark = pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")

SEEDS = range(200)
MORE = range(200, 3200)
CHUNK, BIG_CHUNK = 20, 500

WITHOUT_A_WORD = {
    "spec": "Python has params and constants of the file; `specialize` binds specs before",
    "call": "a kernel in Python inlines its functions; the functions of each program are printed and called",
    "region": "Python has no named groups; their bodies are compared",
    **dict.fromkeys(
        ("copy_async", "copy_wait", "matrix_load", "matrix_store", "matrix_mul_add"),
        "random programs have none; test_tiles.py and test_matrices.py have kernels with them",
    ),
    **dict.fromkeys(NAMED_KERNELS, "pipelines launch named kernels, a program calls none"),
}
"""The ops that no translation has, and why."""


def translated(text: str, seed: int, folder: Path, name: str) -> Module:
    result: Module = getattr(written_module(folder, text, f"printed_{seed}"), name).module
    return result


def check(sample: Sample, seed: int, folder: Path) -> set[str]:
    """The names of the ops that were compared."""
    expected = python_subset(sample)
    assert not errors_of(expected)
    name = sample.program.name
    text = print_as_python(expected, expected.programs[name], seed)
    actual = translated(text, seed, folder, name)
    programs = expected.programs[name], actual.programs[name]
    for module, program in zip((expected, actual), programs, strict=True):
        bring_to_normal_form(module, program)
    if fingerprint(programs[0]) != fingerprint(programs[1]):
        one, other = (canonical_text(program).splitlines() for program in programs)
        pytest.fail("\n".join([f"seed {seed}", text, *difflib.unified_diff(one, other, "IR", "Python", n=4)]))
    return {op.name for op in programs[1].walk()}


def check_all(seeds: range, folder: Path) -> set[str]:
    """The names of the ops that were compared; each seed is."""
    compared = {seed: check(random_program(seed, SETTINGS), seed, folder) for seed in seeds}
    assert list(compared) == list(seeds)
    assert all(compared.values())
    return set().union(*compared.values())


@pytest.mark.parametrize("first", quick(range(SEEDS.start, SEEDS.stop, CHUNK)))
def test_a_printed_program_translates_to_itself(first: int, tmp_path: Path) -> None:
    check_all(SEEDS[first : first + CHUNK], tmp_path)


VECTORS_AND_ATOMICS = """vyre 2
program @main workgroup(8, 2) {
  buffer @x : f32[?, 4, ?] read binding(0)
  buffer @flags : bool[?, ?] write binding(1)
  buffer @counts : u32[?, ?] read_write binding(2) live_in live_out
  buffer @t : f32[2, 17] workgroup
  %i = global_id x
  %j = local_id y
  %c0 = const 0 : u32
  %c3 = const 3 : i32
  %n = len @x, 2
  %rows = len @t, 0
  %v = load @x[%i, %c3, %j] : vec<4 x f32>
  %s = extract %v[1] : vec<4 x f32>
  store %s, @t[%j, %i] : f32
  barrier workgroup
  %t = load @t[%j, %c0] : f32
  %big = gt %t, %s : f32
  store %big, @flags[%j, %i] : bool
  %old = atomic_add @counts[%j, %c0], %n : u32
  %new = atomic_compare_exchange @counts[%c0, %i], %old, %rows : u32
  store %new, @counts[%j, %old] : u32
}
"""


def test_printed_programs_of_several_dimensions(tmp_path: Path) -> None:
    names = set()
    for seed in range(12):
        module = parse(random_pipeline(seed).text)
        for number, program in enumerate(module.programs.values()):
            names |= check(Sample(module, program, (1, 1, 1), seed), 2 * seed + number, tmp_path)
    module = parse(VECTORS_AND_ATOMICS)
    for seed in range(24, 30):
        names |= check(Sample(module, module.programs["main"], (1, 1, 1), seed), seed, tmp_path)
    assert {"len", "load", "store", "barrier", "atomic_add", "extract"} <= names


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(MORE.start, MORE.stop, BIG_CHUNK))
def test_more_printed_programs_of_all_ops(first: int, tmp_path: Path) -> None:
    """Each chunk has every op that a kernel can say."""
    names = check_all(range(first, first + BIG_CHUNK), tmp_path)
    assert sorted(OPS.keys() - names) == sorted(WITHOUT_A_WORD)


def test_the_ranges_are_covered() -> None:
    """No seed falls between two chunks."""
    assert len(SEEDS) % CHUNK == 0
    assert len(MORE) % BIG_CHUNK == 0
