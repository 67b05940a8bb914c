"""What kernels cannot say is refused at its place in the Python file, with what to write; several errors at once."""

from __future__ import annotations

import linecache
import random
import re
import sys
import tokenize
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support import python_programs
from support.each import each
from support.modules import written_module
from support.python_kernels import python_kernel
from support.quick import quick
from support.warned import UNUSED

import vyre_opt
from vyre_opt import BadInputs, DiagnosticError, ProgramError, ProgramWarning
from vyre_opt.lang import Kernel, PipelineFunction, Read, ReadWrite, Write, f32, u32

pytestmark = pytest.mark.filterwarnings(f"ignore:{UNUSED}")

HEAD = """import math
import numpy as np
import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f16, f32, i32, u8, u32

N = 4

def plain(x):
    return x

@vyre.func
def twice(v: f32) -> f32:
    return v * 2

@vyre.func
def endless(v):
    return endless(v)

@vyre.func
def starred(*values):
    return values[0]

@vyre.func
def bare(v):
    for k in range(3):
        if v == 1.0:
            return
    return v

@vyre.program(workgroup=32)
def other(x: Read[f32]):
    pass

@vyre.program(workgroup=32)
def kernel(n: u32, a: f32, x: Read[f32], y: Write[f32], z: ReadWrite[i32]):
    i = vyre.global_id(0)
"""

WRONG: list[tuple[str, str, str]] = [
    # a statement, what the message says, what the caret is at
    ("y[i] = x[i] * n", "x[i] is f32 and n is u32; types do not mix", "x[i] * n"),
    ("y[i] = n / 2", "/ of integers (u32) is no integer", "n / 2"),
    ("y = x[i] * 2.0", "y is an array of the caller, whose elements stay as they are", "y"),
    ("x, y = y, x", "x is an array of the caller, whose elements stay as they are", "x"),
    ("y[i] = 1.0 if n == 1 or 2 else 0.0", "2 is a number, not a bool", "2"),
    ("y[i] = 1.5 + n", "1.5 is a float and n is u32; types do not mix", "1.5 + n"),
    ("y[i] = y[i]", "y is read here, but it is Write", "y[i]"),
    (
        "t = [x[k] for k in range(n)]",
        "the range of a static loop is known when the kernel is translated",
        "n",
    ),
    (
        "t = [x[k] for k in range(9) if k]",
        "a list is made by one for, without if",
        "[x[k] for k in range(9) if k]",
    ),
    ("t = sum(x[k] for k in range(9))", "a kernel has no generators", "(x[k] for k in range(9))"),
    (
        "y[i] = vyre.select(x.vec(2)[i] > 0, 1.0, x.vec(4)[i])",
        "x.vec(2)[i] > 0 is vec<2 x bool>, which chooses lanes of vectors as long, and 1.0 is vec<4 x f32>",
        "vyre.select(x.vec(2)[i] > 0, 1.0, x.vec(4)[i])",
    ),
    ("t = vyre.permute(b'abcd', i)", "permute takes vectors of u8, and i is u32", "i"),
    (
        "t = vyre.permute((1, 2, 300), b'ab')",
        "(1, 2, 300) has something else than numbers from 0 to 255",
        "(1, 2, 300)",
    ),
    ("t = vyre.permute(b'a', b'ab')", "a vector has 2 to 64 lanes, not 1", "b'a'"),
    (
        "t = vyre.movemask(x.vec(4)[i] > 0)",
        "movemask takes a vector of 8, 16, 32 or 64 bools, and x.vec(4)[i] > 0 is vec<4 x bool>",
        "x.vec(4)[i] > 0",
    ),
    ("x[i] = 1.0", "x is written here, but it is Read", "x[i]"),
    ("y[-1] = 1.0", "-1 is before the first element", "-1"),
    ("y[1.5] = 1.0", "an index is an integer, not 1.5", "1.5"),
    ("y[a] = 1.0", "an index is an integer, not f32", "a"),
    ("y[i] = x[0:2]", "x[0:2] is slice<2xf32>, where f32 is wanted", "x[0:2]"),
    ("y[i] = x[i, 0]", "x takes one index, not 2", "i, 0"),
    ("y[i] = nothing", "nothing is not defined", "nothing"),
    ("y[i] = vyre.globl_id(0)", "has no attribute 'globl_id'", "vyre.globl_id"),
    ("y[i] = vyre.global_id(3)", "an axis is 0, 1 or 2, not 3", "3"),
    ("y[i] = i", "i is u32, where f32 is wanted", "i"),
    ("z[i] = 3000000000", "3000000000 does not fit in i32", "3000000000"),
    ("z[i] = 1.5", "1.5 is a float, where i32 is wanted", "1.5"),
    ("z[i] = True", "True is bool, where i32 is wanted", "True"),
    ("if n: y[i] = 1.0", "a condition is a bool, and n is a number", "n"),
    ("y[i] = a if x[i] else 2.0", "a condition is a bool, and x[i] is a number", "x[i]"),
    ("ok = n and n > 2", "a condition is a bool, and n is a number", "n"),
    ("y[i] = [1.0][0]", "a kernel has no lists, sets or dicts", "[1.0]"),
    ("y[i] = sum(x[k] for k in range(4))", "a kernel has no", ""),
    ("t = lambda v: v", "a kernel has no lambdas", "lambda v: v"),
    ("with x: pass", "a kernel has no with", "with x: pass"),
    ("raise ValueError", "a kernel raises no errors", "raise ValueError"),
    ("import os", "a kernel imports nothing", "import os"),
    ("return a", "a program returns nothing", "return a"),
    ("x = y if n > 1 else x", "is an array, not a value", ""),
    ("y[i] = plain(a)", "plain is a function of plain Python", "plain(a)"),
    ("y[i] = np.exp(a)", "np.exp is of NumPy", "np.exp(a)"),
    ("y[i] = math.sqrt(a)", "math.sqrt computes in Python, before the kernel runs", "math.sqrt(a)"),
    ("y[i] = twice(a, a)", "twice(): too many positional arguments", "twice(a, a)"),
    ("y[i] = twice(n)", "n is u32, where f32 is wanted", "n"),
    ("y[i] = endless(a)", "endless calls itself", "endless(v)"),
    ("other(x)", "other is a program, and a program calls none", "other(x)"),
    ("vyre.decode.hex(x, y)", "is a kernel of its own", "vyre.decode.hex(x, y)"),
    ("y[i] = vyre.fma(a, a)", "needs c", "vyre.fma(a, a)"),
    ("y[i] = vyre.exp(n)", "exp takes floats, not u32", "vyre.exp(n)"),
    ("z[i] = vyre.popcount(a)", "popcount takes integers, not f32", "vyre.popcount(a)"),
    (
        "vyre.barrier('warp')",
        "the scope of a barrier is subgroup, workgroup, cluster, grid, not 'warp'",
        "'warp'",
    ),
    ("t = vyre.shared(f32, n)", "the size of shared memory is known when the kernel is translated", "n"),
    ("t = vyre.shared(f32, 0)", "shared memory has 1 or more elements, not 0", "0"),
    ("vyre.shared(f32, 8)[0] = 1.0", "shared memory needs a name", "vyre.shared(f32, 8)"),
    ("vyre.atomic_add(y, 0, 1.0)", "y is read here, but it is Write", "y"),
    ("vyre.atomic_add(z, 0, 1.0)", "1.0 is a float, where i32 is wanted", "1.0"),
    (
        "vyre.atomic_add(z, 0, 1, fastmath='reassoc')",
        "fastmath is for floats, and the elements of z are i32",
        "vyre.atomic_add(z, 0, 1, fastmath='reassoc')",
    ),
    ("vyre.atomic_add(y, 0, 1.0, fastmath='afn')", "fastmath takes reassoc, not afn", "'afn'"),
    *(
        (
            f"y[0] = vyre.exp(1.0, fastmath={wrong})",
            f"fastmath takes contract, reassoc, nnan, ninf, nsz, arcp, afn, not {wrong}",
            wrong,
        )
        for wrong in ("5", "None")
    ),
    ("vyre.atomic_min(y, 0, 1.0, fastmath='reassoc')", "atomic_min takes no fastmath flags", "'reassoc'"),
    ("for k in x: pass", "a loop over an array is not supported", "x"),
    ("for k in range(1.5): pass", "a loop counts by whole numbers, not 1.5", "1.5"),
    ("for k in range(0, 4, 0): pass", "a step is not 0", "0"),
    (
        "for k in range(i, i32(n)): pass",
        "the bounds of a range are of one type, not u32 and i32",
        "range(i, i32(n))",
    ),
    ("for k in vyre.static(range(2)): break", "a static loop is unrolled, and has no break", "break"),
    ("y[0] = k", "k is not defined", "k"),
    ("t, s = a", "2 names for one value", "t, s"),
    ("t = x.vec(0)[i]", "a vector has 2 to 64 lanes, not 0", "x.vec(0)"),
    ("t = x.vec(4)[i][4]", "vec<4 x f32> has lanes 0 to 3, not 4", "x.vec(4)[i][4]"),
    (
        "y[i] = vyre.rand(vyre.u64(1), i)",
        "vyre.u64(1) is u64 and zero is u32; types do not mix",
        "vyre.rand(vyre.u64(1), i)",
    ),
    ("t = x.vec(4)[i] + n", "x.vec(4)[i] is vec<4 x f32> and n is u32; types do not mix", "x.vec(4)[i] + n"),
    ("a.real = 1", "a kernel assigns names and elements of arrays", "a.real"),
    ("y[i] = x.mean()", "an array of a kernel has no mean", "x.mean"),
    ("assert a", "a condition is a bool, and a is a number", "a"),
    ("z[i] = 2 ** z[i]", "the exponent of ** is a number from 0 to 255 for integers", "2 ** z[i]"),
    ("z[i] = z[i] ** -1", "the exponent of ** is a number from 0 to 255 for integers", "z[i] ** -1"),
    ("z[i] @= z[i]", "matrix products are loops here", "z[i] @= z[i]"),
    ("y[i] = 1e50", "1e+50 does not fit in f32, and would be inf", "1e50"),
    ("y[i] = x[i] * 10**50", "does not fit in f32, and would be inf", "10**50"),
    ("y[i] = starred(a)", "starred has a * or ** argument", "starred(a)"),
    ("y[i] = bare(a)", "a function of kernels returns a value", "return"),
    ("y[i] = a @ a", "matrix products are loops here", "a @ a"),
    ("y[i] = int(a)", "a kernel's numbers have sizes", "int(a)"),
    ("z[i] = a is None", "a kernel compares by", "a is None"),
    ("a + 1", "this computes a value that nothing uses", "a + 1"),
    ("global N", "a kernel cannot assign names outside of it", "global N"),
    ("del a", "a kernel deletes nothing", "del a"),
    ("z[i] = N // 0", "N // 0", "N // 0"),
]


def test_comments_and_texts_may_stand_further_left_than_the_function(tmp_path: Path) -> None:
    text = (
        f"{HEAD}    y[i] = 1.0\n\ndef factory():\n    @vyre.program\n    def inner(y: Write[f32]):\n# old\n"
    )
    module = written_module(
        tmp_path, text + "        y[0] = 1.0\n        y[1] = 'x'\n    return inner\n", "left"
    )
    with pytest.raises(DiagnosticError) as caught:
        module.factory().text()
    loc = caught.value.diagnostics[0].loc
    assert loc is not None
    assert loc.source.text[loc.start : loc.end] == "'x'"


def test_a_kernel_is_what_its_file_held_when_it_was_imported(tmp_path: Path) -> None:
    module = written_module(tmp_path, f"{HEAD}    y[i] = 1.0\n    z[i] = 1.5\n", "changed")
    for changed in (f"{HEAD}    y[i] = 2.0\n", "x = 1\n" * 40, ""):
        (tmp_path / "changed.py").write_text(changed)
        linecache.checkcache()
        with pytest.raises(DiagnosticError, match=r"changed.py:38:12: error: 1\.5 is a float") as caught:
            module.kernel.options(target="ref").text()
        assert "z[i] = 1.5" in str(caught.value)


def test_a_file_that_changes_while_it_is_imported_is_named(tmp_path: Path) -> None:
    text = f"import pathlib\npathlib.Path(__file__).write_text('x = 1\\n' * 60)\n{HEAD}    y[i] = 1.0\n"
    with pytest.raises(DiagnosticError, match="the file has changed since"):
        written_module(tmp_path, text, "changing").kernel.text()


@pytest.mark.parametrize("decorator", [vyre_opt.program, vyre_opt.func])
def test_a_lambda_is_refused(decorator: Any) -> None:
    with pytest.raises(TypeError, match="a function written with def, not a lambda"):
        decorator(lambda y: None)


def test_names_of_other_libraries_are_told_what_stands_for_them(tmp_path: Path) -> None:
    rows = (
        ("y[i] = vyre.maximum(a, 0.0)", "write max(a, 0.0)"),
        ("y[i] = -vyre.inf", "write math.inf"),
        ("y[i] = np.exp(a)", "write vyre.exp"),
        ("y[i] = x[:].max()", "write vyre.max(x[:])"),
        ("y[i] = x[:].mean()", "write vyre.sum(x[:]) / f32(len(x[:]))"),
        ("y[i] = x @ y", "call vyre_opt.kernels.matmul(x, y, out=y)"),
    )
    for number, (statement, help) in enumerate(rows):
        module = written_module(tmp_path, f"{HEAD}    {statement}\n    y[i] = 1.0\n", f"other_{number}")
        with pytest.raises(DiagnosticError) as caught:
            module.kernel.text()
        assert help in str(caught.value), statement


def test_wrong_statements(tmp_path: Path) -> None:
    def check(row: tuple[str, str, str]) -> None:
        statement, message, place = row
        text = f"{HEAD}    {statement}\n    y[i] = 1.0\n"
        # a name each: of one file Python might take the byte code of an earlier text
        with pytest.raises(DiagnosticError) as caught:
            written_module(tmp_path, text, f"wrong_{WRONG.index(row)}").kernel.text()
        error = caught.value.diagnostics[0]
        assert message in error.message
        assert error.loc is not None
        shown = error.loc.source.text[error.loc.start : error.loc.end]
        assert shown == place or not place

    each(WRONG, check, lambda row: row[0])


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    """And what follows from one is not."""
    lines = ["t = nothing", "y[i] = t * n", "y[i] = n", "if n: t = 1", "y[i] = t"]
    module = written_module(tmp_path, HEAD + "".join(f"    {line}\n" for line in lines), "wrong")
    with pytest.raises(DiagnosticError) as caught:
        module.kernel.text()
    assert [d.message for d in caught.value.diagnostics] == [
        "nothing is not defined",
        "n is u32, where f32 is wanted",
        "a condition is a bool, and n is a number",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if n > 2:\n        t = 1.0\n    y[i] = t", "t has a value in one branch of this if only"),
        (
            "t = 1\n    if n > 2:\n        t = a\n    else:\n        t = n\n    y[i] = t",
            "t has another type in each branch",
        ),
        (
            "for k in range(n):\n        t = x[k]\n    y[i] = t",
            "t gets its value in a loop, which may run no round",
        ),
        (
            "for k in range(n):\n        pass\n    y[i] = f32(k)",
            "k is the counter of a loop, and has no value after it",
        ),
        (
            "t = n\n    while t > 1:\n        t = a",
            "t is u32 when the loop begins, and f32 at the end of a round",
        ),
        ("if i < 3:\n        vyre.barrier()", "barrier"),
    ],
)
def test_control_flow(tmp_path: Path, body: str, message: str) -> None:
    module = written_module(tmp_path, f"{HEAD}    {body}\n", "wrong")
    with pytest.raises(DiagnosticError) as caught:
        module.kernel.text()
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].loc is not None


def test_arguments_without_types(tmp_path: Path) -> None:
    text = HEAD.replace("n: u32, a: f32, x: Read[f32]", "n, a: float, x: Read[int], *rest")
    with pytest.raises(DiagnosticError) as caught:
        written_module(tmp_path, text + "    pass\n", "wrong").kernel.text()
    assert [d.message for d in caught.value.diagnostics] == [
        "a kernel has no * and ** arguments",
        "the argument n has no type",
        "the type of a is float, which is none of a kernel",
        "the type of x is Read[int], which is none of a kernel",
    ]


def test_a_function_without_source_says_so() -> None:
    with pytest.raises(DiagnosticError, match=r"the source of f is not to be had"):
        exec("import vyre_opt as vyre\ndef f(): pass\nk = vyre.program(f)", {})


# --- faults and arguments of calls


@vyre_opt.program(workgroup=32)
def shift(n: u32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre_opt.global_id(0)
    if i < len(y):
        y[i] = x[i + n]


@vyre_opt.program(workgroup=32)
def racy(x: Read[f32], y: Write[f32]) -> None:
    y[0] = x[vyre_opt.global_id(0)]


@vyre_opt.program(workgroup=32)
def checked(x: Read[f32], y: Write[f32]) -> None:
    i = vyre_opt.local_id(0)
    assert x[i] >= 0, "a weight is not negative"
    y[i] = x[i]


X = np.arange(32, dtype=np.float32)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_fault_shows_the_line_of_python(target: str) -> None:
    with pytest.raises(ProgramError) as caught:
        shift.options(target=target)[1](1, X, X.copy())
    shown = str(caught.value)
    assert shown.startswith(f"{__file__}:")
    assert "y[i] = x[i + n]" in shown
    assert "index 32, length 32" in shown
    with pytest.raises(ProgramError, match="a weight is not negative"):
        checked.options(target=target)[1](-X, X.copy())


def test_a_race_shows_the_line_of_python() -> None:
    with (
        pytest.raises(ProgramError) as caught,
        pytest.warns(ProgramWarning, match=r"store to y\[0\], each its own value: this is a race"),
    ):
        racy.options(target="ref")[1](X, X.copy())
    assert caught.value.kind == "race"
    assert "y[0] = x[vyre_opt.global_id(0)]" in str(caught.value)


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0, X, READ_ONLY), BadInputs, "shift: y is written, but the array is read-only"),
        ((0, X, np.zeros(64, np.float32)[::2]), BadInputs, "y is written, but the array is not contiguous"),
        ((0, X, [0.0] * 32), BadInputs, "shift: y"),
        ((0, X, X.astype(np.float64)), BadInputs, "f32 elements are float32, the array is float64"),
        ((-1, X, X.copy()), BadInputs, "shift: n is u32: -1 is not a u32"),
        ((1.5, X, X.copy()), BadInputs, "shift: n is u32: 1.5 is not a u32"),
        ((0, X), TypeError, "missing a required argument: 'y'"),
        ((0, X, X, X), TypeError, "too many positional arguments"),
    ],
)
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_wrong_arguments_are_refused_before_anything_runs(
    args: tuple[Any, ...], error: type[Exception], message: str, target: str
) -> None:
    kernel = shift.options(target=target)
    kernel[1](0, X, X.copy())
    with pytest.raises(error, match=re.escape(message)):
        kernel[1](*args)


def test_a_kernel_is_called_over_a_grid() -> None:
    with pytest.raises(TypeError, match=r"shift\[vyre\.ceil_div\(len\(y\), 32\)\]"):
        shift(0, X, X.copy())
    for grid in (-1, (0, -1), 1.5, (1, 2, 3, 4), "4"):
        with pytest.raises(BadInputs):
            shift[grid](0, X, X.copy())


def test_what_kernels_call_has_no_meaning_outside() -> None:
    for call in (lambda: vyre_opt.global_id(0), lambda: vyre_opt.sin(1.0), lambda: f32(1)):
        with pytest.raises(TypeError, match="inside of a kernel"):
            call()


# --- wrong kernels made of right ones


def right_texts() -> list[str]:
    assert python_programs.__file__ is not None
    return [Path(python_programs.__file__).read_text(), *map(python_kernel, range(20))]


def mutated(text: str, rng: random.Random) -> str | None:
    """The text with a token replaced, deleted or doubled; None where Python itself would not read it."""
    lines = text.splitlines(keepends=True)
    tokens = [
        t for t in tokenize.generate_tokens(iter(lines).__next__) if t.type in (1, 2, 54) and t.start[0] > 8
    ]
    names = [
        "n",
        "x",
        "y",
        "i",
        "f32",
        "u8",
        "vyre",
        "len",
        "None",
        "1.5",
        "-3",
        "True",
        "range",
        "//",
        "+",
        "nothing",
        "[0]",
        "and",
    ]
    for _ in range(rng.choice((1, 1, 2))):
        token = rng.choice(tokens)
        (row, start), (_, end) = token.start, token.end
        line = lines[row - 1]
        kind = rng.random()
        new = (
            rng.choice(names)
            if kind < 0.6
            else ""
            if kind < 0.75
            else f"{token.string} {token.string}"
            if kind < 0.85
            else rng.choice(tokens).string
        )
        lines[row - 1] = line[:start] + new + line[end:]
    result = "".join(lines)
    try:
        with warnings.catch_warnings(action="error"):  # of what Python takes for a mistake itself
            compile(result, "mutated", "exec")
    except (SyntaxError, SyntaxWarning, ValueError):
        return None
    return result


def kernels_of(module: ModuleType) -> list[Kernel | PipelineFunction]:
    return [value for value in vars(module).values() if isinstance(value, (Kernel, PipelineFunction))]


def check_messages(text: str, folder: Path, name: str) -> int:
    """Translate all kernels of a text; how many were refused.  Every message has a place in the text."""
    try:
        module = written_module(folder, text, name)
    except Exception:  # Python refuses the module itself
        return 0
    finally:
        sys.modules.pop(name, None)
    refused = 0
    for kernel in kernels_of(module):
        try:
            kernel.text()
        except DiagnosticError as error:
            refused += 1
            for diagnostic in error.diagnostics:
                assert diagnostic.loc is not None, diagnostic.message
                assert diagnostic.loc.source.name == str(folder / f"{name}.py")
                assert 0 <= diagnostic.loc.start < diagnostic.loc.end <= len(diagnostic.loc.source.text)
                assert diagnostic.message
                str(error)
    return refused


@pytest.mark.parametrize("count", quick([20, 300]))
def test_wrong_kernels(tmp_path: Path, count: int) -> None:
    """None is an internal error, and each message has its place."""
    rng, refused, number = random.Random(16), 0, 0
    texts = right_texts()
    while refused < count:
        text = mutated(rng.choice(texts), rng)
        if text is not None:
            number += 1
            refused += check_messages(text, tmp_path, f"mutated_{number}")


FORMS = {
    "text": 'def factory():\n    @vyre.program(workgroup=1)\n    def kernel(y: Write[f32]):\n        """A text\nthat goes left:\n  of # it\n"""\n        y[0] = 1.0\n        y[1] = 2.0\n    return kernel\n\n\nkernel = factory()\n',
    "brackets": "@vyre.program(\nworkgroup=1\n)\ndef kernel(\ny: Write[f32],\n):\n    y[0] = vyre.fma(\n1.0,\n 1.0, 0.0\n)\n    y[1] = 2.0\nother = 3\n",
    "continued": "@vyre.program(workgroup=1)\ndef kernel(y: Write[f32]):\n    y[0] = \\\n1.0\n\n# a comment\n  # and one\n\n    y[1] = 2.0\n@vyre.func\ndef other(y): pass\n",
    "last": "@vyre.program(workgroup=1)\ndef kernel(y: Write[f32]):\n    y[0] = 1.0\n    if 0 == 1:\n        y[0] = 3.0\n    y[1] = 2.0",
    "one line": "@vyre.program(workgroup=1)\ndef kernel(y: Write[f32]): y[0] = 1.0; y[1] = 2.0\nx = 1\n",
    "decorated twice": "def same(f): return f\n\n@vyre.program(workgroup=1)\n# with a comment\n\n@same\ndef kernel(y: Write[f32]):\n\ty[0] = 1.0\n\ty[1] = 2.0\n",
    "many texts": "@vyre.program(workgroup=1)\ndef kernel(y: Write[f32]):\n" + '    """\na\n"""\n' * 40 + "    y[0] = 1.0\n    y[1] = 2.0\n",
    "in a class": "class Kernels:\n    if True:\n        @vyre.program(workgroup=1)\n        def kernel(y: Write[f32]):\n            y[0] = 1.0\n            y[1] = 2.0\n        z = 1\n\nkernel = Kernels.kernel\n",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_function_is_found_whole_in_its_file(tmp_path: Path, form: str) -> None:
    text = f"import vyre_opt as vyre\nfrom vyre_opt.lang import Write, f32\n\n{form}"
    kernel = written_module(tmp_path, text, "found").kernel
    y = np.zeros(2, np.float32)
    kernel.options(target="ref")[1](y)
    assert y.tolist() == [1.0, 2.0]
    *_, store = kernel.program().walk()
    assert text[store.loc.start : store.loc.end].startswith("y[1] = 2.0")


# --- pipelines

PIPELINE = """import numpy as np
import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32

@vyre.program(workgroup=32)
def copied(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i]

@vyre.program(workgroup=32)
def increased(y: ReadWrite[f32]):
    i = vyre.global_id(0)
    if i < len(y):
        y[i] += 1.0

@vyre.pipeline
def pipeline(x: Read[f32], y: Write[f32]):
"""


@pytest.mark.parametrize(
    ("statements", "message", "place"),
    [
        ("m = vyre.buffer(f32, -5)", "buffer @m has -5 elements, which is below 0", "vyre.buffer(f32, -5)"),
        (
            "m = vyre.buffer(f32, (len(x), -2))",
            "buffer @m has -2 elements, which is below 0",
            "vyre.buffer(f32, (len(x), -2))",
        ),
        (
            "increased[1](y)",
            "increased reads y, which is Write, before anything writes it",
            "increased[1](y)",
        ),
        (
            "m = np.zeros_like(x)",
            "np.zeros_like computes in Python, before the pipeline runs",
            "np.zeros_like(x)",
        ),
        ("copied[np.size(x)](x, y)", "x is not known before the pipeline runs", "x"),
        ("n = sum(x) + 1", "x is not known before the pipeline runs", "x"),
        ("copied[len(x) if len(x) else 1](x, y)", "len(x) is not known before the pipeline runs", "len(x)"),
    ],
)
def test_a_wrong_pipeline(tmp_path: Path, statements: str, message: str, place: str) -> None:
    module = written_module(tmp_path, f"{PIPELINE}    {statements}\n    copied[1](x, y)\n", "pipelines")
    with pytest.raises(DiagnosticError) as caught:
        module.pipeline.text()
    error = caught.value.diagnostics[0]
    assert message in error.message
    assert error.loc is not None
    assert error.loc.source.text[error.loc.start : error.loc.end] == place


def test_what_a_launch_has_written_may_be_read(tmp_path: Path) -> None:
    body = "    copied[1](x, y)\n    for _ in range(2):\n        increased[1](y)\n"
    pipeline = written_module(tmp_path, PIPELINE + body, "written").pipeline
    y = np.zeros(32, np.float32)
    pipeline(X, y)
    assert np.array_equal(y, X + 2)


@pytest.mark.parametrize("passes", [3, [3], None, f32])
def test_passes_are_named(passes: Any) -> None:
    if passes is None:
        shift.options(passes=None)[1](0, X, X.copy())
    else:
        with pytest.raises(BadInputs, match="passes are a text, or a list of texts and passes"):
            shift.options(passes=passes)[1](0, X, X.copy())


def test_a_gpu_has_a_name() -> None:
    with pytest.raises(BadInputs, match="a GPU has a name, such as sm_90, and not 90"):
        shift.ptx(90)  # type: ignore[arg-type]


REMEDIES = [
    # a statement, the remedy
    ("y[i] = n * 0.5", "write f32(n)"),
    ("y[i] = 0.5 + n", "write f32(n)"),
    ("t = TABLE[i]", "pass it as an argument, TABLE: Read[f32]"),
    ("y[i] = x[vyre.lane_id]", "call it: vyre_opt.lane_id(0)"),
    ("print('x = %f' % a)", 'print(f"i={i} x={x[i]}")'),
    ("y[i] = x[0:64]", "make one value of it: vyre.sum(x[0:64])"),
    ("for k in range(4):\n        pass\n    else:\n        y[i] = 1.0", "set ended = True before the loop"),
    ("while n > 2:\n        pass\n    else:\n        y[i] = 1.0", "set ended = True before the loop"),
    ("s, *t = (1.0, 2.0)", "write the names"),
    ("for k in range(4):\n        t = x[i] * k", "write f32(k)"),
    ("for k in range(4):\n        y[i] = k", "write f32(k)"),
    ("s = 0.0\n    for k in range(4):\n        s += 0.5 * k", "write f32(k)"),
    ("y[i] = sum(x[k] for k in range(4))", "total = 0.0, and then for k in range(4): total += x[k]"),
    ("other[1](x)", "write @vyre.func in the place of @vyre.program above other, and other(x) here"),
    ("t = vyre.local(u32, (2, 2))\n    t[1] = 1", "write t[i, j]"),
    ("t = vyre.local(u32, 8)\n    t[8] = 1", "the last is 7"),
    (
        "t = vyre.local(u32, 8)\n    vyre.atomic_add(t, 0, 1)",
        "t[i] += v; one that they share is t = vyre.shared(u32, 8)",
    ),
    ("y[i] = Path(1).x", "class Path(NamedTuple)"),
    ("if n > 2:\n        t = 1.0\n    y[i] = t", "assign it before the if, or in both branches"),
]


def test_messages_say_what_to_write(tmp_path: Path) -> None:
    for number, (statement, remedy) in enumerate(REMEDIES):
        text = f"import numpy as np\nfrom pathlib import Path\nTABLE = np.ones(4, np.float32)\n{HEAD}    {statement}\n    y[i] = 1.0\n"
        module = written_module(tmp_path, text, f"remedy_{number}")
        with pytest.raises(DiagnosticError) as caught:
            module.kernel.text()
        help = caught.value.diagnostics[0].help
        assert help is not None, statement
        assert remedy in help, statement


FOLLOWED = [
    # what is wrong, where the message is, and what the kernel is as its remedy says
    (
        "k(x: Read[f32], y: Write[f32]):\n    t = vyre.shared(4, f32)",
        "vyre.shared(f32, 4)",
        "t[0] = x[1]; y[0] = t[0]",
    ),
    (
        "k(x: Read[f32], y: Write[f32]):\n    t = vyre.local(4, f32)",
        "vyre.local(f32, 4)",
        "t[0] = x[1]; y[0] = t[0]",
    ),
    (
        "k(x: Read[f32], y: Write[f32]):\n    y[0] = [1.0]",
        "vyre.local(f32, 8)",
        "t = vyre.local(f32, 8); t[0] = x[1]; y[0] = t[0]",
    ),
    ("k(x: Read[f32], y: Write[f32]):\n    y[0] = x[1].astype(u32)", "u32(x[1])", "y[0] = f32(u32(x[1]))"),
]


def test_remedies_can_be_followed(tmp_path: Path) -> None:
    head = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\n@vyre.program(workgroup=1)\ndef "
    x = np.array([7, 5], np.float32)
    for number, (wrong, remedy, followed) in enumerate(FOLLOWED):
        with pytest.raises(DiagnosticError) as caught:
            written_module(tmp_path, f"{head}{wrong}\n", f"wrong_{number}").k.text()
        assert remedy in str(caught.value.diagnostics[0].help)
        if remedy not in followed:
            followed = f"{wrong.splitlines()[1].split('=')[0]} = {remedy}; {followed}"
        y = np.zeros(1, np.float32)
        right = f"{head}k(x: Read[f32], y: Write[f32]):\n    {followed}\n"
        written_module(tmp_path, right, f"right_{number}").k[1](x, y)
        assert y[0] == 5


def test_an_array_is_not_enumerated(tmp_path: Path) -> None:
    head = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\n@vyre.program(workgroup=1)\ndef k(x: Read[f32], y: Write[f32]):\n    "
    with pytest.raises(DiagnosticError) as caught:
        written_module(
            tmp_path, f"{head}for i, v in enumerate(x):\n        y[i] = v\n", "enumerated"
        ).k.text()
    help = str(caught.value.diagnostics[0].help).removeprefix("write ")
    y = np.zeros(2, np.float32)
    written_module(tmp_path, f"{head}{help}; y[i] = v\n", "indexed").k[1](np.array([7, 5], np.float32), y)
    assert y.tolist() == [7, 5]


def test_a_product_with_a_row_is_told_as_a_sum(tmp_path: Path) -> None:
    head = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\n@vyre.program\ndef k(x: Read[f32[:, :]], v: Read[f32], y: Write[f32]):\n    y[0:4] = "
    x, v = np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(4, dtype=np.float32)
    forms = {
        "x[0:4, 0:4] @ v[0:4]": x @ v,
        "v[0:4] @ x[0:4, 0:4]": v @ x,
        "x[0:4, 0:4] @ v[0:4][:, None]": x @ v,
        "v[0:4][None, :] @ x[0:4, 0:4]": v @ x,
    }
    for number, (form, product) in enumerate(forms.items()):
        with pytest.raises(DiagnosticError) as caught:
            written_module(tmp_path, f"{head}{form}\n", f"product_{number}").k.text()
        help = re.match(r"write (vyre\.sum\(.*, axis=\d\)), a row", str(caught.value.diagnostics[0].help))
        assert help is not None, form
        y = np.zeros(4, np.float32)
        written_module(tmp_path, f"{head}{help[1]}\n", f"sum_{number}").k[1](x, v, y)
        assert np.array_equal(y, product), form


def test_a_read_and_a_write_that_are_declared_the_other_way_round_are_both_told(tmp_path: Path) -> None:
    head = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\n@vyre.program\ndef k(x: Read[f32], y: Write[f32]):\n    "
    with pytest.raises(DiagnosticError) as caught:
        written_module(tmp_path, f"{head}x[0] = y[0]\n", "other_way").k.text()
    assert [error.message for error in caught.value.diagnostics] == [
        "x is written here, but it is Read",
        "y is read here, but it is Write",
    ]


def test_a_method_is_no_kernel(tmp_path: Path) -> None:
    for decorator in ("program", "pipeline"):
        text = f"import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\nclass A:\n    @vyre.{decorator}\n    def k(self, y: Write[f32]):\n        pass\n"
        with pytest.raises(DiagnosticError) as caught:
            written_module(tmp_path, text, f"method_{decorator}")
        assert (
            caught.value.diagnostics[0].help
            == "a kernel is no method: define it outside of the class, without self"
        )


def test_a_pipeline_has_no_grid(tmp_path: Path) -> None:
    pipeline = written_module(tmp_path, PIPELINE + "    copied[1](x, y)\n", "without_grid").pipeline
    with pytest.raises(
        TypeError, match=r"pipeline is a pipeline, whose launches have their grids: call pipeline\(x, y\)"
    ):
        pipeline[1]


def test_wrong_calls_say_what_to_write() -> None:
    """Behind the message, as notes of Python."""
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'out'") as caught:
        shift[1](2, np.zeros(4, np.float32), out=1)
    assert caught.value.__notes__ == ["help: write y= for out=; it is shift(n, x, y)"]
    with pytest.raises(BadInputs, match="a grid is counted in whole workgroups") as counted:
        shift[0.5]
    with pytest.raises(TypeError, match="num_warps") as optioned:
        vyre_opt.program(num_warps=4)  # type: ignore[call-overload]
    assert optioned.value.__notes__ == [
        "help: it takes workgroup, grid, prefer_shared, cluster, fastmath; leave num_warps out"
    ]
    with pytest.raises(TypeError, match="not str") as decorated:
        vyre_opt.program("void(f4[:])")  # type: ignore[call-overload]
    assert decorated.value.__notes__ == [
        "help: write @program above def name(x: Read[f32], y: Write[f32]):, where annotations are the types"
    ]
    with pytest.raises(BadInputs, match=r"x is a list; pass np.array\(x, np.float32\)"):
        shift[1](2, [1.0] * 4, np.zeros(4, np.float32))
    with pytest.raises(
        BadInputs, match=r"y is written, which no list is; pass an array, y32 = np.array\(y, np.float32\)"
    ):
        shift[1](2, np.zeros(4, np.float32), [1.0] * 4)
    assert counted.value.__notes__ == [
        "help: write one to three whole numbers, such as shift[vyre.ceil_div(len(y), 32)](...)"
    ]


def test_a_block_beyond_the_edge_is_told_of_filled(tmp_path: Path) -> None:
    text = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n\n@vyre.program\ndef k(x: Read[f32], y: Write[f32]):\n    y[0:64] = x[0:64]\n"
    kernel = written_module(tmp_path, text, "block_beyond").k
    for target in ("ref", "cpu"):
        with pytest.raises(ProgramError) as caught:
            kernel.options(target=target)[1](np.zeros(40, np.float32), np.zeros(64, np.float32))
        assert caught.value.diagnostic.help == (
            "read x.filled(0)[...], which is 0 beyond the edge, or guard the access with a comparison against len(x)"
        )
