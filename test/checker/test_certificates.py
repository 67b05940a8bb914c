"""Certificates of passes that ran: those of examples are proven as the page says, wrong ones are refused, and nothing is raised."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.certificate_table import BEGIN, END, PASSES, ROOT, example_texts, reported, row
from support.certifier_mistakes import MISTAKES, Mistake
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certificates import CertificateWriter
from vyre_opt.checker import check
from vyre_opt.passes import PassManager

Certificate = dict[str, Any]
EXAMPLES = example_texts()
HOST_READ = "examples/pipelines/host_read.vyre"
SMALL = (HOST_READ, "examples/hex_sum.vyre", "examples/pipelines/diamond.vyre")


@cache
def certified(name: str) -> tuple[str, str, str]:
    """The texts of an example before and after its passes, and the certificate."""
    writer = CertificateWriter()
    PassManager(PASSES, verify_each=False, observers=[writer]).run(parse(EXAMPLES[name]))
    return writer.written, writer.optimised, writer.certificate()


@pytest.mark.parametrize("name", quick(EXAMPLES, group=lambda name: name in SMALL, keep=2))
def test_an_example_is_proven_as_the_page_says(name: str) -> None:
    report = reported(EXAMPLES[name])
    assert report is not None
    assert not report.is_refused
    page = (ROOT / "docs/reference/certified.md").read_text(encoding="utf-8")
    made = page.partition(BEGIN)[2].partition(END)[0]
    assert row(f"`{name}`", report) in made.splitlines()


def test_equal_runs_give_equal_bytes() -> None:
    first = certified(HOST_READ)
    certified.cache_clear()
    assert certified(HOST_READ) == first
    assert json.dumps(json.loads(first[2]), sort_keys=True, separators=(",", ":")) + "\n" == first[2]


@pytest.mark.parametrize(
    "mistake", quick(MISTAKES, group=lambda each: each.passes, ids=[each.title for each in MISTAKES])
)
def test_no_mistake_of_a_pass_is_proven(mistake: Mistake) -> None:
    """Neither with claims that the writer has checked, nor with those that it would like to make."""
    if mistake.passes == "lowering":
        passes = (
            "canonicalize"  # the checker takes no bounds from the lowering: nothing of the mistake is left
        )
        module = parse(mistake.text)
    else:
        passes, module = mistake.passes, parse(mistake.text)
    writers = [CertificateWriter(), CertificateWriter(checks=False)]
    with mistake.is_made():
        PassManager(passes, verify_each=False, observers=writers).run(module)
    careful, careless = (check(w.written, w.optimised, w.certificate()) for w in writers)
    assert not careful.is_refused
    if mistake.passes != "lowering":
        assert not careful.is_equal_proven
        assert not careless.is_equal_proven


def claims_of(certificate: Certificate) -> list[Certificate]:
    return [claim for step in certificate["steps"] for claim in step["claims"]] + list(certificate["facts"])


def edited(certificate: Certificate, rng: random.Random) -> str | None:
    """Change one thing of a claim, so that the claim is of something else; returns what."""
    claim = rng.choice([claim for claim in claims_of(certificate) if claim["claim"] != "trusted"])
    kind = claim["claim"]
    if kind == "in_bounds":
        key = rng.choice(("access", "line"))
        claim[key] += rng.choice((-1000, 1000))
        return key
    if kind == "join":
        key = rng.choice(("at", "barriers", "buffers", "program"))
        claim[key] = {
            "at": claim["at"][1:],
            "barriers": [] if claim["barriers"] else [1],
            "buffers": dict(list(claim["buffers"].items())[1:]),
            "program": f"{claim['program']}_",
        }[key]
        return key
    if kind == "tile":
        tile = rng.choice(list(claim["buffers"].values()))
        key = rng.choice(("const", "times", "buffers"))
        if key == "const":
            tile["const"] += rng.choice((-1, 1, 64))
        elif key == "times":
            tile["times"] = {name: times + 1 for name, times in tile["times"].items()} or {
                "workgroup_id.x": 1
            }
        else:
            claim["buffers"].popitem()
        return f"tile {key}"
    names = [key for key in ("program", "pipeline", "buffer") if key in claim]
    key = rng.choice(names)
    claim[key] = f"{claim[key]}_"
    return key


@pytest.mark.parametrize("seed", quick(range(400), keep=24))
def test_a_wrong_certificate_is_refused(seed: int) -> None:
    rng = random.Random(seed)
    written, optimised, text = certified(SMALL[seed % len(SMALL)])
    certificate = json.loads(text)
    what = edited(certificate, rng)
    report = check(written, optimised, certificate)
    assert report.is_refused, f"{what}: {report.summary()}"


def test_a_certificate_of_other_texts_is_refused() -> None:
    first, second = certified(SMALL[0]), certified(SMALL[2])
    for texts in ((second[0], first[1]), (first[0], second[1]), (first[1], first[0])):
        assert check(*texts, first[2]).is_refused


@pytest.mark.parametrize("seed", quick(range(2000), keep=24))
def test_damage_is_never_raised(seed: int) -> None:
    """Lines of a text that go or are doubled, letters of a certificate that are others; digests are made to fit."""
    rng = random.Random(seed)
    written, optimised, text = certified(SMALL[seed % len(SMALL)])
    certificate = json.loads(text)
    lines = optimised.split("\n")
    at = rng.randrange(1, len(lines))
    kind = rng.choice(("goes", "twice", "cut", "swap", "letter", "json"))
    if kind == "json":
        place = rng.randrange(len(text))
        damaged = text[:place] + rng.choice('{}[]",:0x ') + text[place + rng.randrange(3) :]
        check(written, optimised, damaged)
        return
    if kind == "goes":
        del lines[at]
    elif kind == "twice":
        lines.insert(at, lines[at])
    elif kind == "cut":
        lines = lines[:at]
    elif kind == "swap":
        lines[at - 1 : at + 1] = reversed(lines[at - 1 : at + 1])
    elif lines[at]:
        place = rng.randrange(len(lines[at]))
        lines[at] = lines[at][:place] + rng.choice('%@"(){}[],0u ') + lines[at][place + 1 :]
    from vyre_opt.checker.certificate import digest

    damaged = "\n".join(lines)
    certificate["optimised"] = digest(damaged)
    check(written, damaged, certificate)


def test_the_checker_imports_nothing_of_the_compiler() -> None:
    """Nor a package beyond Python's own, so that it runs where nothing else is installed."""
    code = (
        "import sys, vyre_opt.checker; "
        "print([m for m in sys.modules if m.startswith('vyre_opt.') and not m.startswith('vyre_opt.checker')])"
    )
    command = [sys.executable, "-S", "-c", code]  # without the folder of other packages
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert run.stdout == "[]\n", run.stderr


def test_the_command(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("written.vyre", "optimised.vyre", "certificate.json")]
    for path, text in zip(paths, certified(HOST_READ), strict=True):
        path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "vyre_opt.checker", *map(str, paths)]
    good = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (good.returncode, "equal to the text as written: proven" in good.stdout) == (0, True), good
    paths[1].write_text(certified(HOST_READ)[0], encoding="utf-8")
    bad = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (bad.returncode, "of other texts" in bad.stdout) == (1, True), bad
    missing = subprocess.run([*command[:-1], "nowhere"], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr.startswith("error: ")) == (1, True), missing
