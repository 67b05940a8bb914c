"""The kernels of examples/python give what NumPy gives, at any size, with the same bits on ref as on cpu."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from support.python_examples import CASES, FOLDER, NAMES, Sizes, call_of, load
from support.python_programs import same_bits
from support.quick import quick


def test_every_example_is_tested() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize(("name", "sizes"), quick(CASES, lambda case: case[0], keep=4))
def test_a_kernel_gives_what_numpy_gives(name: str, sizes: Sizes) -> None:
    call = call_of(name, sizes)
    results = [call.on(target, call.copies()) for target in ("ref", "cpu")]
    assert same_bits(*results).all()
    if call.rtol == 0:
        assert np.array_equal(results[0], call.expected)
    else:
        np.testing.assert_allclose(results[0], call.expected, call.rtol, call.atol)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It compares with NumPy itself, and prints one line."""
    load(name).main()
    printed = capsys.readouterr().out
    assert printed.startswith(f"{name}: ")
    assert printed.count("\n") == 1


def test_an_example_is_a_script() -> None:
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "saxpy.py")], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "saxpy: 1000000 elements agree with NumPy\n"), ran.stderr


@pytest.mark.parametrize("name", NAMES)
def test_main_notices_a_wrong_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does nothing does not agree with NumPy."""
    example = load(name)
    launch = "run" if hasattr(example, "run") else call_of(name, (1,)).kernel.__name__
    monkeypatch.setattr(example, launch, lambda *_: None)
    with pytest.raises(AssertionError):
        example.main()
