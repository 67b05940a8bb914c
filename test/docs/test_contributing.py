"""CONTRIBUTING's checklists, followed to the letter in a copy of the checkout: what they add works.

The tables here hold what a contributor writes for each item, under the item's first words.  The file it
goes to is taken from the item: of the files that it names, the only one that has the line to insert before.
So an item that is added, reworded or removed fails, and so does one that names the wrong file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import pytest

from vyre_opt.passes import registry

ROOT = Path(__file__).resolve().parents[2]
TOP = (
    "vyre_opt",
    "grammar",
    "editors",
    "test",
    "docs",
    "bench",
    "examples",
    "pyproject.toml",
    "Makefile",
    "CHANGELOG.md",
)
"""What of the checkout the copy holds: all that the checklists name, and what runs the tests of it."""


@dataclass(frozen=True)
class Item:
    """One `- [ ]` of a checklist, as one line; `name` is that of the op, pass or kernel being added."""

    text: str
    name: str

    @property
    def spans(self) -> list[str]:
        return [span.replace("NAME", self.name) for span in re.findall(r"`([^`]+)`", self.text)]

    @property
    def paths(self) -> list[str]:
        return [span for span in self.spans if re.fullmatch(r"[\w.]+/[\w./]*|[A-Z]+\.md", span)]

    @property
    def commands(self) -> list[str]:
        return [span for span in self.spans if span.startswith("python docs/")]


class Checkout:
    """A copy of the checkout, whose commands run its own code."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: list[Path] = []
        """Files that were not there before."""
        self.tests: list[str] = []
        """Files of tests to run; all together, since pytest takes a second to begin."""
        for name in TOP:
            if (ROOT / name).is_dir():
                # With the byte code, which spares each of the commands a second.
                shutil.copytree(ROOT / name, root / name)
            else:
                shutil.copy2(ROOT / name, root / name)

    def run(self, *command: object) -> str:
        """What a Python command prints; the test fails if it does."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=self.root, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.fail(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout

    def tool(self, name: str, *arguments: object) -> str:
        """What `vyre-opt` or `vyre-run` prints; `name` is opt or run."""
        return self.run("-c", f"from vyre_opt.cli.{name} import main; main()", *arguments)

    def run_tests(self, selected: str) -> None:
        """Run the tests that were asked for, of which `-k selected` tell the ones that see what is new."""
        written = [path for path in self.written if path.name.startswith("test_")]
        self.run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *self.tests, *written, "-k", selected)


# --- what an item may ask for; each takes the copy and the item


Step = Callable[[Checkout, Item], None]


def insert(before: str, text: str) -> Step:
    """Put lines before the one that begins with `before`, in the file of the item that has it.

    The item names that file, its folder, or speaks of what an item before it had written.
    """

    def step(checkout: Checkout, item: Item) -> None:
        files = dict.fromkeys(checkout.written)
        for path in (checkout.root / name for name in item.paths):
            files |= dict.fromkeys(path.glob("*.py") if path.is_dir() else [path])
        matches = []
        for file in files:
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            matches += [(file, lines, n) for n, line in enumerate(lines) if line.lstrip().startswith(before)]
        assert len(matches) == 1, f"no file, or several, with {before!r} for: {item.text}"
        file, lines, number = matches[0]
        margin = re.match(" *", lines[number])
        assert margin is not None
        lines.insert(number, indent(dedent(text).lstrip("\n"), margin[0]))
        file.write_text("".join(lines), encoding="utf-8")

    return step


def new_file(name: str, text: str) -> Step:
    """Write a file in the folder named by the item, or the file itself if the item names it."""

    def step(checkout: Checkout, item: Item) -> None:
        (place, *_) = [path for path in item.paths if path.endswith(name) or (checkout.root / path).is_dir()]
        file = checkout.root / place if place.endswith(name) else checkout.root / place / name
        assert not file.exists(), file
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        checkout.written.append(file)

    return step


def queue_tests(checkout: Checkout, item: Item) -> None:
    """Have the test files that the item names run at the end, as those are that were written."""
    checkout.tests += [path for path in item.paths if path.endswith(".py")]


def lit_test(checkout: Checkout, item: Item) -> None:
    """Run the lit tests that the item names."""
    checkout.run("-c", "from lit.main import main; main()", "-q", *item.paths)


def makefile_targets_exist(checkout: Checkout, item: Item) -> None:
    makefile = (checkout.root / "Makefile").read_text(encoding="utf-8")
    targets = [span.split()[1] for span in item.spans if span.startswith("make ")]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def changelog(checkout: Checkout, item: Item) -> None:
    """Name what is new in the file's first list."""
    (path,) = (checkout.root / name for name in item.paths)
    head, bullet, rest = path.read_text(encoding="utf-8").partition("\n- ")
    path.write_text(f"{head}{bullet}`{item.name}`.{bullet}{rest}", encoding="utf-8")


def made_page(checkout: Checkout, item: Item) -> None:
    """Run the item's `python SCRIPT > PAGE`; the page then tells of what is new."""
    (command,) = item.commands
    script, page = re.fullmatch(r"python (\S+) > (\S+)", command).groups()  # type: ignore[union-attr]
    path = checkout.root / page
    assert item.name not in path.read_text(encoding="utf-8")
    path.write_text(checkout.run(script), encoding="utf-8")
    assert item.name in path.read_text(encoding="utf-8")


def made_for_editors(checkout: Checkout, item: Item) -> None:
    """Run the item's scripts; stubs then have what is new."""
    for command in item.commands:
        checkout.run(command.removeprefix("python "))
    stubs = [path.read_text(encoding="utf-8") for path in (checkout.root / "vyre_opt").glob("*/*.pyi")]
    assert any(item.name.rpartition(".")[2] in stub for stub in stubs)


def named_files_exist(checkout: Checkout, item: Item) -> None:
    """For an item whose condition does not hold here."""
    assert item.paths
    for path in item.paths:
        assert (checkout.root / path).exists(), path


def tables_have_splat(checkout: Checkout, item: Item) -> None:
    """For a list of what an op written like no other needs: such an op, `splat`, is in each file named."""
    named_files_exist(checkout, item)
    for path in item.paths:
        assert not path.endswith(".py") or '"splat"' in (checkout.root / path).read_text(encoding="utf-8"), (
            path
        )


def checklist(title: str, name: str) -> list[Item]:
    """The items of a section of CONTRIBUTING.md."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    items = re.findall(r"^- \[ \] (.*(?:\n  .*)*)", sections[title], re.MULTILINE)
    return [Item(" ".join(text.split()), name) for text in items]


def follow(title: str, name: str, steps: Mapping[str, Sequence[Step]], checkout: Checkout) -> None:
    """Do what each item of a section asks for, in the page's order."""
    items = checklist(title, name)
    for item in items:
        beginnings = [words for words in steps if item.text.startswith(words)]
        assert len(beginnings) == 1, f"no steps here, or two kinds of them, for: {item.text}"
        for step in steps[beginnings[0]]:
            step(checkout, item)
    assert len(items) == len(steps), "steps for an item that the page does not have"


# --- add an op: the mean of two integers, rounded down, which no sum of them may overflow

OP: dict[str, Sequence[Step]] = {
    "Add a row to": [
        insert(
            '_row("mul_hi"',
            """
            _row("average", "binary", "(a + b) / 2, rounded down, without overflow.", _int, commutative=True,
                 fold_int=lambda a, b, t: arith.average(a, b), since=2)
            """,
        )
    ],
    "Give its meaning on single values": [
        insert(
            "def saturate(",
            """
            def average(a: int, b: int) -> int:
                return (a + b) >> 1


            """,
        )
    ],
    "Give its meaning on arrays": [
        insert('"mul_hi":', '"average": lambda a, b, dtype: (a & b) + ((a ^ b) >> 1),\n')
    ],
    "Lower it to LLVM": [
        insert(
            "def product(",
            '''
            def average(self, a: str, b: str) -> str:
                """The bits that both have, and half of those that one has."""
                both = self.emit(f"and {self.kind} {a}, {b}")
                one = self.emit(f"xor {self.kind} {a}, {b}")
                return self.emit(f"add {self.kind} {both}, {self.shr(one, self.int(1))}")

            ''',
        ),
        insert('"mul_hi":', '"average": Elementwise.average,\n'),
    ],
    "Write its meaning once more": [
        insert(
            '"mul_hi":',
            '"average": lambda t, a, b: _low_bits(t, (_extended(t, a, 1) + _extended(t, b, 1)) >> 1),\n',
        )
    ],
    "Give it a form in MLIR": [
        insert(
            "def _through_f32(",
            """
            def _average(code: Code, dtype: DataType, a: str, b: str) -> str:
                kind = mlir_type(dtype)
                both, one = code.op("arith.andi", kind, a, b), code.op("arith.xori", kind, a, b)
                half = code.op(f"arith.shr{_sign(dtype)}i", kind, one, code.integer(1, kind))
                return code.op("arith.addi", kind, both, half)


            """,
        ),
        insert('"mul_hi":', '"average": _average,\n'),
    ],
    "If it is a function of its operands": [insert('"add sub mul div', '"average "\n')],
    "Describe the function that kernels": [
        insert(".. autofunction:: mul_hi", ".. autofunction:: average\n\n")
    ],
    "Add the words that other languages": [
        insert('("CUDA", "__popc __popcll"', '("OpenCL", "hadd", "average %i, %j : u32"),\n')
    ],
    "Prove what the lowerings write": [makefile_targets_exist],
    "Test it in": [
        new_file(
            "test_ref_average.py",
            '''
            import numpy as np


            def test_average(ref):
                """Between neighbours down, towards -infinity; at the ends of the type without overflow."""
                text = """vyre 2
                program @p workgroup(1) {
                  buffer @a : i8[?] read binding(0)
                  buffer @b : i8[?] read binding(1)
                  buffer @r : i8[?] write binding(2)
                  %g = global_id x
                  %a = load @a[%g] : i8
                  %b = load @b[%g] : i8
                  %r = average %a, %b : i8
                  store %r, @r[%g] : i8
                }"""
                a, b = np.array([127, -128, -128, 127, -1, 0], np.int8), np.array([127, -128, 127, 126, 0, 3], np.int8)
                (r,) = ref(text, [a, b, np.zeros(6, np.int8)], 6)
                assert r.tolist() == [127, -128, -1, 126, -1, 1]
            ''',
        ),
    ],
    "Run the tests that take each op": [queue_tests],
    "Run `python docs/ops_page.py": [made_page],
    "Run `python docs/highlighters.py`": [made_for_editors],
    "Add a line to": [changelog],
}
NEW_FORM: dict[str, Sequence[Step]] = {
    "The syntax in": [named_files_exist],
    "A row of FORMATS": [tables_have_splat],
    "A row of SYNTAX": [tables_have_splat],
    "A text that goes wrong": [named_files_exist],
    "What runs it": [tables_have_splat],
    "Samples of it": [tables_have_splat],
    "The semantics in": [named_files_exist],
}
"""The new op needs none of these, since it is written as others are."""


# --- add a rewrite rule: a rotation of nothing but ones

RULE: dict[str, Sequence[Step]] = {
    "Add `pattern(...)`": [
        insert(
            '@rule("fma")',
            """
            add(
                pattern(
                    op.rotl(-1, "x"), -1, types="signed",
                    name="_rotated_ones", doc="-1 rotated = -1.",
                )
            )  # fmt: skip


            """,
        )
    ],
    "If `test/support/rules/identity_patterns.py` does": [named_files_exist],
    "Show in": [
        insert(
            "// Signed division by a power",
            """
            // CHECK-LABEL: program @rotation
            program @rotation workgroup(64) {
              buffer @x : i32[64] read_write binding(0) live_in live_out
              %i = local_id x
              %v = load @x[%i] : i32
              %ones = const -1 : i32
              %r = rotl %ones, %v : i32
              // CHECK: %r = const -1 : i32
              store %r, @x[%i] : i32
            }

            // -----
            vyre 1

            """,
        ),
        lit_test,
    ],
    "Run the proofs": [queue_tests, makefile_targets_exist],
    "Add a line to": [changelog],
}


# --- add a pass: one that takes the fastmath flags off every op

PASS: dict[str, Sequence[Step]] = {
    "Write `vyre_opt/passes/": [
        new_file(
            "strip_fastmath.py",
            '''
            """No fastmath: each op on floats gives what the language says without flags."""

            from __future__ import annotations

            from dataclasses import dataclass

            from ..ir.program import Module
            from .manager import PassContext
            from .registry import Pass, register


            @register
            class StripFastmath(Pass):
                name = "strip_fastmath"
                summary = "Take the fastmath flags off every op."
                takes_type_parameters = True
                per_item = True

                @dataclass(frozen=True)
                class Options:
                    keep: str = ""

                def run(self, module: Module, ctx: PassContext) -> bool:
                    changed = False
                    for item in ctx.items(module):
                        for op in item.walk():
                            flags = op.attrs.get("fastmath", ())
                            rest = tuple(flag for flag in flags if flag == self.options.keep)
                            if rest != flags:
                                op.attrs = {"fastmath": rest} if rest else {}
                                changed = True
                    return changed
            ''',
        )
    ],
    "Declare": [insert("takes_type_parameters =", 'preserves = ("footprints",)\n')],
    "Add the name to `BUILTIN`": [insert('"tune",', '"strip_fastmath",\n')],
    "Say each decision": [
        insert(
            "changed = True",
            'ctx.remark("applied", f"{op.name} is without {flags[0]}", op.loc, flags=flags)\n',
        ),
        insert("rest = tuple", 'ctx.debug("{} has {} flags", op, len(flags), loc=op.loc)\n'),
    ],
    "Add a row to `SAYS`": [
        insert('"unroll": (BARRIERS', '"strip_fastmath": (VECTORS, r"%s = add %a, %b has 0 flags"),\n'),
        queue_tests,
    ],
    "Write `test/lit/passes/": [
        new_file(
            "strip_fastmath.vyre",
            """
            // Guards that flags go and ops stay, and that those to keep stay.
            // RUN: vyre-opt --pass='strip-fastmath{keep=nnan}' --remarks %s 2>&1 | filecheck %s

            vyre 1

            program @p workgroup(64) {
              buffer @y : f32[64] read_write binding(0) live_in live_out
              %g = local_id x
              %v = load @y[%g] : f32
              // CHECK: [strip_fastmath] applied: mul is without nsz
              // CHECK: %a = add %v, %v fastmath<nnan> : f32
              // CHECK-NEXT: %m = mul %a, %v : f32
              %a = add %v, %v fastmath<nnan> : f32
              %m = mul %a, %v fastmath<nsz> : f32
              store %m, @y[%g] : f32
            }
            """,
        ),
        lit_test,
    ],
    "Write a differential test": [
        new_file(
            "test_strip_fastmath.py",
            """
            import pytest
            from support import random_program
            from support.properties import check_pipeline


            @pytest.mark.parametrize("seed", range(3))
            def test_keeps_random_programs(seed):
                check_pipeline(random_program(seed), "strip_fastmath")
            """,
        ),
    ],
    "If it rests on a proof": [named_files_exist, makefile_targets_exist],
    "Run `python docs/": [made_page],
    "Add a line to": [changelog],
}


# --- add a kernel: a number added to each element

KERNEL: dict[str, Sequence[Step]] = {
    "Add a row with": [
        insert(
            '_kernel("math.matvec_fixed"',
            """
            _kernel("math.offset", "y = x + amount, modulo 2^32.", "x:read y:write", {"amount": None},
                    {"x": _U32, "y": _U32},
                    "lanes", shapes={"x": "length", "y": ">= length"}, since=2)
            """,
        )
    ],
    "Write `vyre_opt/kernels/": [
        new_file(
            "offset.py",
            '''
            """math.offset: y = x + amount, an element a lane at a time."""

            from __future__ import annotations

            from dataclasses import dataclass
            from functools import lru_cache

            from ..ir.builder import Builder
            from ..ir.program import Program
            from ..ir.types import DataType


            @dataclass(frozen=True)
            class OffsetSchedule:
                lanes: int = 256


            @lru_cache(maxsize=64)
            def offset(amount: int, schedule: OffsetSchedule = OffsetSchedule()) -> Program:
                """The program `offset`: @x, @y, u32; right for every grid."""
                b = Builder("offset", workgroup=schedule.lanes)
                x = b.buffer("x", DataType.U32, None, "read", 0)
                y = b.buffer("y", DataType.U32, None, "write", 1, live_out=True)
                with b.for_(b.global_id("x"), b.len(x), b.global_size("x")) as loop:
                    b.store(b.add(b.load(x, loop.index), amount), y, loop.index)
                return b.finish(verify=False)
            ''',
        ),
    ],
    "Declare all else": [
        new_file(
            "named/offset.py",
            '''
            """math.offset: y = x + amount."""

            from __future__ import annotations

            from .. import offset as k
            from ..expansion import Expansion, ExpansionRequest
            from .kernel import LANES, Array, NamedKernel


            class Offset(NamedKernel):
                name = "math.offset"
                gpu = ({"lanes": LANES},)

                def expand(self, r: ExpansionRequest) -> Expansion:
                    schedule, count = r.at(k.OffsetSchedule()), r.count(0)
                    grid = None if count is None else max(1, -(-count // schedule.lanes))
                    return Expansion(r.build(k.offset, r.params["amount"], schedule), schedule, grid)

                def reference(self, x: Array, amount: int) -> Array:
                    return x + x.dtype.type(amount)
            ''',
        ),
    ],
    "Add its uses": [
        new_file(
            "offset.py",
            '''
            """math.offset."""

            from __future__ import annotations

            from collections.abc import Iterator

            import numpy as np

            from vyre_opt.kernels.offset import OffsetSchedule, offset

            from .case import KernelCase, Use


            def offset_cases() -> Iterator[KernelCase]:
                for count in (1, 100):
                    yield KernelCase("math.offset", f"{count}", lambda count=count: _use(count))


            def _use(count: int) -> Use:
                x = np.arange(2**32 - 5, 2**32 - 5 + count).astype(np.uint32)
                expected = np.array([(v + 7) % 2**32 for v in x.tolist()], np.uint32)
                return Use(offset(7, OffsetSchedule(32)), [x, np.zeros_like(x)], 2, expected)
            ''',
        ),
        insert("from .scan import", "from .offset import offset_cases\n"),
        insert("prefix_cases,", "offset_cases,\n"),
        queue_tests,
    ],
    "Add a text that uses it": [
        insert(
            '"math.matvec_fixed": ("", [',
            '"math.offset": ("{amount = 7}", [("u32", words(700))], "u32", 700),\n',
        ),
        insert('"math.matvec_fixed": (331,', '"math.offset": (701, 699),\n'),
        insert('"math.matvec_fixed": ({}, [', '"math.offset": ({"amount": 1}, [MOST, MOST]),\n'),
        insert("from vyre_opt.kernels.scan import", "from vyre_opt.kernels.offset import OffsetSchedule\n"),
        insert('"math.matvec_fixed": (Mat', '"math.offset": (OffsetSchedule,),\n'),
        queue_tests,
    ],
    "Run `python docs/ops_page.py": [made_page],
    "Run `python docs/op_stubs.py`": [made_for_editors],
    "Add a line to": [changelog],
}


# --- add a function on arrays: how far the numbers of a row lie apart

FUNCTION: dict[str, Sequence[Step]] = {
    "Write it": [
        new_file(
            "row_range.py",
            '''
            """row_range of rows."""

            from __future__ import annotations

            from typing import Annotated, Any

            import vyre_opt as vyre

            from ..driver.operands import A, DispatcherLike, Like
            from ..lang import Read, Write, f32
            from .on_rows import Element, RowsCall, as_line, as_rows, on_rows

            __all__ = ["row_range"]


            @vyre.program
            def range_of_rows(x: Read[Annotated[Element, :, :]], y: Write[f32]) -> None:
                r = vyre.workgroup_id(0)
                row = f32(x[r, :])
                y[r] = vyre.max(row) - vyre.min(row)


            @on_rows("row_range", "x")
            def _row_range(call: RowsCall) -> None:
                y = call.result(call.shape, "float32")
                call.launch(range_of_rows, call.rows, as_rows(call["x"]), as_line(y))


            def row_range(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Like[A]:
                """Largest minus smallest number along the last axis.

                Args:
                    x: (..., columns) of f32, f16 or bf16, computed in f32.
                    dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
                    out: an array of f32 that gets the result, and is returned.

                Returns:
                    An array of f32 of shape (...), of the library and memory of `x`.

                Raises:
                    BadInputs: for other types or shapes, before anything runs.

                Example:
                    >>> kernels.row_range(np.array([[1, 4]], np.float32)).tolist()
                    [3.0]
                """
                y: A = _row_range((x,), dispatcher, out)[0]
                return y
            ''',
        )
    ],
    "Add a row to `_EXPORTS`": [insert('"softmax": ', '"row_range": "vyre_opt.row_kernels.row_range",\n')],
    "Describe it": [
        insert(".. autofunction:: log_sum_exp", ".. autofunction:: row_range\n\n"),
        insert("`matmul`, `tt_chain`", "`row_range`,\n"),
    ],
    "If NumPy or torch have": [named_files_exist],
    "Test it against NumPy": [
        new_file(
            "test_row_range.py",
            """
            import numpy as np

            from vyre_opt import kernels


            def test_row_range():
                x = np.random.default_rng(1).standard_normal((3, 70)).astype(np.float32)
                np.testing.assert_array_equal(kernels.row_range(x), np.ptp(x, -1))
                assert kernels.row_range(x[:0]).shape == (0,)
            """,
        )
    ],
    "Measure it": [
        insert('"log_sum_exp": {', '"row_range": {"numpy": lambda x: np.ptp(x, -1)},\n'),
        insert('"log_sum_exp": Function', '"row_range": Function(4, _square, _rectangle, _of_rows, 1e-5),\n'),
    ],
    "Run `python docs/op_stubs.py`": [made_for_editors],
    "Run the tests that take each function": [queue_tests],
    "Add a line to": [changelog],
}


# --- what comes of it


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy in which each of the checklists was followed."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    follow("Add an op", "average", {**OP, **NEW_FORM}, checkout)
    follow("Add a rewrite rule", "_rotated_ones", RULE, checkout)
    follow("Add a pass", "strip_fastmath", PASS, checkout)
    follow("Add a kernel", "offset", KERNEL, checkout)
    follow("Add a function on arrays", "row_range", FUNCTION, checkout)
    return checkout


@pytest.mark.campaign
def test_tests_of_what_is_new_pass(checkout: Checkout) -> None:
    """Some 8 s, since it is a run of pytest in a copy of the tree.

    The op on ref, and lowered for this machine; random programs before and after the pass; the kernel on
    ref and cpu, as it is and expanded; and the tests that no op, kernel or schedule is left out of a table."""
    checkout.run_tests(
        "average or integer_ops or strip_fastmath or offset or every_kernel or op_table or rules_on_bytes or op_coverage or "
        "version_1 or is_up_to_date or public_names or row_range or every_function"
    )


PROGRAMS = """vyre 2

program @averages workgroup(32) {
  buffer @y : u32[32] write binding(0) live_out
  %i = local_id x
  %high = const 4294967295 : u32
  %mean = average %i, %high : u32
  store %mean, @y[%i] : u32
}

program @offsets workgroup(32) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  math.offset(@x, @y) {amount = 5}
}
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    path = tmp_path / "programs.vyre"
    path.write_text(PROGRAMS)
    return path


def test_the_op_and_the_kernel_run_on_cpu_as_on_ref(checkout: Checkout, programs: Path) -> None:
    launch = (programs, "--grid=1", "--target=cpu", "--check-against=ref")
    averages = checkout.tool("run", *launch, "--entry=averages")
    assert "= 2147483647 2147483648 2147483648 2147483649 2147483649" in averages
    x = programs.with_name("x.npy")
    np.save(x, np.arange(64, dtype=np.uint32))
    assert "= 5 6 7 8 9 10 11 12" in checkout.tool("run", *launch, "--entry=offsets", "--in", f"x={x}")


def test_the_op_and_the_kernel_become_ptx(checkout: Checkout, programs: Path) -> None:
    ptx = checkout.tool("opt", programs, "--pass=expand_kernels", "--emit=ptx", "--target=sm_90")
    averages, offsets = ptx.split(".visible .entry")[1:]
    assert "shr.u32" in averages
    assert re.search(r"add\.s32 \s*%r\d+, %r\d+, 5;", offsets)


def test_every_builtin_pass_has_its_file() -> None:
    """As the checklist says of a new one."""
    for name in (*registry.BUILTIN, *registry.LEGALIZATIONS):
        assert (ROOT / "vyre_opt/passes" / f"{name}.py").exists() or name in registry.ELSEWHERE, name
        assert registry.find_pass(name).name == name
