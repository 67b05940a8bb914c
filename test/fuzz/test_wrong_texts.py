"""Wrong texts, made of the right ones of the repository by slips and by habits from other languages.

Each gets an error at a place in the text from vyre-opt: no internal error, no traceback.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.fuzz.header import bytes_of
from support.fuzz.text_mutations import ALL_EDITS, OTHER_LANGUAGES, mutate
from support.quick import quick
from support.tools_inside import call_opt

from vyre_opt import DiagnosticError, parse

ROOT = Path(__file__).parents[2]
COUNT, GROUPS = 300, 30
HEAD = re.compile(r"(?P<name>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?:error|warning): (?P<message>.+)")


def is_right(text: str) -> bool:
    try:
        parse(text)
    except DiagnosticError:
        return False
    return True


@cache
def right_texts() -> tuple[str, ...]:
    """The examples, and the texts of the lit tests, which go through every part of the language."""
    paths = sorted([*ROOT.glob("examples/**/*.vyre"), *ROOT.glob("test/lit/**/*.vyre")])
    parts = [part for path in paths for part in path.read_text("utf-8").split("// -----\n")]
    return tuple(part for part in parts if len(part) < 4000 and is_right(part))


def wrong_texts(group: int) -> Iterator[str]:
    """Texts with errors, the same ones in each run; half of them have habits of other languages."""
    rng = random.Random(group)
    while True:
        mutations = (ALL_EDITS, OTHER_LANGUAGES)[rng.random() < 0.5]
        text = mutate(rng.choice(right_texts()), rng.choice(right_texts()), rng, mutations)
        if not is_right(text):
            yield text


def check(shown: CompletedProcess[str], path: Path) -> None:
    """What the tool has shown of the wrong text in a file."""
    heads = [match for line in shown.stderr.split("\n") if (match := HEAD.match(line))]
    text = path.read_bytes().decode("utf-8", "replace")
    lines = text.split("\n")
    assert shown.returncode == 1, text
    assert shown.stdout == ""
    assert heads, f"{text}\n{shown.stderr}"
    assert "internal error" not in shown.stderr
    assert "Traceback" not in shown.stderr
    for head in heads:
        assert head["name"] == str(path)
        assert int(head["column"]) <= len(lines[int(head["line"]) - 1]) + 1, head.group()


@pytest.mark.parametrize("group", quick(range(GROUPS), keep=4))
def test_a_wrong_text_gets_an_error_with_a_place(group: int, tmp_path: Path) -> None:
    path = tmp_path / "case.vyre"
    for text in islice(wrong_texts(group), COUNT // GROUPS):
        path.write_bytes(bytes_of(text))
        check(call_opt(path), path)


def test_the_tool_as_a_user_calls_it(tmp_path: Path, run_opt: Callable[..., CompletedProcess[str]]) -> None:
    """In a process of its own."""
    path = tmp_path / "case.vyre"
    for text in islice(wrong_texts(0), 4):
        path.write_bytes(bytes_of(text))
        check(run_opt(path), path)
