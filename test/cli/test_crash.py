"""A bug in a pass: a short report, a reproducer that brings it back, and no traceback."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.tools_inside import call_opt

from vyre_opt.cli import reproducer, run
from vyre_opt.cli.compile_options import CompileOptions
from vyre_opt.cli.session import InternalError, Session
from vyre_opt.ir import DiagnosticError, Source
from vyre_opt.passes import PassManager
from vyre_opt.passes.cse import Cse

PLUGIN = """
from dataclasses import dataclass

from vyre_opt.passes.registry import Pass, register


@dataclass(frozen=True)
class Options:
    depth: int = 1


@register
class Crash(Pass):
    name = "crash"
    summary = "Divides by zero."
    Options = Options

    def run(self, module, ctx):
        if "boom" in module.programs:
            return 1 // 0
        return False


@register
class Liar(Pass):
    name = "liar"
    summary = "Changes the module and says it did not."

    def run(self, module, ctx):
        next(iter(module.programs.values())).workgroup = (2, 1, 1)
        return False


@register
class Breaker(Pass):
    name = "breaker"
    summary = "Leaves a module that does not verify."

    def run(self, module, ctx):
        next(iter(module.programs.values())).workgroup = (0, 1, 1)
        return True


@register
class Wrecker(Pass):
    name = "wrecker"
    summary = "Leaves what no text can say."

    def run(self, module, ctx):
        next(iter(module.programs.values())).body.ops.append(None)
        return True


@register
class Counter(Pass):
    name = "counter"
    summary = "Leaves something in the context."

    def run(self, module, ctx):
        ctx.count("programs")
        return False


@register
class Dependent(Pass):
    name = "dependent"
    summary = "Fails by what an earlier pass left in the context."

    def run(self, module, ctx):
        if ("counter", "programs") in ctx.statistics:
            raise KeyError("counted")
        return False


@register
class Certifier(Pass):
    name = "certifier"
    summary = "Makes a remark."

    def run(self, module, ctx):
        for program in module.programs.values():
            ctx.remark("note", f"saw @{program.name}", program.loc, lanes={1, 2}, ratio=0.5)
        ctx.count("programs", len(module.programs))
        return False
"""
BOOM = "vyre 1\n\nprogram @boom workgroup(1) {\n}\n"
FINE = "vyre 1\n\nprogram @fine workgroup(1) {\n}\n"


TWICE = """vyre 1

program @boom workgroup(64) {
  buffer @y : u32[64] write binding(0) live_out
  spec @k : u32 = 1

  %l = local_id x
  %k = spec @k : u32
  %a = add %l, %k : u32
  %b = add %l, %k : u32
  %c = mul %a, %b : u32
  store %c, @y[%l] : u32
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Reproducers go to the folder that a test works in."""
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return working


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    return f"--load-pass-plugin={path}"


def test_plugin_passes_are_listed_and_run(plugin, run_opt):
    assert "crash " in run_opt(plugin, "--list-passes").stdout
    ran = run_opt(plugin, "--pass=crash", text=FINE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, FINE, "")


def test_crash_report(plugin, run_opt, tmp_path):
    path = tmp_path / "a b.vyre"
    path.write_text(BOOM)
    ran = run_opt(plugin, "--pass=cse,crash{depth=2}", path)
    assert (ran.returncode, ran.stdout) == (1, "")
    note, *lines = ran.stderr.splitlines()
    assert note.startswith("note: see this again with vyre-opt ")
    assert lines[0] == "internal error: ZeroDivisionError: integer division or modulo by zero"
    assert lines[1] == "  while running pass crash"
    assert lines[2].endswith("in Crash.run")
    assert lines[4] == f"  vyre-opt {plugin} '--pass=cse,crash{{depth=2}}' '{path}'"
    assert "Traceback" not in ran.stderr
    debug = run_opt(plugin, "--pass=crash", path, env={**os.environ, "VYRE_DEBUG": "1"})
    assert "Traceback" in debug.stderr


def test_reproducer_round_trip(plugin, run_opt, tmp_path):
    reproducer = tmp_path / "crash.vyre"
    spec = "{\n  spec @k : u32"
    text = FINE.replace("{", spec) + "// -----\n" + BOOM.replace("{", spec)
    args = ["--split-input-file", "--spec=k=3", "--pass=cse,crash", "--crash-reproducer", reproducer]
    first = run_opt(plugin, *args, text=text)
    assert first.returncode == 1
    note = f"note: see this again with vyre-opt {plugin} --run-reproducer {reproducer}\n"
    assert first.stderr.startswith(note)
    written = reproducer.read_text()
    assert written.startswith("// vyre-opt --pass-pipeline=crash\n// vyre-opt 0.1.0: an internal error while")
    assert "// ZeroDivisionError: integer division or modulo by zero\n" in written
    assert "spec @k : u32 = 3" in written
    assert "@fine" not in written
    again = run_opt(plugin, "--run-reproducer", reproducer)
    assert again.returncode == 1
    assert first.stderr.splitlines()[1] == again.stderr.splitlines()[0]


def test_no_reproducer_without_a_crash(plugin, run_opt, tmp_path):
    reproducer = tmp_path / "crash.vyre"
    assert run_opt(plugin, "--pass=crash", "--crash-reproducer", reproducer, text=FINE).returncode == 0
    assert not reproducer.exists()


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_crash_leaves_a_reproducer_without_being_asked(plugin, run_opt, folder):
    """It has the module as the pass found it, and this pass alone; a second crash of the kind leaves no second file."""
    for _ in range(2):
        ran = run_opt(plugin, "--pass=cse,dce,crash,fold", "--spec=k=7", text=TWICE)
        assert ran.returncode == 1
    path = only_file(folder)
    assert path.name.startswith("vyre-opt-crash-")
    assert ran.stderr.splitlines()[0].endswith(f"--run-reproducer {path.name}")
    text = path.read_text()
    assert text.startswith("// vyre-opt --pass-pipeline=crash\n")
    assert "running pass crash, of the pipeline cse,dce,crash,fold" in text
    assert "%c = mul %a, %a : u32" in text
    assert "spec @k : u32 = 7" in text
    again = run_opt(plugin, "--run-reproducer", path)
    assert again.returncode == 1
    assert again.stderr.splitlines()[:2] == ran.stderr.splitlines()[1:3]
    assert only_file(folder) == path


def test_what_fails_only_behind_other_passes_keeps_them(plugin, run_opt, folder):
    ran = run_opt(plugin, "--pass=counter,dependent", text=FINE)
    assert "KeyError" in ran.stderr
    text = only_file(folder).read_text()
    assert text.startswith("// vyre-opt --pass-pipeline=counter,dependent\n")
    assert text.endswith(FINE)
    assert "KeyError" in run_opt(plugin, "--run-reproducer", only_file(folder)).stderr


def test_an_execution_beyond_the_limit_is_in_the_command(plugin, run_opt, folder):
    ran = run_opt(plugin, "--pass=cse,crash", "--opt-bisect-limit=2", text=TWICE)
    assert ran.returncode == 1
    assert (
        only_file(folder)
        .read_text()
        .startswith("// vyre-opt --pass-pipeline=cse,crash --opt-bisect-limit=2\n")
    )
    assert run_opt(plugin, "--run-reproducer", only_file(folder)).returncode == 1


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--pass=cse"], "vyre 1\n\nprogram @p workgroup(64) {\n  %x = nonsense\n}\n"),
        (["--pass=cse"], FINE.replace("(1)", "(0)")),
        (["--pass=specialize"], TWICE.replace(" = 1", "")),
        (["--pass=unknown"], FINE),
        (["--pass=crash"], FINE),
        (["--pass=crash", "--no-crash-reproducer"], BOOM),
        (["--pass=crash", "--limits=time=60,plugins=true"], BOOM),
    ],
    ids=["syntax", "verifier", "diagnosed by a pass", "usage", "no crash", "unwanted", "limits"],
)
def test_no_reproducer_of_what_is_no_bug_or_is_not_wanted(args, text, plugin, run_opt, folder):
    run_opt(plugin, *args, text=text)
    assert list(folder.iterdir()) == []


def test_where_nothing_can_be_written_it_goes_to_the_temporary_files(plugin, run_opt, folder, tmp_path):
    """A folder in which no file can be made: one that is gone."""
    gone, temporary = folder / "gone", tmp_path / "temporary"
    gone.mkdir()
    temporary.mkdir()
    remover = tmp_path / "remover.py"
    remover.write_text(f"import os\nos.rmdir({str(gone)!r})\n")
    loads = [plugin, f"--load-pass-plugin={remover}"]
    ran = run_opt(*loads, "--pass=crash", text=BOOM, cwd=gone, env={**os.environ, "TMPDIR": str(temporary)})
    path = only_file(temporary)
    assert ran.stderr.splitlines()[0].endswith(str(path))
    assert path.stat().st_mode & 0o777 == 0o600


def a_failure(monkeypatch):
    """Fails as a pass does, and gives what was written as a reproducer."""
    manager = PassManager("cse")
    options = CompileOptions(("cse",))
    monkeypatch.setattr(Cse, "run", lambda self, module, ctx: 1 // 0)
    try:
        Session(options, manager).compile(Source(TWICE.replace(" = 1", " = 2")))
    except InternalError as error:
        return reproducer.write(options, manager, error)
    raise AssertionError


@pytest.mark.skipif(os.name != "posix", reason="links, and folders of others")
def test_a_reproducer_is_written_through_no_link(folder, tmp_path, monkeypatch):
    """A name that somebody foretold: a link, a pipe, or a file with another content."""
    temporary, victim = tmp_path / "temporary", tmp_path / "victim"
    temporary.mkdir()
    victim.write_text("what was there")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    name = a_failure(monkeypatch)
    assert a_failure(monkeypatch) == name
    reproducer_text = (folder / name).read_text()
    planted = [
        lambda path: path.symlink_to(victim),
        os.mkfifo,
        lambda path: path.write_text("else"),
    ]
    names = set()
    for plant in planted:
        (folder / name).unlink()
        plant(folder / name)
        path = Path(a_failure(monkeypatch))
        assert path.parent == temporary
        assert path.read_text() == reproducer_text
        names.add(path.name)
    assert len(names) == 3
    assert victim.read_text() == "what was there"
    temporary.chmod(0o777)  # without the sticky bit, others could replace what is there
    assert a_failure(monkeypatch) is None
    temporary.chmod(0o1777)
    assert a_failure(monkeypatch) is not None


def test_an_error_while_the_reproducer_is_written_hides_nothing(plugin, run_opt, folder):
    ran = run_opt(plugin, "--pass=crash", "--crash-reproducer", folder / "no" / "file", text=BOOM)
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("note: no reproducer: cannot write ")
    assert lines[1].startswith("internal error: ZeroDivisionError")


def test_a_crash_of_a_pass_in_vyre_run_leaves_a_reproducer_for_vyre_opt(folder, monkeypatch, capsys):
    def crash(self, module, ctx):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Cse, "run", crash)
    source = folder / "boom.vyre"
    source.write_text(TWICE)
    with pytest.raises(ZeroDivisionError, match="planted"):
        run.command.main(["-O", "--grid=1", str(source)], standalone_mode=False)
    note = "note: see this again with vyre-opt --run-reproducer vyre-opt-crash-"
    assert capsys.readouterr().err.startswith(note)
    (path,) = folder.glob("vyre-opt-crash-*.vyre")
    assert path.read_text().startswith("// vyre-opt --pass-pipeline=cse\n")
    source.write_text(TWICE.replace("store %c", "store %d"))
    with pytest.raises(DiagnosticError):
        run.command.main(["-O", "--grid=1", str(source)], standalone_mode=False)
    assert len(list(folder.glob("vyre-opt-crash-*"))) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("liar", "error: pass liar reported no change, but something changed; this is a bug of the pass"),
        ("breaker", "error: pass breaker left a module that does not verify; this is a bug of the pass"),
        ("wrecker", "error: pass wrecker left a module that does not verify; this is a bug of the pass"),
    ],
)
def test_pass_failure(name, message, plugin, run_opt, tmp_path):
    reproducer = tmp_path / "kept.vyre"
    ran = run_opt(plugin, f"--pass={name}", "--crash-reproducer", reproducer, text=FINE)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert message in ran.stderr.splitlines()
    first, *comments = reproducer.read_text().removesuffix(FINE).splitlines()
    assert first == f"// vyre-opt --pass-pipeline={name}"
    assert all(line.startswith("//") for line in comments)
    assert run_opt(plugin, "--run-reproducer", reproducer).stderr.splitlines()[0] == message
    if name != "wrecker":
        assert run_opt(plugin, f"--pass={name}", "--no-verify-each", text=FINE).returncode == 0


def test_what_no_text_can_say_has_a_place(plugin, run_opt):
    ran = run_opt(plugin, "--pass=wrecker", "--no-crash-reproducer", text=FINE)
    assert ran.stderr.splitlines()[1] == "<stdin>:3:9: error: program @fine: an op is an Op, not None"


def test_reproducer_cannot_name_files_or_plugins(tmp_path):
    """A file from elsewhere decides on passes, not on what is written or imported."""
    target = tmp_path / "written"
    text = f"// vyre-opt --pass-pipeline=cse -o {target} --load-pass-plugin=antigravity\n{FINE}"
    ran = call_opt("--run-reproducer", text=text)
    assert (ran.returncode, ran.stdout) == (0, FINE)
    assert not target.exists()
    assert call_opt("--run-reproducer", text=f"// vyre-opt --pass='\n{FINE}").returncode == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--help", "--help is no option of a reproducer"),
        ("--version", "--version is no option of a reproducer"),
        ("--pass=cse --completion=bash", "--completion is no option of a reproducer"),
        ("--opt-bisect-limit=-9", "Invalid value for '--opt-bisect-limit': -9"),
        ("--no-such-option", "No such option"),
    ],
)
def test_wrong_options_of_a_reproducer_are_an_error_of_the_file(options, message):
    """The command line is right, so that its usage would mislead; nothing but compiling is done for a file."""
    ran = call_opt("--run-reproducer", text=f"// vyre-opt {options}\n{FINE}")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: --run-reproducer: the options of the file: {message}")


def test_json_carries_certificates(plugin, run_opt):
    ran = run_opt(plugin, "--pass=certifier", "--emit=json", text=FINE)
    document = json.loads(ran.stdout)
    location = {"file": "<stdin>", "line": 3, "column": 9}
    certificate = {"lanes": ["1", "2"], "ratio": 0.5}
    assert document["remarks"] == [
        {
            "pass": "certifier",
            "kind": "note",
            "message": "saw @fine",
            "location": location,
            "certificate": certificate,
        }
    ]
    assert document["statistics"] == [{"pass": "certifier", "what": "programs", "number": 1}]
    assert document["pipeline"] == ["certifier"]
    parts = call_opt("--emit=json", "--split-input-file", text=FINE + "// -----\n" + BOOM)
    assert [part["programs"][0]["name"] for part in json.loads(parts.stdout)] == ["fine", "boom"]


def test_broken_plugins(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('not today')\n")
    ran = call_opt(f"--load-pass-plugin={broken}", text=FINE)
    assert ran.stderr == f"error: cannot load pass plugin {broken}: RuntimeError: not today\n"
    twice = tmp_path / "twice.py"
    twice.write_text(PLUGIN.replace('name = "crash"', 'name = "cse"'))
    # in a process that has imported no pass yet
    script = "import sys; from vyre_opt.cli.opt import main; sys.exit(main())"
    command = [sys.executable, "-c", script, f"--load-pass-plugin={twice}", "--pass=cse"]
    ran = subprocess.run(command, input=FINE, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert "pass cse is built in" in ran.stderr
