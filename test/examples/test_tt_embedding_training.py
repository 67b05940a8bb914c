"""The example that trains a tensor train: it learns as well as a dense table that starts as the same product."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.modules import load_module

pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
PATH = Path(__file__).parents[2] / "examples" / "tt_embedding_training.py"


example = load_module(PATH)


@pytest.mark.parametrize("device", DEVICES)
def test_the_loss_of_a_dense_table_is_reached(device: str) -> None:
    of_train, of_table = example.compare(100, device)
    assert of_train[0] == pytest.approx(of_table[0], rel=1e-5)
    assert of_table[-1] < 0.01 * of_table[0]
    assert of_train[-1] <= of_table[-1]


def test_the_command_prints_both_losses() -> None:
    ran = CliRunner().invoke(example.main, ["--steps", "4"])
    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"step    {step}" for step in range(4)]
    assert all("tensor train 2." in line and "dense table 2." in line for line in lines[:1])
