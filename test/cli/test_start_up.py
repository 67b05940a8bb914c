"""What a run on a small file must not load: each of these costs more than the run itself."""

import os
import subprocess
import sys

from support.tools_inside import call_opt, call_run

HEAVY = (
    "numpy",
    "llvmlite",
    "lark",
    "rich",
    "difflib",
    "importlib.metadata",
    "statistics",
    "traceback",
    "subprocess",
    "vyre_opt.syntax.synonyms",
    "vyre_opt.syntax.parser.foreign_syntax",
    "vyre_opt.execution",
    "vyre_opt.cli.emit_json",
    "vyre_opt.cli.reproducer",
)
PROGRAM = "vyre 1\n\nprogram @p workgroup(1) {\n}\n"
SCRIPT = """
import sys
from vyre_opt.cli.opt import main
code = main(["--pass=cse", sys.argv[1]])
print(*sys.modules, file=sys.stderr)
raise SystemExit(code)
"""


def test_common_path_loads_nothing_heavy(run_opt, tmp_path):
    path = tmp_path / "p.vyre"
    path.write_text(PROGRAM)
    run_opt("--pass=cse", path)  # fills the grammar's cache
    command = [sys.executable, "-c", SCRIPT, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == PROGRAM
    assert not set(HEAVY) & set(ran.stderr.split())


def test_help_loads_no_ir():
    script = "import sys; from vyre_opt.cli.start import vyre_opt; sys.argv[1:] = ['--help']; vyre_opt(); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    *page, loaded = ran.stdout.splitlines()
    assert "Usage:" in page[0]
    assert not {"vyre_opt.ir.ops", "vyre_opt.ir.program", "vyre_opt.syntax.printer"} & {*loaded.split()}


def test_every_installed_option_completes(run_opt):
    """The completion protocol of click answers for options, passes and the forms of --emit."""

    def complete(*words: str) -> set[str]:
        variables = {
            "_VYRE_OPT_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        ran = run_opt(env={**os.environ, **variables})
        assert ran.stderr == ""
        return {line.split(",", 1)[1] for line in ran.stdout.splitlines()}

    assert {"--pass", "--print-ir-after-change"} <= complete("vyre-opt", "--p")
    assert complete("vyre-opt", "--pass", "cs") == {"cse"}
    assert complete("vyre-opt", "--pass", "cse,dc") == {"cse,dce"}
    assert complete("vyre-opt", "--emit", "j") == {"json"}


def test_completion_scripts():
    for run, name in ((call_opt, "vyre-opt"), (call_run, "vyre-run")):
        for shell in ("bash", "zsh", "fish"):
            ran = run("--completion", shell)
            assert ran.returncode == 0
            assert name in ran.stdout


def test_the_package_runs_as_a_module(run_opt, tmp_path):
    """`python -m vyre_opt` is vyre-opt, and its messages say how it was called."""
    path = tmp_path / "p.vyre"
    path.write_text(PROGRAM)

    def run_module(*args: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "vyre_opt", *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    ran, same = run_module("--pass=cse", str(path)), run_opt("--pass=cse", path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, same.stdout, same.stderr)
    wrong = run_module("--no-such-option")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("Usage: python -m vyre_opt ")


SUB_INTERPRETER = """
import importlib
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        pass
code = "try: import vyre_opt\\nexcept ImportError as error: print(error)\\nelse: print('imported')"
interpreters.run_string(interpreters.create(), code)
"""


def test_a_sub_interpreter_is_refused():
    """There NumPy warns, and other packages end the process."""
    ran = subprocess.run(
        [sys.executable, "-c", SUB_INTERPRETER], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout.startswith("vyre_opt works in the main interpreter of a process alone"), ran.stderr
    assert "import it in a process of its own" in ran.stdout


def test_numpy_starts_no_threads():
    """Where it gets none, it interrupts the process; the tests of vyre-reduce have the environment of its caller."""
    script = (
        "import os; os.environ.pop('OPENBLAS_NUM_THREADS', None); import vyre_opt.cli.start as start, sys\n"
        "sys.argv[1:] = ['--version']; start.vyre_reduce(); print(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
        "start.vyre_run(); print(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["vyre-reduce", "0.1.0", "None", "vyre-run", "0.1.0", "1"]
