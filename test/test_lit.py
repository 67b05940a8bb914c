"""The lit tests, each under its own name in pytest; lit itself runs once for all that were selected."""

import json
import re
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from vyre_opt.passes.registry import BUILTIN, LEGALIZATIONS

LIT = Path(__file__).parent / "lit"
RUN_LIT = f"import sys; sys.path.append({str(LIT.parent)!r}); from support.lit_inside import main; main()"
TIMEOUT = 600
FILES = sorted(
    str(path.relative_to(LIT)) for path in LIT.rglob("*.vyre") if "Inputs" not in path.relative_to(LIT).parts
)


def run_lines(file: str) -> list[str]:
    return re.findall(r"^// RUN:(.*)", (LIT / file).read_text(), re.MULTILINE)


@pytest.fixture(scope="session")
def lit_results(request, tmp_path_factory):
    """lit's result for every selected file, by path."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # which all processes of pytest-xdist share: one runs lit, the others wait
    report = folder / "lit.json"
    try:
        (folder / "lit.begun").touch(exist_ok=False)
    except FileExistsError:
        deadline = monotonic() + TIMEOUT
        while not report.exists() and monotonic() < deadline:
            sleep(0.1)
    else:
        selected = {i.callspec.params["file"] for i in request.session.items if i.originalname == "test_lit"}
        paths = [str(LIT / file) for file in sorted(selected)]
        partial = folder / "lit.partial.json"
        command = [sys.executable, "-c", RUN_LIT, "-q", "-o", str(partial), *paths]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        if not partial.exists():
            pytest.fail(f"lit did not run\n{run.stdout}{run.stderr}", pytrace=False)
        partial.rename(report)
    results = json.loads(report.read_text())["tests"]
    return {result["name"].split(" :: ", 1)[1]: result for result in results}


@pytest.mark.parametrize("file", FILES)
def test_lit(file, lit_results):
    result = lit_results[Path(file).as_posix()]
    if result["code"] == "UNSUPPORTED":
        pytest.skip("lit: a feature that this machine lacks")
    if result["code"] not in ("PASS", "XFAIL", "FLAKYPASS"):
        pytest.fail(f"{file}: {result['code']}\n{result['output']}", pytrace=False)


def checked_passes():
    """The passes that a RUN line names in `--pass` or `--pass-pipeline` and whose outcome it checks."""
    names = set()
    for file in FILES:
        for line in run_lines(file):
            if "filecheck" in line or "--verify-diagnostics" in line:
                for pipeline in re.findall(r"--pass(?:-pipeline)?=('[^']*'|\S+)", line):
                    without_options = re.sub(r"\{[^}]*\}", "", pipeline)
                    names.update(name.replace("-", "_") for name in re.findall(r"[\w-]+", without_options))
    return names


@pytest.mark.parametrize("name", [*BUILTIN, *LEGALIZATIONS])
def test_every_pass_has_a_lit_test(name):
    assert name in checked_passes(), f"no file of test/lit runs --pass={name} and checks what comes out"
