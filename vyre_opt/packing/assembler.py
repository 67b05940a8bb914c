"""PTX as machine code of a GPU, a cubin: by ptxas, if it is on the PATH, or by the linker of the driver.

A GPU of that architecture loads it in a millisecond, where the driver would compile PTX at each first run.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ..execution.dispatcher import BackendError
from ..targets.cuda import libcuda
from ..targets.cuda.device import device

__all__ = ["Assembler", "assembler"]

_TARGET, _PTX = 9, 1
"""CU_JIT_TARGET, CU_JIT_INPUT_PTX."""

_SPECIFIC = 0x10000
"""Added to the number of an architecture such as sm_90a."""


class Assembler:
    """`name`: what it is, with its version; `assemble(ptx, gpu)`: machine code for sm_90 or another.  Raises BackendError."""

    def __init__(self, name: str, assemble: Callable[[str, str], bytes]) -> None:
        self.name, self.assemble = name, assemble


@cache
def assembler() -> Assembler | None:
    """The assembler of this machine, if it has one."""
    path = shutil.which("ptxas")
    if path is not None:
        said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        version = re.search(r"V([\d.]+)", said)
        return Assembler(
            f"ptxas {version[1] if version else 'unknown'}", lambda ptx, gpu: _by_ptxas(path, ptx, gpu)
        )
    try:
        facts = device().facts
    except BackendError:
        return None
    return Assembler(f"driver of CUDA {facts.cuda[0]}.{facts.cuda[1]}", _by_driver)


def _by_ptxas(path: str, ptx: str, gpu: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [path, f"--gpu-name={gpu}", "--output-file", made.name, source.name]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if ran.returncode:
            raise BackendError(f"ptxas does not assemble for {gpu}: {ran.stderr.strip()}")
        return made.read_bytes()


def _by_driver(ptx: str, gpu: str) -> bytes:
    number = int(gpu[3:].rstrip("a")) + (_SPECIFIC if gpu.endswith("a") else 0)
    text = ctypes.create_string_buffer(ptx.encode())  # which ends in a zero byte
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    options, values = (ctypes.c_int * 1)(_TARGET), (pointer * 1)(number)
    state, made, count = pointer(), pointer(), size()
    with device():
        driver, doing = libcuda.library(), f"assembling for {gpu}"
        libcuda.check(driver.cuLinkCreate_v2(1, options, values, ctypes.byref(state)), doing)
        try:
            added = driver.cuLinkAddData_v2(state, _PTX, text, size(len(text)), b"kernel", 0, None, None)
            libcuda.check(added, doing)
            libcuda.check(driver.cuLinkComplete(state, ctypes.byref(made), ctypes.byref(count)), doing)
            return ctypes.string_at(made.value or 0, count.value)
        finally:
            driver.cuLinkDestroy(state)
