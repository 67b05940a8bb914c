"""--remarks-file: what a YAML library reads there, which the tool does not use, are the remarks; LLVM's readers take it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.each import each
from support.tools_inside import call_opt

from vyre_opt import PassManager, parse_file
from vyre_opt.cli.remarks_file import yaml_text
from vyre_opt.ir import Location, Source
from vyre_opt.passes.manager import Remark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KINDS = {"applied": "Passed", "refused": "Missed", "note": "Analysis", "warning": "Analysis"}


class _Loader(yaml.SafeLoader):
    """Reads the tags of LLVM's remarks."""


for _kind in ("Passed", "Missed", "Analysis"):
    _Loader.add_constructor(
        f"!{_kind}",
        lambda loader, node, kind=_kind: {"kind": kind, **loader.construct_mapping(node, deep=True)},
    )


def read(text: str) -> list[dict[str, Any]]:
    return list(yaml.load_all(text, Loader=_Loader))


def message(document: dict[str, Any]) -> str:
    """As opt-viewer shows it: the values of the arguments, one after the other."""
    return "".join(str(value) for argument in document["Args"] for value in argument.values())


@pytest.mark.parametrize("name", ["no", "Yes", "null", "true", "OFF", "n"])
def test_names_are_strings(name: str) -> None:
    """Also those that YAML has another meaning for."""
    (document,) = read(yaml_text([Remark("refused", "cse", "x", None, {"reason": name}, name)]))
    assert document["Function"] == name
    assert document["Name"] == name[:1].upper() + name[1:]


def test_the_remarks_of_the_default_passes() -> None:
    """Each remark is a document with all that LLVM's readers ask for, and its message is whole."""

    def check(path: Path) -> None:
        remarks = PassManager("default").run(parse_file(path)).remarks
        documents = read(yaml_text(remarks))
        assert len(documents) == len(remarks)
        for remark, document in zip(remarks, documents, strict=True):
            assert document["kind"] == KINDS[remark.kind]
            assert document["Pass"] == remark.pass_name
            assert document["Name"].isalnum()
            assert document["Function"]
            place = remark.loc and {
                "File": remark.loc.source.name,
                "Line": remark.loc.line,
                "Column": remark.loc.column,
            }
            assert document.get("DebugLoc") == place
            assert message(document).split() == remark.message.replace("\n ", ";").split()

    each(sorted(EXAMPLES.rglob("*.vyre")), check)


def test_facts_in_a_message_have_keys() -> None:
    """What a program may ask for: the buffer behind its @, a number that stands alone."""
    facts = {"buffer": "mid", "reason": "over-budget", "tile_bytes": 16, "is_open": True, "program": "scan"}
    remark = Remark("fuse", "refused", "@mid: its tile of 16 bytes (160, @mid2)", None, facts, "scan")
    (document,) = read(yaml_text([remark]))
    assert document == {
        "kind": "Missed",
        "Pass": "fuse",
        "Name": "OverBudget",
        "Function": "scan",
        "Args": [
            {"String": "@"},
            {"Buffer": "mid"},
            {"String": ": its tile of "},
            {"TileBytes": "16"},
            {"String": " bytes (160, @mid2)"},
        ],
    }


@given(
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
)
def test_any_text_can_be_read(words: str, name: str) -> None:
    """Quotes, colons, hashes, escape sequences, line breaks of all kinds: in messages and in names of files."""
    loc = Location(Source("text", name), 0, 1)
    (document,) = read(
        yaml_text(
            [
                Remark("p", "note", words, loc),
            ]
        )
    )
    wanted = "".join(c if c.isprintable() or c == "\t" else "" for c in words.replace("\n", ""))
    got = message(document).replace("; ", "").replace("\N{REPLACEMENT CHARACTER}", "")
    assert "".join(got.split()) == "".join(
        wanted.replace("; ", "").replace("\N{REPLACEMENT CHARACTER}", "").split()
    )
    assert document["DebugLoc"]["Line"] == 1


def test_the_tool_writes_it_beside_what_it_prints(tmp_path: Path) -> None:
    """Also of all parts of a split input; a failed run leaves the old file."""
    path = tmp_path / "remarks.yaml"
    text = (EXAMPLES / "hex_scan.vyre").read_text()
    ran = call_opt(
        "--pass=decode_scan_fuse",
        f"--remarks-file={path}",
        "--split-input-file",
        text=f"{text}// -----\n{text}",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    documents = read(path.read_text())
    assert [(d["kind"], d["Name"], d["Function"]) for d in documents] == [("Passed", "Tile", "hex_scan")] * 2
    lines = [d["DebugLoc"]["Line"] for d in documents]
    assert lines[1] - lines[0] == len(text.splitlines()) + 1
    before = path.read_text()
    assert call_opt("--pass=decode_scan_fuse", f"--remarks-file={path}", text="vyre 1\n}").returncode == 1
    assert path.read_text() == before
    assert call_opt(f"--remarks-file={path}", text="vyre 1\n").returncode == 0
    assert path.read_text() == ""


LLVM_REMARKS = next(
    filter(None, (shutil.which(f"llvm-remarkutil{n}") for n in ("", "-22", "-21", "-20", "-19"))), None
)


@pytest.mark.skipif(LLVM_REMARKS is None, reason="LLVM's llvm-remarkutil is not installed")
def test_llvm_reads_it(tmp_path: Path) -> None:
    """Into LLVM's binary form and back: what comes out is what went in.

    LLVM takes the two quotes that stand for one in a scalar as two, those that it wrote itself as well.
    """
    path, binary = tmp_path / "remarks.yaml", tmp_path / "remarks.bitstream"
    remarks = [
        r for e in sorted(EXAMPLES.rglob("*.vyre")) for r in PassManager("default").run(parse_file(e)).remarks
    ]
    path.write_text(yaml_text(remarks))
    subprocess.run([str(LLVM_REMARKS), "yaml2bitstream", path, "-o", binary], check=True)
    back = subprocess.run(
        [str(LLVM_REMARKS), "bitstream2yaml", binary, "-o", "-"], check=True, capture_output=True, text=True
    )
    documents = read(back.stdout.replace("''''", "''"))
    assert documents == read(path.read_text())
    assert len(documents) == len(remarks)
