"""The table of docs/reference/peers.md names options that exist: ours always, those of the others where they are installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vyre_opt.cli import opt
from vyre_opt.cli.emit import EMIT_FORMATS

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/peers.md").read_text(encoding="utf-8")
MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
XDSL_OPT = Path(sys.executable).parent / "xdsl-opt"
OF_OTHER_BUILDS = {"--debug-only"}
"""Options that a build of mlir-opt without assertions has not, as the page says."""

LARGE = """vyre 2

program @p workgroup(1) {
  buffer @x : u32[1] read_write binding(0) live_out
  %i = local_id x
  %a = sub %i, 2 : u32
  %b = mul %a, 3 : u32
  store %b, @x[0] : u32
}
"""
INITIALIZE = (
    {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
    {"id": 2, "method": "shutdown"},
    {"method": "exit"},
)
"""Messages to a language server: it tells its capabilities, and ends."""


def column(name: str) -> list[str]:
    """The cells of a column, without its head."""
    rows = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    (index,) = [i for i, cell in enumerate(rows[0]) if name in cell]
    assert {len(row) for row in rows} == {4}
    return [row[index].strip() for row in rows[1:]]


def options(name: str) -> set[str]:
    """The options that a column names, without their values."""
    spans = [span for cell in column(name) for span in re.findall(r"`([^`]+)`", cell)]
    words = [word for span in spans for word in span.split()]
    return {word.partition("=")[0] for word in words if word.startswith("-")}


def test_our_options_exist() -> None:
    ours = {name for param in opt.command.params for name in (*param.opts, *param.secondary_opts)}
    assert len(options("vyre-opt")) > 30
    assert options("vyre-opt") <= ours


def test_our_values_are_taken() -> None:
    """The examples in the cells: a pipeline, and the forms of --emit."""
    (emits,) = [cell for cell in column("vyre-opt") if "--emit" in cell]
    assert set(re.findall(r"`(?:--emit=)?(\w+)`", emits)) <= set(EMIT_FORMATS)
    (passes,) = [cell for cell in column("vyre-opt") if "--pass=" in cell]
    (pipeline,) = re.findall(r"`(--pass=[^`]+)`", passes)
    with opt.command.make_context("vyre-opt", [pipeline, "-"]) as ctx:
        from vyre_opt import PassManager

        assert len(PassManager(ctx.params["passes"]).passes) == 2


def run_tool(name: str, *args: object, stdin: bytes = b"") -> bytes:
    """Standard output of a tool of this project."""
    start = f"import sys; from vyre_opt.cli.{name} import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=60).stdout


def test_our_tools_do_what_their_rows_say(tmp_path: Path) -> None:
    cells = dict(zip(column("For"), column("vyre-opt"), strict=True))
    assert cells["make a failing input smaller"] == "`vyre-reduce`"
    text, test, small = (tmp_path / name for name in ("big.vyre", "test.sh", "small.vyre"))
    text.write_text(LARGE)
    test.write_text("#!/bin/sh\ngrep -q ' sub ' \"$1\"\n")
    test.chmod(0o755)
    run_tool("reduce", text, "--test", test, "-o", small)
    assert " sub " in small.read_text()
    assert " mul " not in small.read_text()

    assert cells["a language server"] == "`vyre-lsp`"
    messages = (json.dumps({"jsonrpc": "2.0", **message}).encode() for message in INITIALIZE)
    stdin = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in messages)
    assert b'"capabilities"' in run_tool("lsp", stdin=stdin)


def test_what_we_lack_is_said() -> None:
    """Where the column says no, no option of such a name came in since."""
    lacks = [
        row for row, cell in zip(column("For"), column("vyre-opt"), strict=True) if cell.startswith("no")
    ]
    assert len(lacks) >= 7
    ours = {name for param in opt.command.params for name in param.opts}
    assert not {"--emit-bytecode", "--debug-counter", "--print-value-users", "--threads"} & ours


@pytest.mark.skipif(not XDSL_OPT.exists(), reason="xdsl is not installed")
def test_options_of_xdsl_opt_exist() -> None:
    ran = subprocess.run([XDSL_OPT, "--help"], capture_output=True, text=True, check=True)
    assert options("xdsl-opt") <= set(re.findall(r"--[\w-]+", ran.stdout))


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt is not installed")
def test_options_of_mlir_opt_exist() -> None:
    version = subprocess.run([str(MLIR_OPT), "--version"], capture_output=True, text=True, check=True).stdout
    if "version 22." not in version:
        pytest.skip(f"the page is about version 22, not {version.splitlines()[0]}")
    ran = subprocess.run([str(MLIR_OPT), "--help-hidden"], capture_output=True, text=True, check=True)
    assert options("mlir-opt") - OF_OTHER_BUILDS <= set(re.findall(r"--?[\w-]+", ran.stdout))
