"""Plants each mistake of a list in a copy of the code, and runs the test that must notice it.

    python test/mutants.py              all of them; exit code 1 if a test passes all the same
    python test/mutants.py transient    those with a word in their title

The list is in docs/footprints.md too, and test/docs/test_mutants.py holds the two together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PLANTED = "test/passes/test_planted_mistakes.py"


class Mutant(NamedTuple):
    """`old`, which stands once in the file `path`, becomes `new`; then `test` fails."""

    title: str
    path: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "the dependence test tells workgroups apart without regard to wrap",
        "vyre_opt/analysis/dependence.py",
        "return not wrap or reach < wrap",
        "return True",
        f"{PLANTED}::test_workgroups_whose_indices_wrap_meet",
    ),
    Mutant(
        "`disjoint` divides without the modulus",
        "vyre_opt/analysis/dependence.py",
        "math.gcd(*strides, wrap)",
        "math.gcd(*strides)",
        f"{PLANTED}::test_a_divisor_must_divide_the_modulus_too",
    ),
    Mutant(
        "`disjoint` compares ranges without the modulus",
        "vyre_opt/analysis/dependence.py",
        "if (low > 0 or high < 0) and (not wrap or max(-low, high) < wrap):",
        "if low > 0 or high < 0:",
        f"{PLANTED}::test_ranges_that_do_not_meet_as_integers_may_wrap",
    ),
    Mutant(
        "the dependence test bounds an access without its width",
        "vyre_opt/analysis/dependence.py",
        "+ (p.width - 1)",
        "",
        f"{PLANTED}::test_a_written_vector_reaches_beyond_its_range",
    ),
    Mutant(
        "the dependence test bounds the other access without its width",
        "vyre_opt/analysis/dependence.py",
        "- (q.width - 1)",
        "",
        f"{PLANTED}::test_a_vector_reaches_beyond_its_range",
    ),
    Mutant(
        "`disjoint` divides without the widths",
        "vyre_opt/analysis/dependence.py",
        "range(1 - q.width, p.width)",
        "range(1)",
        f"{PLANTED}::test_a_vector_meets_what_lies_behind_its_index",
    ),
    Mutant(
        "after a loop, the most rounds that may have run are written",
        "vyre_opt/analysis/coverage.py",
        "total.spread(coefficient, counter.min_trips)",
        "total.spread(coefficient, counter.max_trips)",
        f"{PLANTED}::test_only_the_rounds_that_surely_ran_are_written",
    ),
    Mutant(
        "over a loop, only the rounds that surely run are read",
        "vyre_opt/analysis/coverage.py",
        "whole = whole.spread(coefficient, counter.max_trips)",
        "whole = whole.spread(coefficient, counter.min_trips)",
        f"{PLANTED}::test_all_rounds_that_may_run_are_read",
    ),
    Mutant(
        "what a lane wrote under its own condition is published to the group",
        "vyre_opt/analysis/coverage.py",
        'and all(p.kind != "lane" for p in condition.predicates)',
        "",
        f"{PLANTED}::test_a_condition_of_one_lane_says_nothing_of_another",
    ),
    Mutant(
        "coverage compares expressions as integers",
        "vyre_opt/analysis/coverage.py",
        "and same_element(self.residue, residue)",
        "",
        f"{PLANTED}::test_an_index_that_wraps_covers_nothing_beyond_its_type",
    ),
    Mutant(
        "a guard's predicate is without its type",
        "vyre_opt/analysis/footprint.py",
        'key = ("index", relation, dtype.name, offset, fixed)',
        'key = ("index", relation, offset, fixed)',
        f"{PLANTED}::test_a_condition_on_the_element_is_one_of_its_type",
    ),
    Mutant(
        "`<` narrows as `<=`",
        "vyre_opt/analysis/footprint.py",
        '"lt": lambda d: d < 0',
        '"lt": lambda d: d <= 0',
        f"{PLANTED}::test_a_comparison_is_narrowed_to_what_it_says",
    ),
    Mutant(
        "an element is narrowed to a type that lacks its largest value",
        "vyre_opt/analysis/narrowing.py",
        "high < 1 << bits",
        "high <= 1 << bits",
        f"{PLANTED}::test_an_element_is_narrowed_only_to_a_type_that_holds_it",
    ),
    Mutant(
        "the contents of a transient buffer are taken for kept",
        "vyre_opt/fusion/pair_legality.py",
        "if formal.is_transient and (other.access is AccessMode.READ or other.live_in):",
        "if False:",
        f"{PLANTED}::test_the_contents_of_a_transient_buffer_are_nobodys",
    ),
    Mutant(
        "loads are one value whatever a launch between writes",
        "vyre_opt/ir/equal_values.py",
        "self.versions.update(self.renewed[op])",
        "pass",
        f"{PLANTED}::test_a_launch_between_makes_a_new_version",
    ),
    Mutant(
        "a launch between two others is not looked for",
        "vyre_opt/fusion/group_legality.py",
        "if at < len(writers) and writers[at] < j:",
        "if False:",
        f"{PLANTED}::test_a_launch_between_makes_a_new_version",
    ),
    Mutant(
        "barrier_elim forgets what a removed barrier parted",
        "vyre_opt/passes/barrier_elim.py",
        "before.merge(after)",
        "pass",
        f"{PLANTED}::test_what_a_removed_barrier_parted_is_one_segment",
    ),
    Mutant(
        "licm takes every loop for one that surely runs",
        "vyre_opt/passes/licm.py",
        'sure = op.name == "for" and (trip_count(op) or 0) > 0',
        "sure = True",
        f"{PLANTED}::test_a_load_that_a_loop_may_not_reach_stays_in_it",
    ),
    Mutant(
        "a xor is aligned as the more aligned of its operands",
        "vyre_opt/analysis/alignment.py",
        '"xor": min',
        '"xor": max',
        f"{PLANTED}::test_a_xor_is_aligned_as_the_less_aligned_of_its_operands",
    ),
)


def notices(mutant: Mutant) -> bool:
    """Whether the test fails on a copy of the code with the mistake in it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for part in ("vyre_opt", "grammar"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "test", copy / "test", ignore=shutil.ignore_patterns("__pycache__", "lit"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        source = copy / mutant.path
        text = source.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times, not once")
        source.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder}
        where = subprocess.run(
            [sys.executable, "-c", "import vyre_opt; print(vyre_opt.__file__)"],
            env=environment, cwd=folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        if not where.startswith(folder):
            raise SystemExit(f"the copy is not what runs, but {where.strip()}")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutant.test]
        ran = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if ran.returncode not in (0, 1):
            raise SystemExit(f"{mutant.test}: pytest ended with {ran.returncode}\n{ran.stdout}{ran.stderr}")
        return ran.returncode == 1


def main(words: list[str]) -> int:
    selected = [mutant for mutant in MUTANTS if all(word in mutant.title for word in words)]
    missed = 0
    for mutant in selected:
        noticed = notices(mutant)
        missed += not noticed
        print(f"{'noticed' if noticed else 'MISSED '}  {mutant.title}", flush=True)
    print(f"{len(selected) - missed} of {len(selected)} mistakes are noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
