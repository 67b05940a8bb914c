"""What a kernel or a pipeline in Python surely does wrong is said at its first call, at its line; and fills, the remedy."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.counted import SIXTEEN, add, count
from support.each import each
from support.modules import written_module

import vyre_opt as vyre
from vyre_opt import DiagnosticError, ProgramWarning
from vyre_opt.lang import Read, ReadWrite, Write, f32, u8, u32


@vyre.pipeline
def counted(x: Read[u32], out: Write[u32]) -> None:
    bins = vyre.zeros(SIXTEEN, dtype=u32)
    count[vyre.ceil_div(len(x), 64)](x, bins)
    vyre.fill(out, 100)
    add[1](bins, out)


@vyre.pipeline
def in_rounds(x: Read[u32], out: Write[u32], flags: Write[bool], z: ReadWrite[f32[:, :]]) -> None:
    for _ in range(3):
        bins = vyre.zeros((SIXTEEN,), u32)
        count[vyre.ceil_div(len(x), 64)](x, bins)
    vyre.fill(array=out, value=0)
    add[1](bins, out)
    vyre.fill(flags, True)
    vyre.fill(z, float("-inf"))


X = np.arange(1000, dtype=np.uint32) * 7


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("passes", [None, "default"])
def test_fills(target: str, passes: str | None) -> None:
    """Arrays hold anything before; what is filled holds the value, and a buffer of zeros does in each round."""
    out, bins = np.full(SIXTEEN, 77, np.uint32), np.bincount(X % SIXTEEN, minlength=SIXTEEN)
    counted.options(target=target, passes=passes)(X, out)
    assert np.array_equal(out, bins + 100)
    flags, z = np.zeros(5, bool), np.ones((3, 4), np.float32)
    in_rounds.options(target=target, passes=passes)(X, out, flags, z)
    assert np.array_equal(out, bins)
    assert flags.all()
    assert np.isneginf(z).all()


def test_the_text() -> None:
    assert counted.text().endswith(
        """  buffer @bins : u32[16]

  fill(@bins, 0)
  launch @count grid(ceil_div(len(@x), 64)) (@x, @bins)
  fill(@out, 100)
  launch @add grid(1) (@bins, @out)
}
"""
    )
    # @out is filled in the launch that adds to it
    assert re.findall(r"launch @(\w+)", counted.text(passes="default")) == [
        "fill_u32",
        "count",
        "fill_u32_1_then_add",
    ]


WRONG = {
    # a statement of a pipeline, the place of the error, and what it says
    "vyre.fill(x, 0)": ("x", "x is Read, and a fill writes it"),
    "vyre.fill(y, 0.5)": ("0.5", "y is not filled with this: 0.5 is a float, not a u32"),
    "vyre.fill(y, -1)": ("-1", "y is not filled with this: -1 does not fit in u32 (0 to 4294967295)"),
    "vyre.fill(b, 0)": ("0", "b is not filled with this: a bool is true or false, not 0"),
    "vyre.fill(y, (1, 2))": ("(1", "y is not filled with this: u32 has 1 lanes, 2 given"),
    "vyre.fill(y, k)": ("k", "a fill is of a value that is known before the pipeline runs"),
    "vyre.fill(y, len(x))": ("len", "a fill is of a value that is known before the pipeline runs"),
    "vyre.fill(y)": ("vyre", "fill takes an array and a value"),
    "vyre.fill(y, 0, 1)": ("vyre", "fill takes an array and a value"),
    "vyre.fill(z, 0)": ("z", "z is not defined"),
    "vyre.fill(3, 0)": ("3", "3 is no array"),
    "vyre.zeros(4, u32)": ("vyre", "a buffer has a name of its own"),
    "s, t = vyre.zeros(4, u32)": ("vyre", "a buffer has one name: t = vyre.zeros(4, u32)"),
    "t = vyre.zeros(u32, 4)": ("4", "the type of a buffer is written behind its size"),
    "t = vyre.zeros(4)": ("vyre", "zeros takes a size and a type"),
    "t = vyre.zeros((1, 2, 3, 4), u32)": ("(1", "a buffer has 1 to 3 dimensions, not 4"),
}
HEAD = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n"


def test_what_is_no_fill(tmp_path: Path) -> None:
    text = HEAD + "".join(
        f"\n\n@vyre.pipeline\ndef p{n}(x: Read[u32], y: Write[u32], b: Write[bool], k: u32):\n    {statement}\n"
        for n, statement in enumerate(WRONG)
    )
    text += "\n\n@vyre.program\ndef p(x: Write[u32]):\n    vyre.fill(x, 0)\n"
    module = written_module(tmp_path, text, "no_fills")

    def check(case: tuple[int, str]) -> None:
        place, message = WRONG[case[1]]
        with pytest.raises(DiagnosticError) as caught:
            getattr(module, f"p{case[0]}").text()
        (error,) = caught.value.diagnostics
        assert error.message == message
        assert error.loc is not None
        assert error.loc.column == 5 + case[1].index(place, case[1].index("(") if place != "vyre" else 0)

    each(enumerate(WRONG), check)
    with pytest.raises(DiagnosticError, match=r"store to each element: x\[i\] = 0"):
        module.p.text()


WARNED = """
@vyre.program
def compared(y: Write[u32]):
    i = vyre.global_id(0)
    if i - 1 >= 0 and i < len(y):
        y[i] = 1

@vyre.program
def beyond(x: Read[u32[32]], y: Write[u32]):
    k = u32(30)
    y[0] = x[k + 10]

@vyre.program
def shared(y: Write[u32]):
    tile = vyre.shared(u32, 64)
    y[vyre.global_id(0)] = tile[vyre.local_id(0)]

@vyre.program
def count(x: Read[u32], bins: ReadWrite[u32]):
    vyre.atomic_add(bins, x[vyre.global_id(0)], 1)

@vyre.pipeline
def counted(x: Read[u32], y: Write[u32]):
    bins = vyre.buffer(u32, 16)
    count[1](x, bins)
    vyre.fill(y, 0)
    count[1](bins, y)

@vyre.func
def positive(v):
    return v if v >= 0 else -v

@vyre.func
def before(v):
    return v - 1 < 0

@vyre.program
def called(y: Write[u32]):
    i = vyre.global_id(0)
    if not before(i) and i < len(y):
        y[i] = positive(i)

@vyre.program
def last(x: Read[u32], y: Write[u32]):
    y[0] = x[16]

@vyre.pipeline
def short(y: Write[u32]):
    bins = vyre.zeros(16, u32)
    last[1](bins, y)
"""
SAID = {
    "compared": (5, "this is always true: a u32 is not below 0", "write i >= 1"),
    "beyond": (11, "load out of bounds of x: index 40, length 32", "the last index is 31"),
    "shared": (
        16,
        "load of tile, which nothing has written before it",
        "store to every element before it is read",
    ),
    "counted": (
        25,
        "this stage updates bins, which nothing has written before it",
        "write vyre.fill(bins, 0) before it",
    ),
}


def test_warnings(tmp_path: Path) -> None:
    """A warning of Python at the line, once; the kernel runs all the same."""
    module = written_module(tmp_path, HEAD + WARNED, "warned")

    def check(name: str) -> None:
        line, said, help = SAID[name]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(2):
                getattr(module, name).text()
        (warning,) = caught
        assert issubclass(warning.category, ProgramWarning)
        assert (Path(warning.filename).name, warning.lineno) == ("warned.py", line + 2)
        assert str(warning.message).startswith(said)
        assert str(warning.message).rpartition("help: ")[2].endswith(help)

    each(SAID, check)
    y = np.zeros(64, np.uint32)
    module.compared[1](y)
    assert y.tolist() == [1] * 64


def test_an_index_that_is_written_so() -> None:
    """It is an error: as Python has one for a list."""

    @vyre.program
    def beyond(x: Read[u32[32]], y: Write[u32]) -> None:
        y[0] = x[40]

    with pytest.raises(DiagnosticError, match="40 is beyond the 32 elements of x"):
        beyond.text()


@vyre.pipeline
def unread(x: Read[u8], y: Write[u32]) -> None:
    vyre.host_read(y)


def test_an_array_that_is_write() -> None:
    """Its contents do not come with it, so that a read of it is an error."""
    with pytest.raises(DiagnosticError, match="host_read reads y, which is Write, before anything writes it"):
        unread.text()


TWO_OF_ONE_NAME = """

@vyre.program(workgroup=4)
def copied(a: Read[u32], b: Write[u32]):
    i = vyre.global_id(0)
    if i < len(a):
        b[i] = a[i]

@vyre.program(workgroup=4)
def counting(a: ReadWrite[u32]):
    a[vyre.global_id(0)] += 1

@vyre.pipeline
def twice(x: Read[u32], y: Write[u32]):
    t = vyre.buffer(u32, 8)
    copied[2](x, t)
    t = vyre.buffer(u32, 4)
    copied[1](t, y)

@vyre.pipeline
def short(x: Read[u32], y: Write[u32]):
    t = vyre.buffer(u32, 4)
    copied[2](x, t)
    copied[1](t, y)

@vyre.pipeline
def unfilled(x: Read[u32], y: Write[u32]):
    t = vyre.buffer(u32, 4)
    counting[1](t)
    copied[1](t, y)
"""


def test_of_two_buffers_of_one_name_that_one_is_named_which_is_meant(tmp_path: Path) -> None:
    """As the source has it: the pipeline itself calls the second t_2, which nobody has written anywhere."""
    module = written_module(tmp_path, HEAD + TWO_OF_ONE_NAME, "one_name")
    with pytest.warns(ProgramWarning) as told:
        module.twice.text()
    line = 1 + (HEAD + TWO_OF_ONE_NAME).split("\n").index("    t = vyre.buffer(u32, 4)")
    message = str(told[0].message)
    assert message.startswith(f"this stage reads the t of line {line}, which nothing has written")
    assert "write vyre.fill(t, 0) before it" in message
    assert "t_2" not in message


def test_a_fault_of_joined_launches_names_the_array_as_its_kernel_does(tmp_path: Path) -> None:
    module = written_module(tmp_path, HEAD + TWO_OF_ONE_NAME, "joined_name")
    x = np.arange(8, dtype=np.uint32)
    with pytest.raises(vyre.ProgramError, match="out of bounds of @b") as caught:
        module.short(x, x.copy())
    diagnostic = caught.value.diagnostic
    assert diagnostic.help == "i is compared with len(a), and this goes along len(b): write if i < len(b):"
    notes = [message for message, _ in diagnostic.notes]
    assert "@b is declared here" in notes
    assert "launched here by pipeline @short, with @t for @b" in notes


@pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")
def test_a_buffer_that_is_live_in_is_not_told_to_be_declared_so(tmp_path: Path) -> None:
    module = written_module(tmp_path, HEAD + TWO_OF_ONE_NAME, "unfilled")
    x = np.arange(8, dtype=np.uint32)
    with pytest.raises(vyre.ProgramError, match="which nothing has written") as caught:
        module.unfilled.options(target="ref", passes=None)(x, x.copy())
    help = caught.value.diagnostic.help
    assert help is not None
    assert "or fill the buffer that is passed for it, before this launch, or make it an argument" in help
    text = module.unfilled.text()
    with pytest.raises(vyre.ProgramError, match="which nothing has written") as caught:
        vyre.run(text, {"x": x, "y": x.copy()}, target="ref")
    help = caught.value.diagnostic.help
    assert (
        help
        == "store to every element before it is read, or fill the buffer that is passed for it, before this launch"
    )
