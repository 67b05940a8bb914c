"""mlir-opt, where it is installed: tests of what it says are skipped elsewhere, with the reason."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence

import pytest

PIPELINE = "--gpu-lower-to-nvvm-pipeline=cubin-chip=sm_90 cubin-features=+ptx80 cubin-format=isa"
VERSIONS = ("16", "19")


def mlir_opt(version: str, texts: Sequence[str], *options: str) -> str:
    """What mlir-opt prints for modules, of which it must take each.  Skips where it is not installed."""
    program = f"mlir-opt-{version}"
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on the PATH")
    text = "// -----\n".join(texts)
    command = [program, "--split-input-file", "--verify-each", *options, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


@pytest.fixture
def verified() -> Callable[[str, Sequence[str]], str]:
    """Calls mlir-opt of a version on modules."""
    return mlir_opt


@pytest.fixture
def to_ptx() -> Callable[[Sequence[str]], list[str]]:
    """The PTX of the kernel of each module, by mlir-opt 19."""
    from support.mlir_device.assembly import assembly

    return lambda texts: assembly(mlir_opt("19", texts, PIPELINE))
