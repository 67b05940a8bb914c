"""Pipelines that were once miscompiled: after the default passes they give what their launches as written do.

The head of each file says what that is, and why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt import PassManager, parse

FOLDER = Path(__file__).parent / "soundness"
GIVEN: dict[str, Any] = {
    "third_launch_moves_the_offset": {"z": [0, 4]},
    "third_launch_moves_the_condition": {"z": [0, 0]},
    "narrow_index_wraps": {},
}
WANTED = {
    "third_launch_moves_the_offset": [4, 5, 6, 7, 0, 1, 2, 3],
    "third_launch_moves_the_condition": [4, 5, 6, 7, 0, 1, 2, 3],
    "narrow_index_wraps": [4, 5, 6, 7, 4, 5, 6, 7],
}
SAID = {
    "third_launch_moves_the_offset": ("@c does not join @a", "@b writes @z between them"),
    "third_launch_moves_the_condition": ("@c does not join @a", "@b writes @z between them"),
    "narrow_index_wraps": ("@b does not join @a", "@m[", "is a u8 and may wrap around"),
}


def test_every_file_is_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.vyre")} == GIVEN.keys() == WANTED.keys() == SAID.keys()


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("name", GIVEN)
def test_outputs(name: str, target: str) -> None:
    inputs = {buffer: np.array(values, np.uint32) for buffer, values in GIVEN[name].items()}
    for passes in (None, "default"):
        outputs = vyre_opt.run(FOLDER / f"{name}.vyre", inputs, target=target, passes=passes)
        assert outputs["y"].tolist() == WANTED[name]


@pytest.mark.parametrize("name", GIVEN)
def test_a_remark_names_the_launch_and_the_buffer(name: str) -> None:
    text = (FOLDER / f"{name}.vyre").read_text(encoding="utf-8")
    result = PassManager("launch_fusion").run(parse(text))
    messages = [r.message for r in result.remarks if r.kind == "refused" and r.pass_name == "launch_fusion"]
    assert any(all(word in message for word in SAID[name]) for message in messages)
