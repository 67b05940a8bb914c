"""The examples, packed and loaded, give the bits of the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packed_kernels import LEVEL
from support.python_examples import CASES, NAMES, call_of
from support.quick import quick

import vyre_opt as vyre
from vyre_opt.execution.arrays import storage_type
from vyre_opt.packs import load

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = sorted(
    [*EXAMPLES.glob("pipelines/*.vyre"), *EXAMPLES.glob("*.vyre")], key=lambda path: path.stem != "tour"
)


@pytest.mark.parametrize("name", quick(NAMES, ids=NAMES, one_parameter=True))
def test_examples_in_python(tmp_path: Path, name: str) -> None:
    _compare_python(tmp_path, name, LEVEL)


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_python_by_aarch64(tmp_path: Path, aarch64: str, name: str) -> None:
    _compare_python(tmp_path, name, aarch64)


def _compare_python(tmp_path: Path, name: str, level: str) -> None:
    calls = [call_of(each, sizes) for each, sizes in CASES if each == name]
    kernels = list(
        dict.fromkeys(call.kernel for call in calls)
    )  # one of them is made for each of some widths
    for number, kernel in enumerate(kernels):
        vyre.pack(tmp_path / str(number), [kernel], level, opt=1)
        packed = load(tmp_path / str(number))[kernel.function.__name__]
        for call in calls:
            if call.kernel is kernel:
                given, own = call.copies(), call.copies()
                (packed if call.grid is None else packed[call.grid])(*given)
                assert given[-1].tobytes() == call.on(None, own).tobytes()


def _inputs(buffers: Any) -> dict[str, np.ndarray]:
    """Letters of base64 for bytes, numbers for others."""
    rng, inputs = np.random.default_rng(1), {}
    for buffer in buffers:
        stored = storage_type(buffer.dtype)
        assert stored is not None
        shape = (
            *(extent or 256 for extent in buffer.shape),
            *([buffer.dtype.lanes] if buffer.dtype.is_vec else []),
        )
        if stored.kind == "f":
            inputs[buffer.name] = rng.standard_normal(shape).astype(stored)
        else:
            inputs[buffer.name] = rng.choice(np.frombuffer(b"ABCdef0123", np.uint8), shape).astype(stored)
    return inputs


def _outcome(executable: Any, inputs: Mapping[str, np.ndarray]) -> object:
    """The bytes of the outputs, or the error."""
    try:
        return {name: array.tobytes() for name, array in executable(inputs).items()}
    except vyre.BadInputs as error:
        return str(error)


@pytest.mark.parametrize("text", quick(TEXTS, ids=[path.stem for path in TEXTS], one_parameter=True))
def test_examples_in_text(tmp_path: Path, text: Path) -> None:
    _compare_text(tmp_path, text, LEVEL)


@pytest.mark.parametrize("text", TEXTS, ids=[path.stem for path in TEXTS])
def test_examples_in_text_by_aarch64(tmp_path: Path, aarch64: str, text: Path) -> None:
    _compare_text(tmp_path, text, aarch64)


def _compare_text(tmp_path: Path, text: Path, level: str) -> None:
    vyre.pack(tmp_path / "text", [text], level, opt=1)
    pack = load(tmp_path / "text")
    for name in vyre.parse_file(text).pipelines:
        own = vyre.compile(text, entry=name, passes="default")
        inputs = _inputs(own.signature.read)
        assert _outcome(pack[name], inputs) == _outcome(own, inputs)
