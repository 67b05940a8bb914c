"""Keys of compiled code hold all that the code is made of: whatever is changed, the key or the snapshot is another.

The tables have a change for each field, so a field without one fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each

import vyre_opt
from vyre_opt import ProgramError, dispatcher, parse
from vyre_opt.execution.cache import keys
from vyre_opt.execution.signatures import signature_of
from vyre_opt.ir import AccessMode, Block, Buffer, DataType, Module, Op, Param, Program, Value
from vyre_opt.ir.program import Func, Spec
from vyre_opt.ir.snapshot import Snapshot
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.targets import GpuTarget, gpu
from vyre_opt.targets.cpu import object_cache
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cuda import kernels, ptx_cache
from vyre_opt.targets.cuda.ptx_options import PtxOptions

TEXT = """vyre 2

func @twice(%a : u32) -> u32 {
  %r = add %a, %a : u32
  yield %r
}

func @thrice(%a : u32) -> u32 {
  %d = add %a, %a : u32
  %r = add %d, %a : u32
  yield %r
}

program @p workgroup(32) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  spec @s : u32 = 3
  param @k : u32 = 1
  %one = const 1 : u32
  %two = const 2 : u32
  %three = const 3 : u32
  %i = global_id x
  %c = lt %i, 16 : u32
  if %c {
    store %one, @y[%i]
  } else {
    store %two, @y[%i]
    store %three, @y[%i]
  }
  %v = load @x[%i] : u32
  %t = call @twice(%v) : (u32) -> u32
  store %t, @y[%i]
}
"""

Change = Callable[[Module], object]


def own(module: Module) -> Program:
    return module.programs["p"]


def branches(module: Module) -> tuple[Block, Block]:
    then, otherwise = next(op for op in own(module).body.ops if op.regions).regions
    return then, otherwise


def setting(part: Callable[[Module], Any], name: str, value: Any) -> Change:
    return lambda module: setattr(part(module), name, value)


def adding(name: str, declaration: Any) -> Change:
    return lambda module: getattr(own(module), name).update({declaration.name: declaration})


def renamed(function: Func, other: Func) -> None:
    function.name, other.name = other.name, function.name


def swap_functions(module: Module) -> None:
    """Each has the other's name; they stand in the order that they had."""
    twice, thrice = module.funcs.values()
    renamed(twice, thrice)
    module.funcs.clear()
    module.funcs.update({twice.name: twice, thrice.name: thrice})


def buffer_of(module: Module) -> Buffer:
    return own(module).buffers["x"]


def twice_of(module: Module) -> Func:
    return module.funcs["twice"]


def op_of(module: Module) -> Op:
    return next(op for op in own(module).body.ops if op.name == "lt")


CHANGES: dict[type, dict[str, Change]] = {
    Program: {
        "name": setting(own, "name", "q"),
        "workgroup": setting(own, "workgroup", (64, 1, 1)),
        "grid": setting(own, "grid", (2, 1, 1)),
        "prefer_shared": setting(own, "prefer_shared", 50),
        "cluster": setting(own, "cluster", 2),
        "lowered_for": setting(own, "lowered_for", "cpu"),
        "buffers": adding("buffers", Buffer("z", DataType.U32, 64, AccessMode.READ, 2)),
        "specs": adding("specs", Spec("t", DataType.U32, 4)),
        "params": adding("params", Param("l", DataType.U32, 4)),
        "body": lambda module: own(module).body.ops.pop(),
        "loc": setting(own, "loc", None),
    },
    Buffer: {
        "name": setting(buffer_of, "name", "w"),
        "dtype": setting(buffer_of, "dtype", DataType.I32),
        "shape": setting(buffer_of, "shape", (65,)),
        "access": setting(buffer_of, "access", AccessMode.READ_WRITE),
        "binding": setting(buffer_of, "binding", 2),
        "live_in": setting(buffer_of, "live_in", True),
        "live_out": setting(buffer_of, "live_out", True),
        "loc": setting(buffer_of, "loc", None),
        "sizes": setting(buffer_of, "sizes", ("y",)),
    },
    Spec: {
        "name": setting(lambda m: own(m).specs["s"], "name", "t"),
        "dtype": setting(lambda m: own(m).specs["s"], "dtype", DataType.I32),
        "default": setting(lambda m: own(m).specs["s"], "default", 4),
        "loc": setting(lambda m: own(m).specs["s"], "loc", None),
    },
    Param: {
        "name": setting(lambda m: own(m).params["k"], "name", "l"),
        "dtype": setting(lambda m: own(m).params["k"], "dtype", DataType.I32),
        "default": setting(lambda m: own(m).params["k"], "default", 4),
        "loc": setting(lambda m: own(m).params["k"], "loc", None),
    },
    Func: {
        "name": swap_functions,
        "results": setting(twice_of, "results", (DataType.I32,)),
        "body": lambda module: twice_of(module).body.ops.insert(0, twice_of(module).body.ops[0]),
        "loc": setting(twice_of, "loc", None),
    },
}
"""In place, as a caller may make them between two calls."""

NO_MEANING = {"loc", "sizes"}
"""Where things stand, and what pipelines' buffers alone have."""

STRUCTURE: dict[str, Change] = {
    "an op goes to the other branch": lambda m: branches(m)[0].ops.insert(0, branches(m)[1].ops.pop()),
    "another operand": setting(op_of, "operands", ()),
    "an attribute": lambda m: own(m).body.ops[0].attrs.update({"value": 9}),
    "the type of a value": lambda m: setattr(op_of(m).results[0], "type", DataType.U32),
    "another result": setting(op_of, "results", (Value("c", DataType.BOOL),)),
    "no regions": lambda m: setattr(branches_owner(m), "regions", ()),
    "branches the other way": lambda m: setattr(branches_owner(m), "regions", branches(m)[::-1]),
    "an argument of a function": setting(lambda m: twice_of(m).body, "args", (Value("a", DataType.U32),)),
    "buffers in another order": lambda m: own(m).buffers.update(x=own(m).buffers.pop("x")),
}


def branches_owner(module: Module) -> Op:
    return next(op for op in own(module).body.ops if op.regions)


def test_every_change_of_a_program_is_seen_by_its_snapshot() -> None:
    for kind, changes in CHANGES.items():
        assert changes.keys() == {field.name for field in fields(kind)}
    cases = [
        (f"{kind.__name__}.{name}", change) for kind, own in CHANGES.items() for name, change in own.items()
    ]

    def check(case: tuple[str, Change]) -> None:
        module = parse(TEXT)
        snapshot = Snapshot(own(module), module)
        assert snapshot.holds()
        case[1](module)
        assert snapshot.holds() == (case[0].split(".")[-1] == "loc")

    each([*cases, *STRUCTURE.items()], check, lambda case: case[0])


def test_a_change_inside_of_an_attribute_is_seen() -> None:
    text = "vyre 2 program @p workgroup(64) { buffer @x : f32[64] read binding(0) buffer @y : f32[64] write binding(1) math.softmax(@x, @y) {columns = 32} }"
    module = parse(text)
    snapshot = Snapshot(own(module), module)
    (kernel,) = own(module).body.ops
    assert snapshot.holds()
    kernel.attrs["params"]["columns"] = 64
    assert not snapshot.holds()


def test_a_signature_has_all_that_calls_depend_on() -> None:
    """But for contents, addresses, and strides of what is not contiguous anyway."""
    plain = np.zeros((4, 8), np.float32)
    read_only = plain.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(bytearray(129), np.uint8)[1:].view(np.float32).reshape(4, 8)
    others = [
        plain.astype(np.int32),
        plain.astype(">f4"),
        plain.reshape(8, 4),
        plain.reshape(32),
        plain.reshape(1, 4, 8),
        np.zeros((4, 16), np.float32)[:, ::2],
        read_only,
        unaligned,
    ]
    found = [signature_of(array) for array in (plain, *others)]
    assert len(set(found)) == len(found)
    assert signature_of(np.ones((4, 8), np.float32)) == found[0]
    assert [signature_of(a) for a in (np.ma.masked_array(plain), np.float32(1), [1.0], np.memmap)] == [
        None
    ] * 4


def test_every_field_of_a_program_is_in_the_key_of_its_code() -> None:
    def key(module: Module) -> Any:
        return keys.compile_key(own(module), module, {"s": 3}, "target")

    def check(case: tuple[type, str]) -> None:
        kind, name = case
        module = parse(TEXT)
        before = key(module)
        assert key(parse(TEXT)) == before
        if (kind, name) == (Spec, "name"):  # the key is given values by name
            return
        CHANGES[kind][name](module)
        assert (key(module) == before) == (name in NO_MEANING)

    each([(kind, name) for kind, own in CHANGES.items() for name in own], check)


def test_every_field_of_a_target_is_in_the_key_of_its_code() -> None:
    module = parse(TEXT)
    program = own(module)
    host, options, target = Host("cpu", "+avx2", 3), PtxOptions(), gpu("sm_90")
    changed: dict[Any, dict[str, Any]] = {
        host: {
            "name": "other",
            "attributes": "+avx512f",
            "opt": 2,
            "debug_info": True,
            "system": ("aarch64-unknown-linux-gnu", "e-m:e-i64:64"),
        },
        options: {"bounds": "clamp", "level": 3, "ptx": None, "zero_memory": True, "debug_info": True},
        target: {"name": "sm_90a", "first_ptx": (8, 2), "shared_bytes": 1},
    }
    for part, values in changed.items():
        assert values.keys() == {field.name for field in fields(part)}

    def ptx(target: GpuTarget, options: PtxOptions, version: tuple[int, int] = (8, 1)) -> bytes:
        return ptx_cache.key_of([Unit(program, module, {"s": 3})], target, version, options)

    hosts = [host, *[replace(host, **{name: value}) for name, value in changed[host].items()]]
    found = [object_cache.key_of(program, module, {"s": 3}, each) for each in hosts]
    found += [ptx(target, options), ptx(target, options, (8, 2))]
    found += [ptx(target, replace(options, **{n: v})) for n, v in changed[options].items() if n != "ptx"]
    found += [ptx(replace(target, **{n: v}), options) for n, v in changed[target].items()]
    assert len(set(found)) == len(found)
    # the version is that of the options, where they have one
    assert ptx(target, replace(options, ptx=(8, 1))) == ptx(target, options)


def test_a_loaded_kernel_is_of_the_places_that_its_faults_name() -> None:
    """Its code is that of any program with these ops; the message of a fault shows a line."""

    def key(text: str, name: str = "a.vyre") -> Any:
        module = parse(text, name)
        return kernels._key(Unit(own(module), module, {"s": 3}))

    assert key(TEXT) == key(TEXT)
    moved = TEXT.replace("\nprogram", "\n\nprogram")
    assert (
        len({key(TEXT), key(TEXT, "b.vyre"), key(moved), key(TEXT.replace("func @twice", "func  @twice"))})
        == 4
    )
    assert key(TEXT)[0] == key(moved)[0]


def test_code_depends_on_no_source_that_is_not_hashed() -> None:
    """What the lowerings import, directly or not, is in the folders whose sources are in the keys."""
    package = Path(vyre_opt.__file__).parent
    pending = sorted((package / "lowering").rglob("*.py"))
    seen: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in seen or path in (
            package / "__init__.py",
            package / "faces.py",
            package / "records.py",
            package / "worker.py",
        ):  # no code depends on them
            continue
        seen.add(path)
        pending += _imports(package, path)
    hashed = [package / folder for folder in keys._SOURCES]
    assert len(seen) > 100
    assert [path for path in seen if not any(path.is_relative_to(folder) for folder in hashed)] == []


def _imports(package: Path, path: Path) -> list[Path]:
    """The files of the package that a file imports, but for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in ["", *[alias.name for alias in node.names]]:
                at = base / name
                found += [
                    p for p in (at.with_suffix(".py"), at / "__init__.py") if at != package and p.is_file()
                ]
    return found


def test_a_changed_program_is_compiled_again() -> None:
    """What the interpreter makes of the program as it is now is the oracle."""
    cpu, ref = dispatcher("cpu"), dispatcher("ref")
    x = np.arange(64, dtype=np.uint32)

    def check(change: Change) -> None:
        module = parse(TEXT)
        for _ in range(2):
            outputs = [
                target.dispatch(own(module), [x, np.zeros_like(x)], 2, module=module)[0]
                for target in (cpu, ref)
            ]
            assert outputs[0].tolist() == outputs[1].tolist()
            change(module)

    own_change = STRUCTURE["an op goes to the other branch"]
    each([swap_functions, lambda m: (own(m).body.ops.pop(), own_change(m))], check)


def test_a_function_that_a_program_of_rows_calls_may_change() -> None:
    """The program of rows has not changed, and so not the one that is made of it."""
    text = TEXT.replace("u32[64]", "u32[8, 8]").replace("@y[%i]", "@y[0, %i]").replace("@x[%i]", "@x[0, %i]")
    module = parse(text.replace("workgroup(32)", "workgroup(8)"))
    x = np.arange(64, dtype=np.uint32).reshape(8, 8)
    cpu = dispatcher("cpu")
    for factor in (2, 3):
        (y,) = cpu.dispatch(own(module), [x, np.zeros_like(x)], 1, module=module)
        assert y[0].tolist() == (x[0] * factor).tolist()
        swap_functions(module)


@pytest.mark.parametrize("target", ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_fault_is_at_the_line_of_the_program_that_ran(target: str) -> None:
    """Of two programs with the same ops, in one process."""
    text = """vyre 2
program @p workgroup(32) {
  buffer @x : u32[?] read_write binding(0) live_in live_out
  %i = global_id x
  store %i, @x[%i]
}
"""
    backend, x = dispatcher(target), np.zeros(4, np.uint32)
    for lines in (0, 3):
        program = parse(text.replace("\nprogram", "\n" * lines + "\nprogram"), f"{lines}.vyre").programs["p"]
        with pytest.raises(ProgramError) as caught:
            backend.dispatch(program, [x], 1)
        assert str(caught.value.diagnostic.loc) == f"{lines}.vyre:{5 + lines}:3"
