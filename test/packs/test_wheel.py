"""vyre-packs, the loader as a wheel of its own: it has all that it needs, no more, and no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hatchling.builders.wheel import WheelBuilder
from support.packed_kernels import FUNCTIONS, LEVEL

import vyre_opt as vyre
from vyre_opt import kernels

PACKAGE = Path(__file__).parents[2] / "packages" / "vyre-packs"
LISTED = (PACKAGE / "modules.txt").read_text().split()

TEXT = """vyre 1
program @twice workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : f32
  %w = add %v, %v : f32
  store %w, @y[%i] : f32
}
pipeline @main {
  buffer @x : f32[64] read
  buffer @y : f32[64] write live_out
  launch @twice grid(1) (@x, @y)
  host_read @y
}
"""

USE = """
import sys

class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("vyre_opt", "llvmlite", "lark", "z3", "click", "jinja2", "platformdirs", "threadpoolctl"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, NoCompiler())
import numpy as np
from contextlib import nullcontext
import vyre_packs

pack = vyre_packs.load(sys.argv[1], trusted=sys.argv[2])
x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
pack["scale"][2](x, y)
assert (y == 2 * x + 1).all()
pack["scale"][2](x, y=y, alpha=np.float32(3))
assert (y == 3 * x + 1).all()

class Observer:
    times_launches, spans = True, []
    def launch(self, launch): self.spans.append(launch.seconds)
    def span(self, kind, name): return nullcontext()

from vyre_packs.observers import OBSERVERS
OBSERVERS.append(Observer())
pack["scale"][2](x, y)
OBSERVERS.clear()
assert len(Observer.spans) == 1
rows, out = x.reshape(3, 100), np.zeros((3, 100), np.float32)
pack["centred"][3](rows, out)
assert (out == rows - rows.max(1, keepdims=True)).all()
pack["both"](x, y, 1.0)
assert (y == 3 * x + 4).all()
assert (pack["main"]({"x": x[:64]})["y"] == 2 * x[:64]).all()
assert (pack["prefix_scan"](x.astype(np.uint32)) == np.cumsum(x)).all()
pack["softmax"](rows)
for wrong in (
    lambda: pack["scale"][2](x, y[:10]),
    lambda: pack["scale"][2](x.astype(int), y),
    lambda: pack["centred"][4](rows, out),
    lambda: pack["asserted"][1](-x, y),
    lambda: pack["main"]({"z": x}),
    lambda: pack["main"]({"x": x}),
    lambda: pack["softmax"](x),
    lambda: pack["softmax"](rows, out=x),
):
    try:
        wrong()
    except Exception as error:
        assert type(error).__module__.startswith("vyre_packs"), repr(error)
        print(error)
    else:
        raise AssertionError("no error")
import vyre_packs.packs.gpu  # which needs a GPU no sooner than at a call
import vyre_packs.targets.cuda.array_backend
names = sorted(name.partition(".")[2] for name in sys.modules if name.startswith("vyre_packs."))
print(*names, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(PACKAGE)).build(directory=str(folder), versions=["standard"])
    return Path(path)


def test_a_pack_is_run_where_no_compiler_is(wheel: Path, tmp_path: Path) -> None:
    rows, numbers = np.zeros((3, 100), np.float32), np.zeros(300, np.uint32)
    shapes = {"softmax": [(rows,)], "prefix_scan": [(numbers,)]}
    used = ("scale", "centred", "asserted", "both")
    functions = [function for function in FUNCTIONS if function.function.__name__ in used]
    functions += [TEXT, kernels.softmax, kernels.prefix_scan]
    digest = vyre.pack(tmp_path / "kernels.vyrepack", functions, LEVEL, shapes, opt=1)
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run(
        [sys.executable, "-c", USE, tmp_path / "kernels.vyrepack", digest],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert ran.returncode == 0, ran.stderr
    assert "store out of bounds of @y: index 10, length 10" in ran.stdout
    assert 'assert x[i] >= 0.0, "negative"' in ran.stdout  # the line of the source
    loaded = ran.stderr.split()
    assert LISTED == loaded, "write packages/vyre-packs/modules.txt anew: it lists what such a run loads"


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 1_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert "vyre_packs/packs/loader.py" in names
    compiler = (
        "passes",
        "analysis",
        "fusion",
        "slices",
        "syntax",
        "certify",
        "lang",
        "scheduling",
        "math_functions",
    )
    assert [name for name in names if name.split("/")[1] in compiler] == []
