"""Objects linked into this process, and run: against LLVM's own linker, and for what must not happen."""

from __future__ import annotations

import ctypes
import gc
import mmap
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from support.generator import random_program
from support.linked_objects import EVERYTHING, compiled
from support.sample import random_inputs

from vyre_opt.linker import layout, library
from vyre_opt.linker.elf import LinkError
from vyre_opt.linker.library import can_link, link
from vyre_opt.targets.cpu import compiler, linking
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TRIPLE = f"{platform.machine()}-unknown-linux-gnu"
WORD_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
VARIABLE, FUNCTION = ctypes.c_int64(1000), WORD_FUNCTION(lambda n: 10 * n)

pytestmark = pytest.mark.skipif(not can_link(), reason="objects of other systems are linked by LLVM")


@pytest.fixture
def addresses() -> dict[str, int]:
    """A variable and a function of this process that the objects of these tests use."""
    return {
        "far_variable": ctypes.addressof(VARIABLE),
        "far_function": ctypes.cast(FUNCTION, ctypes.c_void_p).value or 0,
    }


def pages(address: int) -> tuple[int, int, str] | None:
    """The mapping of this process that an address is in: its start, its end, and what may be done there."""
    with open("/proc/self/maps") as file:
        for line in file:
            bounds, access, *_ = line.split()
            start, end = (int(each, 16) for each in bounds.split("-"))
            if start <= address < end:
                return start, end, access
    return None


def test_code_calls_reads_and_writes_what_it_names(addresses: dict[str, int]) -> None:
    made = link(compiled(EVERYTHING, TRIPLE), ["all", "jump", "count", "sizes"], addresses)
    call = {name: WORD_FUNCTION(made[name]) for name in ("all", "jump", "count", "sizes")}
    # 3.5 * 4.25 = 14.875: 14 twice, once times 10, and the variable
    assert call["all"](2) == 1000 + 140 + 14
    assert call["jump"](4) == 40
    assert [call["count"](0) for _ in range(3)] == [8, 9, 10]
    assert call["sizes"](0) == 0


def test_two_links_of_an_object_share_nothing(addresses: dict[str, int]) -> None:
    first, second = (link(compiled(EVERYTHING, TRIPLE), ["count"], addresses) for _ in range(2))
    assert [WORD_FUNCTION(each["count"])(0) for each in (first, second, first)] == [8, 8, 9]


def test_functions_of_the_process_are_found_by_name() -> None:
    text = "declare double @cos(double)\n"
    text += "define double @f(double %x) {\n  %y = call double @cos(double %x)\n  ret double %y\n}\n"
    made = link(compiled(text, TRIPLE), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(made["f"])(1.0) == np.cos(1.0)


def test_no_page_is_writable_and_code(addresses: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at while pages change, too: whatever else of the process has such pages, as ctypes has."""
    seen: list[str] = []
    protect = library._protect

    def watched(base: int, size: int, access: int) -> None:
        for change in (lambda: None, lambda: protect(base, size, access)):
            change()
            mapping = pages(base)
            assert mapping is not None
            seen.append(mapping[2])

    monkeypatch.setattr(library, "_protect", watched)
    made = link(compiled(EVERYTHING, TRIPLE), ["all"], addresses)
    assert seen == ["rw-p", "r-xp", "rw-p", "r--p", "rw-p", "rw-p"]
    found = pages(made["all"])
    assert found is not None
    assert found[2] == "r-xp"


def test_pages_go_after_the_library() -> None:
    """At the next link, since the end of a library runs no code of Python."""
    object_file = compiled("define void @f() {\n  ret void\n}\n", TRIPLE)
    made = link(object_file, ["f"])
    start = made["f"] & -mmap.PAGESIZE
    assert start in {base for _, base, _ in library._mapped.values()}
    reference = ref(made)
    del made
    gc.collect()
    assert reference() is None
    with pytest.raises(LinkError):
        link(b"", ["f"])
    assert start not in {base for _, base, _ in library._mapped.values()}
    assert pages(start) is None


def test_many_links_take_no_more_memory_than_one() -> None:
    object_file = compiled("define void @f() {\n  ret void\n}\n", TRIPLE)
    mapped = len(library._mapped)  # by the tests before
    for _ in range(200):
        link(object_file, ["f"])
    assert len(library._mapped) <= mapped + 2
    assert sum(reference() is None for reference, *_ in library._mapped.values()) <= 1


def test_names_that_nothing_has() -> None:
    text = (
        "declare void @nobody_has_this()\ndefine void @f() {\n  call void @nobody_has_this()\n  ret void\n}\n"
    )
    mapped = len(library._mapped)
    with pytest.raises(LinkError, match="nothing is named nobody_has_this"):
        link(compiled(text, TRIPLE), ["f"])
    with pytest.raises(LinkError, match="no @g"):
        link(compiled("define void @f() {\n  ret void\n}\n", TRIPLE), ["g"])
    assert len(library._mapped) <= mapped


def test_an_object_for_another_machine() -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    with pytest.raises(LinkError, match="another machine"):
        link(compiled("define void @f() {\n  ret void\n}\n", f"{other}-unknown-linux-gnu"), ["f"])


def test_what_is_not_known_is_linked_by_llvm(
    addresses: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    object_file = compiled(EVERYTHING, TRIPLE)
    monkeypatch.setattr(layout, "KINDS", {machine: {} for machine in layout.KINDS})
    with pytest.raises(LinkError, match="unknown kind"):
        link(object_file, ["all"], addresses)
    made = linking.link(object_file, ["all"], addresses)
    assert WORD_FUNCTION(made["all"])(2) == 1000 + 140 + 14


@pytest.mark.parametrize("seed", range(3))
def test_programs_give_what_they_give_under_llvms_linker(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = random_program(seed)
    inputs = random_inputs(sample.program, sample.grid, seed)
    linked: list[str] = []
    monkeypatch.setattr(
        linking.own_linker,
        "link",
        lambda *args: (linked.append("own"), link(*args))[1],
    )

    def outputs() -> list[Any]:
        compiler._LOADED.clear()
        return CpuDispatcher(1, 1, cache=False).dispatch(
            sample.program, inputs, sample.grid, module=sample.module
        )

    own = outputs()
    assert linked
    with monkeypatch.context() as other:
        other.setattr(linking.own_linker, "can_link", lambda: False)
        llvms = outputs()
    compiler._LOADED.clear()
    for mine, theirs in zip(own, llvms, strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_code_stays_mapped_while_the_process_ends() -> None:
    """Guards against a thread that is still in code whose pages go when the modules of Python are taken down."""
    script = """
import threading, time, sys
sys.path.insert(0, sys.argv[1])
import ctypes
from support.linked_objects import compiled
from vyre_opt.linker.library import link
text = "define void @f() {\\nentry:\\n  br label %l\\nl:\\n  br label %l\\n}\\n"
made = link(compiled(text, sys.argv[2], 0), ["f"])
call = ctypes.CFUNCTYPE(None)(made["f"])
threading.Thread(target=call, daemon=True).start()
time.sleep(0.1)
"""
    folder = str(Path(__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", script, folder, TRIPLE], capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
