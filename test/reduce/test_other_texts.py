"""Texts that delta passes cannot work on lose lines and words."""

from __future__ import annotations

from vyre_opt import parse
from vyre_opt.ir import DiagnosticError
from vyre_opt.reduce import FunctionTest, Oracle, reduce_text

BROKEN = """vyre 1

program @p workgroup(64) {
  buffer @x : u32[64] read binding(0)
  %i = global_id x
  %v = load @x[%i] : u32
  %s = add %v, %missing : u32
}
"""


def test_of_a_text_with_errors_lines_and_words_are_dropped() -> None:
    def says_that_it_is_missing(text: str) -> bool:
        try:
            parse(text)
        except DiagnosticError as error:
            return any("%missing is not defined" in d.message for d in error.diagnostics)
        return False

    small = reduce_text(BROKEN, Oracle(FunctionTest(says_that_it_is_missing)))
    assert says_that_it_is_missing(small)
    assert len(small) < 0.7 * len(BROKEN)
    assert "load" not in small


def test_a_comment_that_matters_stays() -> None:
    """The printed form has no comments; so a text that is interesting for one is reduced as a text."""
    text = (
        "vyre 1\n\n// RUN: this\nprogram @p workgroup(1) {\n  %a = const 1 : u32\n  %b = const 2 : u32\n}\n"
    )
    small = reduce_text(text, Oracle(FunctionTest(lambda text: "RUN" in text and "program" in text)))
    assert small.split() == ["RUN", "program"] or ("RUN" in small and len(small) < 12)


def test_the_best_is_there_when_tests_run_out() -> None:
    text = "vyre 1\n\nprogram @p workgroup(64) {\n  %a = const 1 : u32\n  %b = const 2 : u32\n}\n"
    oracle = Oracle(FunctionTest(lambda text: "program" in text), max_tests=2)
    small = reduce_text(text, oracle)
    assert oracle.tests == 2
    assert small == oracle.best
    assert "const" not in small


def test_no_text_is_tested_twice() -> None:
    asked: list[str] = []

    def is_interesting(text: str) -> bool:
        asked.append(text)
        return "add" in text

    reduce_text(BROKEN.replace("%missing", "%v"), Oracle(FunctionTest(is_interesting)))
    assert len(asked) == len(set(asked))
