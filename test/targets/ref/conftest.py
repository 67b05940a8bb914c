"""Fixtures that run program texts in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Source, parse_source

Interpret = Callable[..., list[np.ndarray]]


@pytest.fixture
def ref() -> Interpret:
    """Dispatch the only program of a text, not verified: some are wrong on purpose."""

    def run(
        text: str, inputs: list[Any], grid: Any = None, *, checks: bool = True, **more: Any
    ) -> list[np.ndarray]:
        headed = text if text.startswith("vyre ") else f"vyre 1\n{text}"
        module = parse_source(Source(headed, "t.vyre"))
        (program,) = module.programs.values()
        return dispatcher("ref", checks=checks).dispatch(program, inputs, grid, module=module, **more)

    return run


@pytest.fixture
def faulty(ref: Interpret) -> Callable[..., ProgramError]:
    """Dispatch a text that must be found at fault: of `kind`, on `line` (counted from 1 at `vyre 1`)."""

    def run(
        kind: str, line: int, text: str, inputs: list[Any], grid: Any = None, **more: Any
    ) -> ProgramError:
        with pytest.raises(ProgramError) as caught:
            ref(text, inputs, grid, **more)
        error = caught.value
        assert error.kind == kind, str(error)
        assert error.diagnostic.loc is not None
        assert error.diagnostic.loc.line == line, str(error)
        assert str(error).startswith(f"t.vyre:{line}:")
        return error

    return run
