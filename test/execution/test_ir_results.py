"""What passes make of programs, kept in the cache: the same as they make now, or made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.generator import random_program

import vyre_opt
from vyre_opt import parse, print_program
from vyre_opt.execution.cache import ir_results
from vyre_opt.execution.cache.inventory import survey
from vyre_opt.execution.cache.ir_results import ir_result
from vyre_opt.execution.cache.store import Store, default_store
from vyre_opt.ir import Module
from vyre_opt.ir.ir_bytes import UnknownBytes, from_bytes, to_bytes
from vyre_opt.ir.program import NO_ATTRS
from vyre_opt.observers import OBSERVERS
from vyre_opt.targets.cpu import host

TEXT = """vyre 1
program @p workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  %two = const 2 : u32
  %w = mul %v, %two : u32
  store %w, @y[%i] : u32
}
"""


@pytest.fixture
def store(own_cache: Path, passes_run: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(ir_results, "is_enabled", True)
    monkeypatch.delenv("VYRE_REFUSED_RESULT", raising=False)
    return default_store()


def counted(result: Any) -> tuple[list[int], Callable[[], tuple[Any]]]:
    calls: list[int] = []

    def make() -> tuple[Any]:
        calls.append(1)
        return (result,)

    return calls, make


@pytest.mark.parametrize("seed", range(8))
def test_bytes_are_of_the_whole_module(seed: int) -> None:
    module = random_program(seed).module or Module()
    (copy,) = from_bytes(to_bytes(module))
    assert print_program(copy) == print_program(module)
    assert to_bytes(copy) == to_bytes(from_bytes(to_bytes(copy))[0])
    for old, new in zip(module.programs.values(), copy.programs.values(), strict=True):
        for mine, its in zip(old.walk(), new.walk(), strict=True):
            assert its is not mine
            assert its.definition is mine.definition
            assert (its.attrs is NO_ATTRS) == (mine.attrs is NO_ATTRS)
            assert [v.owner is its for v in its.results] == [True] * len(its.results)


def test_bytes_read_no_class_of_other_packages() -> None:
    import pickle

    with pytest.raises(UnknownBytes, match="of no program"):
        from_bytes(pickle.dumps((Path("x"),)))
    for damaged in (b"", b"\x80", to_bytes(parse(TEXT))[:-20], pickle.dumps([1])):
        with pytest.raises(UnknownBytes):
            from_bytes(damaged)


def test_what_is_made_depends_on_all_that_it_is_made_of(store: Store) -> None:
    """Another text, place, option or name of what makes it is another entry."""
    base = TEXT, "passes", "cse"
    others = [
        (TEXT.replace("const 2", "const 3"), "passes", "cse"),
        (TEXT.replace("  %two", "    %two"), "passes", "cse"),
        (TEXT.replace("%w", "%ww"), "passes", "cse"),
        (TEXT, "legalize", "cse"),
        (TEXT, "passes", "dce"),
    ]
    calls, make = counted(1)
    for _ in range(2):
        assert ir_result(store, base[1], base[2], (parse(base[0]),), make) == (1,)
    assert len(calls) == 1
    for number, (text, what, options) in enumerate(others, 2):
        ir_result(store, what, options, (parse(text),), make)
        assert len(calls) == number


def test_what_cannot_be_read_is_made_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, make = counted(7)
    ir_result(store, "passes", "", (1,), make)
    monkeypatch.setattr(store, "get", lambda key, kind: b"damaged, and yet sealed")
    assert ir_result(store, "passes", "", (1,), make) == (7,)
    assert len(calls) == 2


def test_what_has_no_bytes_is_made_each_time(store: Store) -> None:
    calls, make = counted(lambda: None)
    for part in (1, lambda: None):
        for _ in range(2):
            ir_result(store, "passes", "", (part,), make)
    assert len(calls) == 4


def test_observers_hear_of_passes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, make = counted(1)
    for _ in range(2):
        with monkeypatch.context() as observed:
            observed.setattr(ir_results, "OBSERVERS", [object()])
            ir_result(store, "passes", "", (1,), make)
    assert len(calls) == 2
    assert OBSERVERS == []


@pytest.mark.parametrize("passes", [None, "default", "cse,dce", "canonicalize, cse"])
def test_a_second_compilation_gives_what_the_first_did(store: Store, passes: str | None) -> None:
    x = np.arange(64, dtype=np.uint32)
    made = [vyre_opt.compile(TEXT, passes=passes) for _ in range(2)]
    results = [each({"x": x}, 2, lengths={"y": 64})["y"].tolist() for each in made]
    assert results[0] == results[1] == (2 * x).tolist()
    assert print_program(made[0].module) == print_program(made[1].module)
    assert survey(store).kinds["ir"][0] >= 1


def test_faults_show_the_text_of_the_call(store: Store) -> None:
    """Guards against places of an equal program elsewhere."""
    x, said = np.zeros(32, np.uint32), []
    for text in (TEXT, "// a line more\n" + TEXT.replace("vyre 1\n", "vyre 1\n\n"), TEXT):
        with pytest.raises(vyre_opt.ProgramError) as error:
            vyre_opt.run(text, {"x": x}, 2, lengths={"y": 32}, passes="default")
        said.append(str(error.value).partition(": error")[0])
    assert said == ["<string>:6:3", "<string>:8:3", "<string>:6:3"]


@pytest.mark.parametrize("passes", ["no_such_pass", "cse dce", "cse,", "legalize_nothing"])
def test_wrong_passes_are_errors_at_once(store: Store, passes: str) -> None:
    for _ in range(2):
        with pytest.raises(vyre_opt.BadInputs):
            vyre_opt.compile(TEXT, passes=passes)


def test_names_of_the_machine_are_of_this_start_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    names = host._Names("a cpu", "+one,-two", "some-triple", "e-m:e")

    def of_llvm() -> host._Names:
        asked.append(1)
        return names

    monkeypatch.setattr(host, "_names_of_llvm", of_llvm)
    for number, identity in enumerate((b"boot 1", b"boot 1", b"boot 2", None, None)):
        monkeypatch.setattr(host, "_identity", lambda identity=identity: identity)
        assert host._stored_names(store) == names
        assert len(asked) == (1, 1, 2, 3, 4)[number]
    monkeypatch.setattr(host, "_identity", lambda: b"boot 1")
    monkeypatch.setattr(host, "llvm_version", lambda: "another llvmlite")
    host._stored_names(store)
    assert len(asked) == 5
