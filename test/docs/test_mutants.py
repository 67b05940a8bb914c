"""The planted mistakes: each has its place in the code, and its test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from mutants.mutant import Mutant
from mutants.page import page
from mutants.planting import Outcome, WorkingCopy
from mutants.tables import MUTANTS
from support.each import each


def test_a_mistake_has_its_place_and_its_test(root: Path) -> None:
    def check(mutant: Mutant) -> None:
        text = (root / mutant.path).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1
        compile(text.replace(mutant.old, mutant.new), mutant.path, "exec")
        path, _, name = mutant.test.partition("::")
        function, _, parameter = name.partition("[")
        # a file alone stands for all its tests
        assert f"def {function}" in (root / path).read_text(encoding="utf-8")
        if path == "test/test_lit.py":
            assert (root / "test/lit" / parameter.removesuffix("]")).is_file()

    each(MUTANTS, check, lambda mutant: mutant.title)


def test_titles_tell_them_apart() -> None:
    assert [title for title, count in Counter(mutant.title for mutant in MUTANTS).items() if count > 1] == []


def test_few_are_equivalent() -> None:
    """A mistake that no test can notice is of little use here."""
    assert sum(bool(mutant.equivalent) for mutant in MUTANTS) <= len(MUTANTS) * 0.05


def test_the_page_has_every_mistake() -> None:
    lines = page().splitlines()
    assert [mutant.title for mutant in MUTANTS if not any(mutant.title in line for line in lines)] == []


@pytest.mark.campaign
def test_a_copy_tells_what_became_of_a_mistake(tmp_path: Path) -> None:
    """A real one, one that changes nothing, each said to be a mistake and said to be none; and the copy is whole again."""
    copy = WorkingCopy(tmp_path)
    (mistake,) = [m for m in MUTANTS if "transient" in m.title]
    harmless = mistake._replace(new=mistake.old + "  # the same")
    words = "nothing differs"
    assert copy.outcome(mistake) is Outcome.NOTICED
    assert copy.outcome(harmless) is Outcome.MISSED
    assert copy.outcome(harmless._replace(equivalent=words)) is Outcome.EQUIVALENT
    assert copy.outcome(mistake._replace(equivalent=words)) is Outcome.NOT_EQUIVALENT
    copy.check_tests([mistake.test])
