"""Messages tell the author of a kernel in Python what to write in Python, and that of a text what to write there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadLaunch, DiagnosticError, ProgramError, parse
from vyre_opt.lang import Read, ReadWrite, Write, f32, u8, u32
from vyre_opt.passes import PassManager

F32 = np.zeros(64, np.float32)


@vyre.program(workgroup=64)
def neighbour(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.local_id(0)
    tile = vyre.shared(f32, 64)
    tile[i] = x[i]
    y[i] = tile[63 - i if x[0] < 1.0 else i]


@vyre.program(workgroup=64)
def first(x: ReadWrite[f32]) -> None:
    if vyre.local_id(0) == 0:
        x[0] = x[0] + 1


@vyre.program(workgroup=64)
def beyond(x: ReadWrite[f32]) -> None:
    x[vyre.global_id(0) + 60] = 1.0


@vyre.program(workgroup=64)
def heaped(x: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    a, b, c, d, e = 1.0, 2.0, 3.0, 4.0, 5.0
    for _ in range(4):
        a, b, c, d, e = b * a, c + a, d, e, x.vec(64)[i]
    x.vec(64)[i] = a + b + c + d + e


@vyre.program(workgroup=64, grid=4)
def fixed(x: Read[f32]) -> None:
    pass


@vyre.pipeline
def other_grid(x: Read[f32]) -> None:
    fixed[len(x)](x)


@vyre.pipeline
def unwritten(x: ReadWrite[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    first[1](t)


@vyre.pipeline
def unread(x: ReadWrite[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    vyre.host_read(t)


@vyre.pipeline
def without_warmup(text: Read[u8], table: Read[u32], hits: Write[u32]) -> None:
    vyre.scan.dfa(text, table, hits, hits)


CASES: dict[str, tuple[Callable[[], Any], str, type[Exception]]] = {
    "a race in a workgroup": (lambda: neighbour.options(target="ref")[1](F32, F32.copy()), "put `vyre.barrier()` between them", ProgramError),
    "a race in a grid": (lambda: first.options(target="ref")[2](F32.copy()), 'put `vyre.barrier("grid")` between them', ProgramError),
    "out of bounds": (lambda: beyond[1](F32.copy()), "a comparison against len(x)", ProgramError),
    "a grid that is fixed": (lambda: other_grid(F32), "write fixed[4, 1, 1](...)", BadLaunch),
    "nothing written": (lambda: unwritten.options(target="ref", passes=None)(F32.copy()), "or fill the buffer that is passed for it", ProgramError),
    "nothing to read": (lambda: unread.options(target="ref", passes=None)(F32.copy()), "or make it an argument", ProgramError),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")
@pytest.mark.parametrize("case", CASES)
def test_what_to_write(case: str) -> None:
    call, said, error = CASES[case]
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)
    assert "live_in" not in str(caught.value)


def test_live_values() -> None:
    with pytest.raises(ProgramError, match=r"keep it in shared memory: vyre\.shared\(f32, 256\)"):
        heaped[1](np.zeros(64 * 70, np.float32))


def test_a_parameter_of_a_named_kernel() -> None:
    with pytest.raises(DiagnosticError, match="write warmup=N"):
        without_warmup.text()


def test_a_warning() -> None:
    result = PassManager("verify").run(neighbour.module)
    assert "put `vyre.barrier()` there" in result.remarks[0].message


def test_the_same_of_a_text() -> None:
    """The module as text again: its author writes ops."""
    result = PassManager("verify").run(parse(neighbour.text()))
    assert "put `barrier workgroup` there" in result.remarks[0].message
    with pytest.raises(ProgramError, match="put `barrier workgroup` between them"):
        vyre.run(neighbour.text(), {"x": F32, "y": F32}, 1, target="ref")
