"""A bug in a pass: a short report, a reproducer that brings it back, and no traceback."""

import json
import os

import pytest

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
    lines = ran.stderr.splitlines()
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
    assert first.stderr.startswith(f"note: see this again with vyre-opt --run-reproducer {reproducer}\n")
    written = reproducer.read_text()
    assert written.startswith("// vyre-opt --pass-pipeline=cse,crash --spec=k=3\nvyre 1\n")
    assert "@fine" not in written
    again = run_opt(plugin, "--run-reproducer", reproducer)
    assert again.returncode == 1
    assert first.stderr.splitlines()[1] == again.stderr.splitlines()[0]


def test_no_reproducer_without_a_crash(plugin, run_opt, tmp_path):
    reproducer = tmp_path / "crash.vyre"
    assert run_opt(plugin, "--pass=crash", "--crash-reproducer", reproducer, text=FINE).returncode == 0
    assert not reproducer.exists()


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
    assert reproducer.read_text() == f"// vyre-opt --pass-pipeline={name}\n{FINE}"
    assert run_opt(plugin, "--run-reproducer", reproducer).stderr.splitlines()[0] == message
    if name != "wrecker":
        assert run_opt(plugin, f"--pass={name}", "--no-verify-each", text=FINE).returncode == 0


def test_what_no_text_can_say_has_a_place(plugin, run_opt):
    ran = run_opt(plugin, "--pass=wrecker", text=FINE)
    assert ran.stderr.splitlines()[1] == "<stdin>:3:9: error: program @fine: an op is an Op, not None"


def test_reproducer_cannot_name_files_or_plugins(run_opt, tmp_path):
    """A file from elsewhere decides on passes, not on what is written or imported."""
    target = tmp_path / "written"
    text = f"// vyre-opt --pass-pipeline=cse -o {target} --load-pass-plugin=antigravity\n{FINE}"
    ran = run_opt("--run-reproducer", text=text)
    assert (ran.returncode, ran.stdout) == (0, FINE)
    assert not target.exists()
    assert run_opt("--run-reproducer", text=f"// vyre-opt --pass='\n{FINE}").returncode == 1


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
    parts = run_opt("--emit=json", "--split-input-file", text=FINE + "// -----\n" + BOOM)
    assert [part["programs"][0]["name"] for part in json.loads(parts.stdout)] == ["fine", "boom"]


def test_broken_plugins(run_opt, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('not today')\n")
    ran = run_opt(f"--load-pass-plugin={broken}", text=FINE)
    assert ran.stderr == f"error: cannot load pass plugin {broken}: RuntimeError: not today\n"
    twice = tmp_path / "twice.py"
    twice.write_text(PLUGIN.replace('name = "crash"', 'name = "cse"'))
    ran = run_opt(f"--load-pass-plugin={twice}", "--pass=cse", text=FINE)
    assert ran.returncode == 1
    assert "pass cse is built in" in ran.stderr
