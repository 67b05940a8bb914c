"""The example that plants secrets and finds them: what it compares would differ if anything went wrong.

Independent of what is tested: Python's email, base64 and re, which the example itself uses as well.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest
from click.testing import CliRunner

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from find_secrets import __main__ as command  # noqa: E402
from find_secrets import corpus, forms, independent_check, ways, wheel  # noqa: E402


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return corpus.write_corpus(tmp_path_factory.mktemp("corpus"), 1_500_000, seed=2)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Secrets in every place, though not of every form, and some that line breaks cut."""
    return corpus.write_corpus(tmp_path_factory.mktemp("few"), 300_000, seed=2)


# --- the corpus


@pytest.mark.parametrize("form", forms.FORMS, ids=lambda form: form.name)
def test_a_drawn_secret_is_one_match(form: Any) -> None:
    draw = Random(1)
    number = forms.FORMS.index(form)
    for _ in range(200):
        secret = form.draw(draw).encode()
        assert independent_check.secrets_within(b"a " + secret + b" b") == [(number, secret)]


def test_a_near_miss_is_no_match() -> None:
    draw = Random(1)
    drawn = {forms.near_miss(draw) for _ in range(200)}
    assert len({miss[:4] for miss in drawn}) == len(forms.FORMS)
    assert not any(independent_check.secrets_within(miss.encode()) for miss in drawn)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Also a larger size, which begins with them."""
    written = []
    for name, size, seed in (("a", 100_000, 1), ("b", 100_000, 1), ("c", 100_000, 2), ("d", 200_000, 1)):
        (tmp_path / name).mkdir()
        corpus.write_corpus(tmp_path / name, size, seed)
        files = sorted(path for path in (tmp_path / name).iterdir())
        written.append({path.name: path.read_bytes() for path in files})
    first, same, other, larger = written
    assert first == same
    for name in corpus.SHARES:
        assert first[name] != other[name]
        assert larger[name].startswith(first[name])
        assert len(first[name]) < len(larger[name])


def test_every_form_is_in_every_place(small: Any) -> None:
    there = {(each.place, each.form) for each in small.planted}
    assert there == {(place, form) for place in corpus.PLACES for form in range(len(forms.FORMS))}
    rows = map(json.loads, small.path("planted.jsonl").read_text().splitlines())
    assert [corpus.Planted(**row) for row in rows] == small.planted


def test_base64_of_mail_is_in_lines_that_cut_secrets(small: Any) -> None:
    """Guards against a layout in which nothing is proved of line breaks."""
    planted = [each for each in small.planted if each.place == "backup"]
    lines = small.path(corpus.BACKUP).read_bytes().splitlines()
    decoded = [base64.b64decode(line) for line in lines]
    assert {len(line) for line in lines} == {76}
    cut = [each for each in planted if not any(each.content.encode() in line for line in decoded)]
    assert len(planted) > len(cut) > len(planted) / 4


# --- the ways


def test_each_way_finds_what_it_must(few: Any) -> None:
    """`search_corpus` leaves by an error if one does not; here is where there is something to be found at all."""
    searches = command.search_corpus(few)
    planted = Counter(each.place for each in few.planted)
    for way in ways.WAYS:
        found = Counter(each.place for each in searches[way.name].found.elements())
        assert all(found[place] == planted[place] > 0 for place in way.decoded)
        assert found[corpus.OTHER] == 0
    whole = searches["vyre-scan"].found
    assert Counter(each.place for each in whole)["text"] == planted["text"]
    cut = Counter(each.place for each in whole)["quoted-printable"]
    assert 0 < cut < planted["quoted-printable"]


def test_a_secret_that_nobody_planted_is_noticed(few: Any) -> None:
    fewer = replace(few, planted=few.planted[:-1])
    with pytest.raises(click.ClickException, match="0 are missing and 1 too many"):
        command.search_corpus(fewer)


@pytest.mark.parametrize("lost", ["missing", "more"])
def test_a_way_that_finds_something_else_is_noticed(
    lost: str, few: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ways.WAYS[1]

    def run(of: Any) -> Any:
        search = right.run(of)
        each = next(iter(search.found))
        search.found[each] += 1 if lost == "more" else -1
        return search

    wrong = ways.Way(right.name, run, right.as_written, right.decoded)
    monkeypatch.setattr(command, "WAYS", (wrong,))
    message = "0 are missing and 1 too many" if lost == "more" else "1 are missing and 0 too many"
    with pytest.raises(click.ClickException, match=message):
        command.search_corpus(few)


# --- the wheel


def test_words_by_slices_are_those_of_find() -> None:
    words = [b"decode", b"decoder", b"coding", b"encode"]
    content = b"Decoder decode ENCODEcoding" * 3
    expected = sorted(
        (at, at + len(word), number)
        for number, word in enumerate(words)
        for at in range(len(content))
        if content.lower().startswith(word, at)
    )
    assert sorted(wheel.words_within(content, words)) == expected


def test_a_wheel_is_searched(tmp_path: Path) -> None:
    package = wheel.files_of_wheel(None)
    assert "vyre_opt/ir/ops.py" in package
    chosen = {name: content for name, content in package.items() if name.startswith("vyre_opt/ir/")}
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        for name, content in chosen.items():
            archive.writestr(name, content)
    files = wheel.files_of_wheel(tmp_path / "some.whl")
    assert files == chosen
    words = wheel.word_list()
    assert len(words) > 1000
    result = wheel.search_wheel(files, words)
    assert result.differing == []
    assert result.counts[b"return"] > 50


def test_a_wrong_search_of_a_wheel_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "words_within", lambda content, words: [])
    assert wheel.search_wheel({"a": b"return", "b": b"-"}, [b"return"]).differing == ["a"]


# --- the command


def test_the_command_leaves_its_files(tmp_path: Path) -> None:
    """As a script, which is how the README runs it."""
    empty = tmp_path / "empty.whl"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("a.py", "return Return")
    script = [sys.executable, str(EXAMPLES / "find_secrets"), "--size", "0.05", "--wheel", str(empty)]
    ran = subprocess.run([*script, "--folder", str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].split()[:3] == ["secrets", "in", "planted"]
    assert [line.split("  ")[0] for line in lines[1:8]] == [*corpus.PLACES, corpus.OTHER]
    assert "matches     2, the same in base64" in ran.stdout
    assert {path.name for path in tmp_path.iterdir()} > {"forms.txt", "planted.jsonl", *corpus.SHARES}


def test_the_command_explains_wrong_inputs(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no wheel")
    for arguments, message in (
        (["--wheel", str(tmp_path / "none")], "No such file"),
        (["--wheel", str(text)], "not a zip file"),
        (["--folder", str(text / "sub")], "Not a directory"),
    ):
        ran = CliRunner().invoke(command.main, arguments)
        assert ran.exit_code == 1, ran.output
        assert message in ran.stderr
