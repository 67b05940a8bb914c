"""A library whose kernels are packed when its wheel is built: it runs without the compiler, and from C."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import which

import pytest
from hatchling.builders.wheel import WheelBuilder
from support.packed_kernels import LEVEL

from vyre_opt.pack_files.format import Pack, read_pack

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "packed_library"

USE = """
import sys

class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("vyre_opt", "llvmlite", "lark"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, NoCompiler())
import numpy as np
import smoothing

x = np.zeros(9, np.float32)
x[4] = 8
print(*smoothing.smooth(x))
print(smoothing.smooth(x, 0.25, times=5).sum())
try:
    smoothing.smooth(x.astype(np.float64))
except ValueError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library and vyre-packs."""
    folder = tmp_path_factory.mktemp("installed")
    for package in (EXAMPLE, ROOT / "packages" / "vyre-packs"):
        (wheel,) = WheelBuilder(str(package)).build(directory=str(folder), versions=["standard"])
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def test_the_library_needs_no_compiler(installed: Path) -> None:
    assert not (installed / "smoothing" / "kernels.py").exists()
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, env=environment)
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[:2] == ["0.0 0.0 0.0 2.0 4.0 2.0 0.0 0.0 0.0", "8.0"]
    assert "f32 elements are float32, the array is float64" in lines[2]


def _object_of(pack: Pack) -> str:
    """The object code of @smooth for this machine."""
    plan = pack.read_json("plans/smooth/cpu")
    program = pack.read_json(f"programs/{plan['variants'][-1]['code']['smooth']['key']}")
    assert program["code"][LEVEL]["buffers"] == ["x", "y"]
    assert program["code"][LEVEL]["scratch_bytes"] == 0
    return f"objects/{program['code'][LEVEL]['object']}"


@pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")
def test_the_kernel_is_called_from_c(installed: Path, tmp_path: Path) -> None:
    pack = read_pack(installed / "smoothing" / "kernels.vyrepack")
    (tmp_path / "kernel.o").write_bytes(pack.read(_object_of(pack)))
    source = EXAMPLE / "c" / "smooth.c"
    command = ["cc", "-Wall", "-Werror", source, tmp_path / "kernel.o", "-lm", "-o", tmp_path / "smooth"]
    subprocess.run(command, check=True)
    ran = subprocess.run([tmp_path / "smooth"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["0 0 2 4 2 0 0 0 ", "fault: 1, at index 4"]


def test_the_header_has_the_words_of_the_lowering() -> None:
    from vyre_opt.lowering.host.abi import FAULT_WORDS, STOP_WORD, YIELD_WORD

    header = (EXAMPLE / "c" / "vyre_kernel.h").read_text()
    assert FAULT_WORDS[:5] == ("found", "op", "workgroup", "lane", "index")
    assert f"_STOP = {STOP_WORD}" in header
    assert f"_YIELD = {YIELD_WORD} " in header
    assert f"_STATUS_WORDS {YIELD_WORD + 1}\n" in header
