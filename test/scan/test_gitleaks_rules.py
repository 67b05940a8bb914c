"""Rules as gitleaks has them: each condition, files that are wrong, and the findings as JSON and SARIF."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from support.tools_inside import call_scan

RULES = r"""
title = "rules"
[allowlist]
paths = ['''vendor/''', '''\.lock$''']
[[allowlists]]
targetRules = ["key"]
stopwords = ["Sample"]

[[rules]]
id = "key"
description = "A key"
regex = '''(?i)key\s*=\s*['"]?([a-z0-9]{12})(?:['"]|\s|$)'''
entropy = 2.5
keywords = ["KEY"]
tags = ["one"]
[[rules.allowlists]]
regexes = ['''^000''']
[[rules.allowlists]]
regexTarget = "line"
regexes = ['''# public''']
[[rules.allowlists]]
condition = "AND"
paths = ['''test''']
stopwords = ["dummy"]

[[rules]]
id = "pem"
description = "A private key"
regex = '''-----BEGIN[A-Z ]*-----[\s\S]{4,}?-----END'''
keywords = ["-----begin"]

[[rules]]
id = "pair"
regex = '''(id|name):(\w+)'''
secretGroup = 2
path = '''\.yml$'''
keywords = ["account"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "vendor").mkdir()
    return tmp_path


def found(folder: Path, files: dict[str, str], *args: str) -> list[tuple[str, int, str, str]]:
    for name, content in files.items():
        (folder / name).write_text(content)
    ran = call_scan("--rules", "rules.toml", "--json", *args, *files, cwd=folder)
    assert ran.stderr == ""
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return [(row["path"], row["line"], row["rule"], row["secret"]) for row in rows]


def test_conditions(folder: Path) -> None:
    text = "\n".join(
        [
            "key = 'a1b2c3d4e5f6'", "KEY=zz9y8x7w6v5u", "key = aaaaaaaaaaaa", "key = 000b2c3d4e5f", "key = b1b2c3d4e5f6 # public",
            "key = sampleb2c3d4", "key = dummy2c3d4e5",
        ]
    )  # fmt: skip
    keys = [("a", 1, "key", "a1b2c3d4e5f6"), ("a", 2, "key", "zz9y8x7w6v5u")]
    assert found(folder, {"a": text, "x.lock": text, "vendor/b": text}) == [
        *keys,
        ("a", 7, "key", "dummy2c3d4e5"),
    ]
    assert [row[1] for row in found(folder, {"test": text})] == [1, 2]


def test_groups_paths_keywords_and_lines(folder: Path) -> None:
    pem = "x\n-----BEGIN KEY-----\nabc\ndef\n-----END"
    files = {"k.pem": pem, "a.yml": "account id:joe name:ann", "b.yml": "id:joe", "c.txt": "account id:joe"}
    assert found(folder, files) == [
        ("k.pem", 2, "pem", pem[2:]),
        ("a.yml", 1, "pair", "joe"),
        ("a.yml", 1, "pair", "ann"),
    ]


def test_in_blobs_and_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = base64.b64encode(b"some settings: key = 'a1b2c3d4e5f6'\n").decode()
    for _ in range(2):
        rows = found(folder, {"mail": f"a\nb {hidden} key = 'f1b2c3d4e5fa'\n"}, "--blobs")
        assert sorted(rows) == [("mail", 2, "key", "a1b2c3d4e5f6"), ("mail", 2, "key", "f1b2c3d4e5fa")]
        monkeypatch.setattr("vyre_scan.tool.documents.SMALL", 1)


def test_sarif(folder: Path) -> None:
    (folder / "a b.txt").write_text("ü key = 'a1b2c3d4e5f6'\nKEY=zz9y8x7w6v5u")
    ran = call_scan("--rules", "rules.toml", "--sarif", "a b.txt", cwd=folder)
    (run,) = json.loads(ran.stdout)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["key", "pem", "pair"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["a%20b.txt"] * 2
    regions = [place["region"] for place in places]
    assert [(region["startLine"], region["startColumn"], region["byteOffset"]) for region in regions] == [
        (1, 3, 3),
        (2, 1, 24),
    ]
    assert run["results"][0]["message"]["text"] == "A key: a1b2c3d4e5f6"
    nothing = json.loads(call_scan("--rules", "rules.toml", "--sarif", "rules.toml", cwd=folder).stdout)
    assert nothing["runs"][0]["results"] == []


def test_lines_for_people(folder: Path) -> None:
    (folder / "a").write_text("\nkey = 'a1b2c3d4e5f6'")
    ran = call_scan("--rules", "rules.toml", "-Hn", "a", cwd=folder)
    assert (ran.returncode, ran.stdout) == (0, "a:2:1:key:key = 'a1b2c3d4e5f6'\n")


def test_a_file_that_extends_another(folder: Path) -> None:
    (folder / "more.toml").write_text(
        '[extend]\npath = "rules.toml"\ndisabledRules = ["pem"]\n'
        '[[rules]]\nid = "key"\nentropy = 4.5\n[[rules]]\nid = "own"\nregex = "zzz"\n'
    )
    (folder / "a").write_text("key = 'a1b2c3d4e5f6' zzz -----BEGIN A-----abcdef-----END")
    ran = call_scan("--rules", "more.toml", "a", cwd=folder)
    assert ran.stdout == "21:own:zzz\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules]", "rules.toml is no TOML"),
        ("x = 1", "rules.toml has no rules"),
        ("rules = 3", "`rules` is no list"),
        ('[[rules]]\nregex = "a"', "rules[0] has no `id`"),
        ('[[rules]]\nid = "x"', "rule x: it has no `regex` and no `path`"),
        ('[[rules]]\nid = "x"\nregex = "a("', "rules.toml: rule x:1:2: error: missing )"),
        ('[[rules]]\nid = "x"\nregex = "a"\npath = "("', "rule x: '(': missing )"),
        ('[[rules]]\nid = "x"\nregex = "a"\nentropy = "high"', "its `entropy` is a number, not 'high'"),
        ('[[rules]]\nid = "x"\nregex = "a"\nkeywords = "key"', "its `keywords` is a list of texts"),
        ('[[rules]]\nid = "x"\nregex = "a"\nallowlist = 3', "`allowlist` is no table"),
        ('[[rules]]\nid = "x"\nregex = "a"\n[[rules.allowlists]]\ncondition = "XOR"', "the condition 'XOR'"),
        ("[extend]\nuseDefault = true", "write its path"),
        ('[extend]\npath = "rules.toml"', "2 deep at most"),
    ],
)
def test_files_that_are_wrong(text: str, message: str, folder: Path) -> None:
    (folder / "rules.toml").write_text(text)
    ran = call_scan("--rules", "rules.toml", "rules.toml", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "internal error" not in ran.stderr
