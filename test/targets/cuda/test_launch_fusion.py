"""Joined launches on the GPU: examples, named kinds and random pipelines, before and after the default passes.

VYRE_PIPELINES is the number of random pipelines, VYRE_JOBS that of processes that share the GPU.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.launch_kinds import KINDS
from support.pipeline_runs import PASSES, any_inputs, check_example, compare_pipelines, difference, observe

pytestmark = pytest.mark.gpu

SOUNDNESS = Path(__file__).parents[2] / "conformance" / "soundness"
FILES = sorted((Path(__file__).parents[3] / "examples" / "pipelines").glob("*.vyre"))
PIPELINES = int(os.environ.get("VYRE_PIPELINES", "64"))
JOBS = int(os.environ.get("VYRE_JOBS", "0")) or None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example(path, cuda):
    """Bit by bit before and after, and as ref has it; test/examples has the numbers of launches."""
    for seed in (1, 2):
        check_example(path.read_text(), cuda(), seed)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kind(kind, cuda):
    """Joined for a GPU, which has more workgroup memory, the results are those of ref."""
    inputs = any_inputs(kind.text, 3)
    expected = observe(kind.text, "ref", inputs)
    for passes in ("", PASSES):
        assert difference(expected, observe(kind.text, cuda(), inputs, passes)) == ""


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("third_launch_moves_the_offset", {"z": [0, 4]}),
        ("third_launch_moves_the_condition", {"z": [0, 0]}),
        ("narrow_index_wraps", {}),
    ],
)
def test_soundness(name, inputs, cuda):
    """Pipelines that were once miscompiled; test/conformance has what they give."""
    text = (SOUNDNESS / f"{name}.vyre").read_text()
    arrays = {buffer: np.array(values, np.uint32) for buffer, values in inputs.items()}
    expected = observe(text, "ref", arrays)
    for passes in ("", PASSES):
        assert difference(expected, observe(text, cuda(), arrays, passes)) == ""


def test_adversarial_pipelines():
    """Those that aim at the proofs; `--adversarial` runs more of them."""
    done = compare_pipelines("cuda", range(PIPELINES), jobs=JOBS, kind="adversarial")
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    assert done.joined > PIPELINES // 4


def test_random_pipelines(request):
    """`PYTHONPATH=test python -m support --pipelines 2000 --target cuda` runs more of them."""
    done = compare_pipelines("cuda", range(PIPELINES), jobs=JOBS)
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    terminal.write_line(f"\n{done.summary('cuda')}")
    assert not done.failures, "\n\n".join(
        f"seed {seed}: {what}\n{text}" for seed, what, text in done.failures
    )
    assert done.pipelines == PIPELINES
