"""Clusters of workgroups: their memory and their barriers, and what a program may not do with them."""

from __future__ import annotations

import numpy as np
import pytest
from support.cluster_programs import WAYS, HandOff, Mail
from support.quick import quick

import vyre_opt
from vyre_opt import (
    BadInputs,
    DiagnosticError,
    PassManager,
    ProgramError,
    Write,
    dispatcher,
    parse,
    program,
    u32,
)
from vyre_opt.ir import Module

SEEDS = quick(sorted(range(120), key=lambda seed: seed not in (1, 7)), keep=2)
"""First those of small clusters and few rounds: each way of a hand-off is compiled for itself."""

PROGRAM = """vyre 2

program @p workgroup(32) cluster(2) {{
  buffer @t : u32[64] cluster
  buffer @s : u32[{storage}] read_write binding(0) live_in live_out
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %two = const 2 : u32
  %size = const 32 : u32
  %number = rem %w, %two : u32
  %first = mul %number, %size : u32
  %own = add %first, %l : u32
  %last = const 63 : u32
  %other = sub %last, %own : u32
  {lines}
}}
"""
STORE, LOAD = "store %g, @t[%own] : u32", "%v = load @t[%other] : u32"


def _parsed(*lines: str, storage: int = 256) -> Module:
    return parse(PROGRAM.format(lines="\n  ".join(lines), storage=storage))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [HandOff, Mail])
def test_what_is_handed_on_arrives(kind: type[HandOff] | type[Mail], seed: int) -> None:
    """Also after passes, which may not move loads over cluster barriers."""
    for how in WAYS:
        program, arrays, expected = kind(seed).case(how)
        module = Module()
        module.add(program)
        PassManager("default").run(module)
        optimized = module.programs[program.name]
        plain = kind(seed).program(how)
        for each, target in ((plain, "ref"), (plain, "cpu"), (optimized, "ref"), (optimized, "cpu")):
            out = dispatcher(target).dispatch(each, arrays, program.grid)[0]
            np.testing.assert_array_equal(out, expected, f"{how} on {target}")


def test_each_cluster_has_its_memory() -> None:
    program = _parsed(STORE, "barrier cluster", LOAD, "store %v, @y[%g] : u32").programs["p"]
    for target in ("ref", "cpu"):
        arrays = [np.zeros(256, np.uint32), np.zeros(256, np.uint32)]
        out = dispatcher(target).dispatch(program, arrays, 8)[1]
        np.testing.assert_array_equal(out, np.arange(256).reshape(4, 64)[:, ::-1].ravel())


@pytest.mark.parametrize(
    ("lines", "help"),
    [
        ((STORE, LOAD, "store %v, @y[%g] : u32"), "barrier cluster"),
        ((STORE, "barrier workgroup", LOAD, "store %v, @y[%g] : u32"), "barrier cluster"),
        (("store %g, @s[%other] : u32", "barrier workgroup", "%v = load @s[%own] : u32"), "barrier cluster"),
        # storage of all clusters: a cluster barrier does not order it
        (
            (
                "%all = const 255 : u32",
                "%o = sub %all, %g : u32",
                "store %g, @s[%o] : u32",
                "barrier cluster",
                "%v = load @s[%g] : u32",
                "store %v, @y[%g] : u32",
            ),
            "barrier grid",
        ),
    ],
)
def test_races_are_seen(lines: tuple[str, ...], help: str) -> None:
    program = _parsed(*lines).programs["p"]
    grid = 2 if help == "barrier cluster" else 8
    arrays = [np.zeros(256, np.uint32), np.zeros(32 * grid, np.uint32)]
    with pytest.raises(ProgramError, match="data race") as caught:
        dispatcher("ref").dispatch(program, arrays, grid)
    assert help in str(caught.value)


def test_what_a_cluster_barrier_orders_within_one() -> None:
    lines = (
        "store %own, @s[%other] : u32",
        "barrier cluster",
        "%v = load @s[%own] : u32",
        "store %v, @y[%g] : u32",
    )
    arrays = [np.zeros(256, np.uint32), np.zeros(64, np.uint32)]
    out = dispatcher("ref").dispatch(_parsed(*lines).programs["p"], arrays, 2)[1]
    np.testing.assert_array_equal(out, np.arange(64)[::-1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cluster(2)", "cluster(0)", "a cluster has 1 to 16 workgroups, not 0"),
        ("cluster(2)", "cluster(17)", "a cluster has 1 to 16 workgroups, not 17"),
        ("cluster(2)", "cluster(2) grid(7)", "7 workgroups along x are not whole clusters of 2"),
        ("cluster(2)", "", "has no clusters\n"),
        ("cluster(2)", "", "help: write cluster(8) behind workgroup(...), or @program(cluster=8) in Python"),
        ("u32[64] cluster", "u32[?] cluster", "a cluster buffer has a static count"),
        ("u32[64] cluster", "u32[64] cluster binding(2)", "a cluster buffer has no binding"),
        ("u32[64] cluster", "u32[64] cluster live_out", "neither live_in nor live_out"),
        (STORE, "%a = atomic_add @t[%own], %g : u32", "cluster memory, such as @t, is loaded and stored"),
        (
            "barrier cluster",
            "%c = lt %w, %two : u32\n if %c {\n barrier cluster\n }",
            "may differ within a grid",
        ),
    ],
)
def test_what_does_not_verify(old: str, new: str, message: str) -> None:
    text = PROGRAM.format(lines=f"{STORE}\n  barrier cluster\n  {LOAD}", storage=256)
    assert old in text
    with pytest.raises(DiagnosticError) as caught:
        parse(text.replace(old, new, 1))
    assert message in str(caught.value)


def test_a_grid_is_whole_clusters() -> None:
    program = _parsed(STORE, "barrier cluster").programs["p"]
    arrays = [np.zeros(256, np.uint32), np.zeros(256, np.uint32)]
    for target in ("ref", "cpu"):
        with pytest.raises(BadInputs, match="clusters of 2 workgroups along x, and 3 is no multiple of 2"):
            dispatcher(target).dispatch(program, arrays, 3)


def test_a_launch_is_of_whole_clusters() -> None:
    pipeline = "\npipeline @main {\n  buffer @s : u32[256] read_write live_in\n  buffer @y : u32[96] write\n"
    launch = "  launch @p grid(3) (@s, @y)\n}\n"
    text = PROGRAM.format(lines=f"{STORE}\n  barrier cluster", storage=256)
    with pytest.raises(DiagnosticError, match="3 workgroups along x are not whole clusters of 2"):
        parse(text + pipeline + launch)


@program(workgroup=32, cluster=2)
def mirrored(y: Write[u32]):  # type: ignore[no-untyped-def]
    t = vyre_opt.shared(u32, 64, "cluster")
    own = vyre_opt.workgroup_id(0) % 2 * 32 + vyre_opt.local_id(0)
    t[own] = vyre_opt.global_id(0)
    vyre_opt.barrier("cluster")
    y[vyre_opt.global_id(0)] = t[63 - own]


def test_in_python() -> None:
    y = np.zeros(256, np.uint32)
    for target in ("ref", "cpu"):
        mirrored.options(target=target)[8](y)
        np.testing.assert_array_equal(y, np.arange(256).reshape(4, 64)[:, ::-1].ravel())
    for wrong in ("8", (2, 2), 0, 1.5, True):
        with pytest.raises(ValueError, match="cluster is a number of workgroups"):
            program(cluster=wrong)  # type: ignore[call-overload]
