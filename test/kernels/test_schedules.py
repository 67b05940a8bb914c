"""The schedules that are chosen where none is given: legal and right for awkward shapes, on each target."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from math import prod
from typing import Any

import pytest
from support.decode_scan_program import search_grid, search_schedule
from support.quick import quick

from vyre_opt import dispatcher, kernel_workload
from vyre_opt.ir import DataType as D
from vyre_opt.kernels.chain import (
    ChainSchedule,
    batch_schedule,
    chain_groups,
    chain_schedule,
    goes_by_steps,
    uniform_ranks,
)
from vyre_opt.kernels.chain import chain as chain_program
from vyre_opt.kernels.chain_scattered import ScatterSchedule, scattered_bytes
from vyre_opt.kernels.chain_spread import spread_bytes
from vyre_opt.kernels.dfa import MAX_SLAB, dfa_schedule, memory_bytes
from vyre_opt.kernels.embedding import EmbeddingSchedule, EmbeddingShape, embedding_schedule
from vyre_opt.kernels.embedding_grouped import GroupedSchedule
from vyre_opt.kernels.embedding_units import EmbeddingUnitSchedule
from vyre_opt.kernels.matvec import MatvecSchedule, matvec_grid, matvec_schedule
from vyre_opt.kernels.scan import prefix_grid, prefix_schedule
from vyre_opt.kernels.softmax_fixed import softmax_step_grid, softmax_step_schedule
from vyre_opt.kernels.softmax_schedules import MAX_SPLITS, softmax_schedule
from vyre_opt.kernels.tensor_train import contract_step_grid, contract_step_schedule
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.tuning.workload import KernelWorkload
from vyre_scan.programs.text_units import ENCODINGS

#            p, q and inner ranks of a table's cores
TABLES = (
    ((7, 5), (3, 5), (6,)),
    ((7, 5), (8, 32), (16,)),
    ((4, 3), (2, 2048), (2,)),
    ((5, 6, 7), (2, 2, 2), (1, 1)),
    ((5, 6, 7), (4, 4, 4), (12, 12)),
    ((5, 6, 7), (4, 4, 4), (16, 16)),
    ((5, 6, 7), (3, 2, 5), (24, 48)),
    ((5, 6, 7), (4, 4, 4), (64, 64)),
    ((5, 6, 7), (4, 4, 4), (128, 128)),
    ((3, 4, 3, 5), (4, 4, 4, 4), (16, 16, 16)),
)

GROUPED = ((16, 3600), (32, 300), (64, 300))  # rank and lookups, for a GPU in groups


def table(p: tuple[int, ...], q: tuple[int, ...], r: tuple[int, ...], lookups: int = 77) -> KernelWorkload:
    cells = sum(p[k] * q[k] * x * y for k, (x, y) in enumerate(pairwise((1, *r, 1))))
    params = {f"{name}{k}": v for name, row in (("p", p), ("q", q)) for k, v in enumerate(row)}
    params |= {f"r{k}": v for k, v in enumerate(r, start=1)}
    counts = [cells, lookups, lookups * prod(q)]
    return kernel_workload("tt.embedding", counts, [D.F32, D.U32, D.F32], params)


def chain(first: int, rank: int, last: int) -> KernelWorkload:
    counts = [first, first * rank + rank * rank + rank * last, last]
    params = {"steps": 3, "rank": rank, "first": first, "last": last}
    return kernel_workload("tt.chain", counts, [D.I32] * 3, params)


def dfa(warmup: int) -> KernelWorkload:
    counts = [2777, 256 * 6, 6, 2777]
    return kernel_workload("scan.dfa", counts, [D.U8, D.U16, D.U32, D.U32], {"warmup": warmup})


def step(rows: int, columns: int) -> KernelWorkload:
    return kernel_workload("tt.contract_step", [rows, rows * columns, columns], [D.U32] * 3)


def matvec(rows: int, columns: int) -> KernelWorkload:
    return kernel_workload("math.matvec_fixed", [rows * columns, columns, rows], [D.U32, D.I32, D.U32])


AWKWARD = {
    **{f"embedding {q} {r}": table(p, q, r) for p, q, r in TABLES},
    **{f"{count} of embedding {r}": table((9, 11, 10), (4, 4, 4), (r, r), count) for r, count in GROUPED},
    **{f"chain {r}": chain(*r) for r in ((1, 1, 1), (5, 63, 1), (64, 65, 2), (1, 128, 7), (32, 31, 33))},
    **{f"chain {rank}": chain(rank, rank, rank) for rank in (256, 512)},
    **{f"dfa {warmup}": dfa(warmup) for warmup in (0, 1, 64, 65, 128, 129, 1024, 1025, 15000)},
    **{
        f"step {rows} x {columns}": step(rows, columns)
        for rows, columns in ((1, 1), (3, 70), (17, 300), (150, 70))
    },
    **{
        f"matvec {rows} x {columns}": matvec(rows, columns)
        for rows, columns in ((2, 70_001), (1, 1), (4100, 7), (301, 64), (3, 9973), (8, 66_000), (1, 300_002))
    },
    **{
        f"softmax_step {n}": kernel_workload("math.softmax_step", [n] * 2, [D.U32] * 2) for n in (1, 33, 5000)
    },
    "prefix, several tiles a thread": kernel_workload("scan.prefix", [(1 << 19) + 5] * 2, [D.U32] * 2),
}


@pytest.mark.parametrize("workload", quick(AWKWARD.values(), lambda workload: workload.kernel, ids=AWKWARD))
def test_default_is_legal_and_right(workload: KernelWorkload) -> None:
    """What is chosen for the CPU and for a GPU computes what the kernel says; for any target it builds."""
    assert workload.expansion({}, "").grid
    for target in ("cpu", "sm_90"):
        trial = workload.trial(workload.default(target), "cpu")
        outputs = dispatcher("cpu").dispatch(trial.program, trial.arguments, trial.grid)
        assert workload.fault(outputs) == "", target


@pytest.mark.parametrize(
    ("rank", "lanes"), [(8, 32), (16, 64), (32, 128), (64, 256), (12, 32)], ids=lambda v: str(v)
)
def test_embedding_on_the_cpu_has_a_lane_for_each_column(rank: int, lanes: int) -> None:
    """Else its loads are gathers, and it takes up to eight times as long; or a lookup at a time."""
    shape = EmbeddingShape((50, 60, 50), (4, 4, 4), (rank, rank))
    schedule = embedding_schedule(shape, target="cpu")
    assert schedule.lanes == lanes
    assert lanes == 4 * rank or schedule.lookups == 1
    assert embedding_schedule(shape, strided=True, target="cpu").strided


def test_chain_on_the_cpu_is_one_subgroup() -> None:
    for rank in (1, 16, 127, 128, 512):
        schedule = chain_schedule((1, rank, rank, 1), "cpu")
        assert (schedule.lanes, schedule.stream_rows, schedule.prefetch, schedule.workgroups) == (32, 2, 0, 1)


def test_chain_without_a_grid_of_its_own_stays_in_a_workgroup() -> None:
    ranks = (256,) * 4
    assert chain_schedule(ranks, "sm_90").workgroups > 1
    assert chain_schedule(ranks, "sm_90", owns_grid=False).workgroups == 1


def test_walks_are_longer_where_warm_ups_are() -> None:
    """And of an odd number of words."""
    for target in ("cpu", "sm_90", ""):
        chunks = [dfa_schedule(warmup, target).chunk for warmup in range(0, 2000, 8)]
        assert chunks == sorted(chunks)
        assert all(chunk % 8 == 4 for chunk in chunks), "an even number of words: lanes share banks"


def test_states_are_staged_on_a_gpu_where_there_is_room() -> None:
    """The chunks that were fastest on an H200; the longest warm-ups have a slab that fits, and no tiny tiles."""
    fastest = {3: 12, 15: 20, 42: 20, 100: 20, 399: 36}
    assert {warmup: dfa_schedule(warmup, "sm_90").chunk for warmup in fastest} == fastest
    for warmup in (0, 40, 300, 1024, 1025, 2047, 9728):
        schedule = dfa_schedule(warmup, "sm_90")
        assert schedule.in_shared
        assert sum(memory_bytes(warmup, D.U32, schedule)) <= MAX_SLAB, "of the widest states"
    for warmup in (9729, 16384, 24000):
        schedule = dfa_schedule(warmup, "sm_90")
        assert not schedule.in_shared
        assert schedule.tile >= 0.8 * warmup
        assert schedule.halo(warmup) + schedule.tile <= MAX_SLAB
    for warmup in (25000, 40000, 48500):
        schedule = dfa_schedule(warmup, "sm_90")
        assert schedule.halo(warmup) + schedule.tile <= MAX_SLAB
        assert schedule.chunk % 8 == 4
    assert not any(dfa_schedule(40, target).in_shared for target in ("cpu", "ref", ""))


def test_of_many_of_the_widest_rows_a_multiprocessor_has_few() -> None:
    """Two of 64 KiB in flight are enough for one; of few rows all should be in flight at once."""
    lanes = {rows: softmax_schedule(16384, D.F32, "sm_90", rows).lanes for rows in (None, 256, 16384)}
    assert lanes == {None: 1024, 256: 1024, 16384: 512}
    assert all(softmax_schedule(16384, D.BF16, "sm_90", rows).lanes == 1024 for rows in (256, 16384))


def test_rows_are_shared_where_they_are_few_or_do_not_fit() -> None:
    """Only where the program surely runs on the GPU alone: workgroups of a row wait for each other."""

    def splits(columns: int, rows: int | None, multiprocessors: int = 132, dtype: D = D.F32) -> int:
        return softmax_schedule(columns, dtype, "sm_90", rows, multiprocessors).splits

    assert splits(1 << 18, 1) == splits(1 << 18, 2) == 33
    assert splits(1 << 18, 1, dtype=D.BF16) == MAX_SPLITS
    assert splits(1 << 18, 10_000) == 32
    assert splits(1 << 17, 1, multiprocessors=64) == 16
    assert splits(1 << 17, 1, multiprocessors=10) == 1, "too few workgroups fit at once"
    assert splits(1 << 15, 10_000) == splits(1 << 12, 1) == 1
    assert splits(1 << 18, None) == splits(1 << 18, 1, multiprocessors=0) == 1
    assert softmax_schedule(1 << 18, D.F32, "cpu", 1, 16).splits == 1
    # in the last round of 256 lanes with 4 elements each few have none
    assert splits(50257, 2000) * 1024 * -(-50257 // (splits(50257, 2000) * 1024)) < 1.05 * 50257


def test_a_row_of_one_vector_is_a_lane_on_a_gpu() -> None:
    for columns, dtype in ((1, D.F32), (2, D.F32), (4, D.F32), (8, D.BF16)):
        schedule = softmax_schedule(columns, dtype, "sm_90", 10**6)
        assert (schedule.lanes, schedule.vector) == (1, columns)


def test_rows_in_flight_leave_several_turns_on_a_gpu() -> None:
    rows = {None: 16, 1: 1, 3: 2, 64: 16, 127: 16, 128: 32, 4096: 32}
    assert {inner: contract_step_schedule(inner, None, "sm_90").unroll for inner in rows} == rows


def test_few_and_long_rows_are_shared_by_workgroups() -> None:
    """As many as occupy the GPU, with 16 elements a lane at least; where there is no scratch, a workgroup has a row."""

    def shape(rows: int, columns: int, **facts: Any) -> tuple[int, int, int, int]:
        schedule = matvec_schedule(columns, rows, "sm_90", **facts)
        return schedule.lanes, schedule.rows_per_thread, schedule.splits, matvec_grid(schedule, rows)

    assert shape(1, 1 << 22) == (256, 1, 512, 512)
    assert shape(8, 1 << 20) == (256, 4, 256, 512)
    assert shape(64, 65536) == (256, 4, 32, 512)
    assert shape(64, 65536, multiprocessors=66) == (1024, 1, 1, 64)
    assert shape(64, 65536, owns_grid=False) == (1024, 1, 1, 64)
    assert shape(100, 9973) == (640, 1, 1, 100), "one turn"
    assert shape(512, 8192) == (256, 1, 1, 512)
    assert shape(4096, 4096) == (32, 1, 1, 512)
    assert shape(65536, 64) == (16, 4, 1, 1024)
    for target in ("cpu", ""):
        assert matvec_schedule(1 << 22, 1, target) == matvec_schedule(None) == MatvecSchedule()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"lanes": 48}, "a power of two up to 32 lanes"),
        ({"lanes": 16, "rows": 1}, "1 to 32 subgroups"),
        ({"lanes": 1024, "rows": 2}, "1 to 32 subgroups"),
        ({"rows_per_thread": 9}, "1 to 8 rows at once"),
        ({"vector": 3}, "vectors of 1, 2 or 4"),
        ({"lanes": 1024, "rows": 1, "vector": 4, "unroll": 32}, "65536 columns at most"),
        ({"splits": 2, "strided": True}, "a grid of their own"),
        ({"vector": 4, "predicated": False}, "unless loads are predicated"),
    ],
)
def test_what_is_no_schedule_of_rows(fields: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        MatvecSchedule(**{"predicated": True, **fields})


def test_large_cores_are_shared_by_threads() -> None:
    """By blocks of columns of one size, by rows where those are few; and a small core by none.

    Of three threads or more some are awake, and each has two pieces, so that one that comes late does no harm.
    """

    def shape(inner: int, outer: int, workers: int) -> tuple[int, int, int]:
        schedule = contract_step_schedule(inner, inner * outer, "cpu", workers=workers)
        return schedule.stream_columns, schedule.splits, contract_step_grid(schedule, outer)

    assert shape(256, 256, 16) == shape(1024, 1024, 2) == shape(2048, 2048, 1) == (4096, 1, 1)
    assert shape(2048, 2048, 2) == (1024, 1, 2)
    assert shape(1024, 1024, 16) == (256, 3, 12)
    assert shape(2048, 2048, 8) == (512, 4, 16)
    assert shape(200, 5000, 16) == (512, 1, 10)
    assert shape(3000, 200, 16) == (256, 6, 6)
    assert shape(8000, 3000, 4) == (768, 2, 8)
    assert shape(1618, 2624, 2) == (1344, 1, 2)
    assert shape(300, 9000, 2) == (2304, 1, 4)
    assert shape(12000, 200, 2) == (256, 2, 2)
    assert shape(60, 40000, 2) == (4032, 1, 10)
    assert shape(20000, 50, 1) == (0, 1, 2)


def test_scan_on_a_gpu_has_a_tile_for_each_processor_or_many_of_few_subgroups() -> None:
    """A few tiles are one workgroup's."""
    assert not prefix_schedule(1 << 14, "sm_90").look_back
    assert not prefix_schedule(1 << 26, "sm_90", look_back=False).look_back
    shapes = {1 << 15: (256, 2), 1 << 18: (128, 8), 1 << 20: (512, 4), 1 << 22: (128, 8), 1 << 26: (128, 16)}
    for count, shape in shapes.items():
        schedule = prefix_schedule(count, "sm_90")
        assert (schedule.lanes, schedule.rounds) == shape
        assert schedule.look_back
        assert prefix_grid(schedule, count) == count // schedule.tile
    wide = prefix_schedule(1 << 20, "sm_90", dtype=D.I64)
    assert (wide.vector, wide.tile) == (2, prefix_schedule(1 << 20, "sm_90").tile)
    assert prefix_schedule(1 << 26, "sm_90", dtype=D.F64).vector == 4


def test_a_chain_is_as_many_launches_as_its_cores_are_worth() -> None:
    """Eight small cores are one, on a CPU 16, so is what a cluster does; a large one that one workgroup or thread would
    do is apart."""

    def sizes(ranks: tuple[int, ...], target: str, workers: int = 1) -> list[int]:
        groups = chain_groups(ranks, target, workers)
        assert [first for first, _ in groups] == [0, *(last for _, last in groups[:-1])]
        assert groups[-1][1] == len(ranks) - 1
        return [last - first for first, last in groups]

    assert sizes((7,) * 9, "sm_90") == sizes((7,) * 9, "cpu", 2) == [8]
    assert sizes((7,) * 21, "sm_90") == [8, 8, 4]
    assert sizes((7,) * 21, "cpu", 2) == [16, 4]
    assert sizes((512,) * 5, "sm_90") == sizes((512,) * 5, "cpu", 2) == [4]
    assert sizes((1500,) * 5, "cpu", 1) == [4]
    assert sizes((1500,) * 5, "cpu", 2) == sizes((1500,) * 5, "sm_90") == [1, 1, 1, 1]
    assert sizes((600,) * 5, "sm_80") == [1, 1, 1, 1], "it has no clusters"
    assert sizes((30, 30, 30, 2000, 2000, 3, 3, 3), "sm_90") == [3, 1, 3]
    assert sizes((30, 30, 30, 2000, 2000, 3, 3, 3), "cpu", 4) == [3, 1, 3]


def test_a_cluster_shares_the_cores_of_a_chain() -> None:
    """Some 32 columns for each workgroup, if the rows divide evenly over the lanes, which need the registers."""
    clusters = {
        64: (1, 256),
        80: (2, 160),
        128: (4, 128),
        256: (8, 256),
        512: (16, 512),
        600: (10, 800),
        1024: (16, 1024),
    }
    for rank, (workgroups, lanes) in clusters.items():
        for first in (1, rank):
            schedule = chain_schedule((first, rank, rank, rank), "sm_90")
            assert (schedule.workgroups, schedule.lanes) == (workgroups, lanes)
        assert chain_schedule((rank,) * 4, "sm_80").workgroups == 1
    assert chain_schedule((1100,) * 4, "sm_90").workgroups == 1


def _drawn_ranks(draw: random.Random) -> tuple[int, ...]:
    steps, rank = draw.randint(1, 4), draw.randint(65, 720)
    return (
        uniform_ranks(steps, rank) if draw.random() < 0.5 else tuple(draw.choices(range(9, 720), k=steps + 1))
    )


@pytest.mark.parametrize("chains", quick([12, 60]))
def test_vectors_that_go_through_a_cluster_together_fit_its_memory(chains: int) -> None:
    """And what the schedule counts is what the program has."""
    draw = random.Random(7)
    named = [
        uniform_ranks(8, 512),
        uniform_ranks(8, 1024),
        uniform_ranks(8, 192),
        (953, 600, 464, 824),
        (500, 300, 500),
        (100, 130, 90),
    ]
    drawn = [(_drawn_ranks(draw), draw.randint(1, 300)) for _ in range(chains)]
    kinds = Counter[type]()
    for ranks, count in [*((ranks, 64) for ranks in named), *drawn]:
        for target, limit in (("sm_90", 232448), ("sm_100", 232448), ("cuda", 232448)):
            schedule, vectors = batch_schedule(ranks, target, count)
            assert vectors <= 10
            kinds[type(schedule)] += 1
            if schedule.workgroups == 1:
                assert vectors == 1
                continue
            program = chain_program(ranks, schedule=schedule, vectors=vectors)
            parts = {True: 0, False: 0}
            for buffer in program.buffers.values():
                if buffer.is_on_chip:
                    parts[buffer.is_cluster] += buffer.size_bytes or 0
            if isinstance(schedule, ScatterSchedule):  # a workgroup has its own row only
                taken = parts[False] + parts[True] // schedule.workgroups
                counted = scattered_bytes(ranks, schedule.workgroups, vectors)
            else:
                taken = sum(parts.values())
                counted = spread_bytes(ranks, schedule.workgroups, schedule.lanes, vectors)
            assert taken <= counted <= min(limit, taken + 192), (ranks, target)
    assert min(kinds[ScatterSchedule], kinds[ChainSchedule]) > chains // 3


def test_vectors_of_a_cluster_are_as_many_as_keep_all_clusters_at_work() -> None:
    """An H200 runs 7 clusters of 16 workgroups at once, and more of them where registers allow."""
    ranks = uniform_ranks(8, 512)
    assert [batch_schedule(ranks, "sm_90", count)[1] for count in (1, 7, 20, 35, 64)] == [1, 1, 3, 5, 10]
    for ranks in (uniform_ranks(8, 512), uniform_ranks(8, 525), uniform_ranks(8, 230)):
        for target in ("cpu", "sm_75", "sm_120"):
            schedule, vectors = batch_schedule(ranks, target, 64)
            assert (schedule.workgroups, vectors) == (1, 1)


def test_one_vector_goes_by_rows_where_no_split_of_columns_is_good() -> None:
    for rank, by_rows in ((512, False), (525, True), (622, True), (200, False), (340, True), (160, False)):
        schedule, vectors = batch_schedule(uniform_ranks(8, rank), "sm_90", 1)
        assert (isinstance(schedule, ScatterSchedule), vectors) == (by_rows, 1)


def test_a_prepared_chain_is_one_launch_unless_one_processor_would_do_large_cores() -> None:
    for rank, steps in ((64, False), (512, False), (1024, False), (1100, True)):
        assert goes_by_steps((rank,) * 4, "sm_90") == steps
        assert goes_by_steps((rank,) * 4, "sm_80") == (rank >= 512)
        assert not goes_by_steps((rank,) * 4, "cpu")
    assert goes_by_steps((1024,) * 4, "cpu", 8)


def test_lookups_of_bf16_are_on_matrix_units_where_many_share_a_slice() -> None:
    """A GPU has the memory for a middle slice; a search through the lookups takes less time than their products."""

    def is_on_units(digits: int, rank: int, count: int, dtype: D = D.BF16, target: str = "sm_90") -> bool:
        shape = EmbeddingShape((200, digits, 250), (4, 4, 4), (rank, rank))
        schedule = embedding_schedule(shape, count=count, target=target, dtype=dtype)
        if isinstance(schedule, EmbeddingUnitSchedule):
            assert schedule.shared_bytes(shape) <= gpu(target).shared_bytes
            wide = embedding_schedule(shape, count=count, target=target, dtype=dtype, out_dtype=D.F32)
            if isinstance(wide, EmbeddingUnitSchedule):
                assert wide.shared_bytes(shape, D.F32) <= gpu(target).shared_bytes
        return isinstance(schedule, EmbeddingUnitSchedule)

    for rank in (16, 32, 64, 100):
        assert is_on_units(220, rank, 1 << 12)
    assert is_on_units(1000, 64, 1 << 14)
    assert is_on_units(220, 64, 1 << 14, target="sm_80")
    assert not is_on_units(220, 64, 1 << 14, D.F32)
    assert not is_on_units(220, 64, 1 << 14, target="cuda")
    assert not is_on_units(220, 64, 1 << 14, target="sm_75")
    assert not is_on_units(220, 8, 1 << 16)
    assert not is_on_units(1000, 16, 1 << 16)
    assert not is_on_units(220, 64, 512)
    assert not is_on_units(220, 256, 1 << 16)


def test_few_lookups_are_many_workgroups_on_a_gpu() -> None:
    """A lookup each where there would be less than four workgroups a processor, and lanes for its columns; with few
    columns less than two."""
    for rank, lanes, lookups in ((8, 128, 4), (16, 256, 4), (32, 128, 1), (64, 256, 1)):
        shape = EmbeddingShape((200, 220, 250), (4, 4, 4), (rank, rank))
        schedule = embedding_schedule(shape, count=1024, target="sm_90")
        assert isinstance(schedule, EmbeddingSchedule)
        assert (schedule.lanes, schedule.lookups) == (lanes, lookups)
        assert embedding_schedule(shape, count=1024) == embedding_schedule(shape)
    small = EmbeddingShape((200, 220, 250), (4, 4, 4), (8, 8))
    assert embedding_schedule(small, count=4096, target="sm_90") == EmbeddingSchedule(128, 4)
    assert embedding_schedule(small, count=65536, target="sm_90") == EmbeddingSchedule(64, 4)
    assert embedding_schedule(small, target="sm_90") == EmbeddingSchedule(128, 4)


@pytest.mark.parametrize(
    ("rank", "count", "lanes"),
    [(16, 1 << 16, 128), (32, 1 << 12, 256), (32, 1 << 16, 128), (64, 1 << 12, 256), (64, 1 << 16, 128)],
)
def test_grouped_lookups_fill_a_gpu(rank: int, count: int, lanes: int) -> None:
    """Small workgroups, of small tiles, where there are enough of them; else wide ones, of short chunks, or of high tiles with
    all lookups of a digit."""
    shape = EmbeddingShape((200, 220, 250), (4, 4, 4), (rank, rank))
    schedule = embedding_schedule(shape, count=count, target="sm_90")
    assert isinstance(schedule, GroupedSchedule)
    assert (schedule.lanes(shape), schedule.chunk) == (lanes, 2048 if (rank, count) == (32, 4096) else 4096)
    assert schedule.lookups == 16 if (rank, count) == (64, 4096) else schedule.lookups <= 8


def test_search_runs_all_lanes_at_once_if_it_can() -> None:
    """16 workgroups of 128 lanes on each of an H100's 132 processors; longer texts take several turns."""
    at_once = 132 * 16
    for mib in (0.1, 1, 4, 9, 12, 15, 16, 20):
        count = int(mib * (1 << 20))
        schedule = search_schedule("sm_90", count, 19)
        assert search_grid(schedule, count) <= at_once
        shorter = [s for s in (12, 36, 60, 84) if s < schedule.chunk]
        assert all(count > at_once * 128 * s for s in shorter)
        is_full = count > 0.7 * at_once * 128 * schedule.chunk
        assert schedule.rows_in_shared == (32 if mib <= 1.5 else 0), "rows of the table, shared"
        assert schedule.lanes == (256 if mib <= 1.5 or is_full else 128)
    for count in (None, 1 << 25, 1 << 28):
        assert search_schedule("sm_90", count) == search_schedule("cuda")
    few = search_schedule("sm_90", 4 << 20, 19, multiprocessors=58)
    assert few.chunk == 36, "of fewer processors each lane has more to do"
    assert search_grid(few, 4 << 20) <= 58 * 16
    for warmup in (0, 700, 5000):
        schedule = search_schedule("sm_90", 1 << 20, warmup)
        assert schedule.slab(ENCODINGS["base64"], warmup) <= 2 * schedule.tile


def test_few_workgroups_add_up_on_the_cpu() -> None:
    for count in (1, 1 << 16, 1 << 18, 1 << 20, 1 << 24):
        assert softmax_step_grid(softmax_step_schedule(count, "cpu"), count) <= 8
    assert softmax_step_schedule(1 << 20, "sm_90").lanes == 1024
    assert softmax_step_schedule(100, "sm_90").lanes == 128
    assert softmax_step_schedule(None, "sm_90").lanes == 1024
