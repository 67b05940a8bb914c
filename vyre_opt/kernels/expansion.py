"""Named kernel -> the program that does it, at a schedule chosen for its buffers and the target.

The pass expand_kernels asks here; the array functions call the same builders directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from ..ir.diagnostics import DiagnosticError
from ..ir.grids import Extent, GridCall
from ..ir.ops import OPS
from ..ir.plugins import PluginError
from ..ir.program import MAX_LANES, Buffer, Program
from ..ir.types import DataType
from .targets import is_gpu

__all__ = ["EXPANSIONS", "Expansion", "ExpansionRequest", "expand", "is_of_plugin"]

S = TypeVar("S")


@dataclass(frozen=True)
class ExpansionRequest:
    """A use of a kernel: its buffers by role, its parameters with defaults filled in.

    `owns_grid`: whether the launch will have the grid that the expansion asks for, and zeroed scratch buffers.
    If not, the program must be right for every grid.
    `schedule`: fields of the schedule that the text fixes, flags as 0 and 1.
    """

    kernel: str
    buffers: Sequence[Buffer]
    params: Mapping[str, int]
    target: str = ""
    owns_grid: bool = False
    schedule: Mapping[str, int] = field(default_factory=dict)

    def at(self, default: S) -> S:
        """The schedule `default` with the fields that the text fixes.  Raises ValueError."""
        kinds = {f.name: type(getattr(default, f.name)) for f in fields(default)}  # type: ignore[arg-type]
        for name, value in self.schedule.items():
            if name not in kinds or name == "strided":
                raise ValueError(f"its schedule here has no {name}: {default}")
            if kinds[name] is bool and value not in (0, 1):
                raise ValueError(f"{name} is a flag, 0 or 1, not {value}")
        fixed = {name: kinds[name](value) for name, value in self.schedule.items()}
        return replace(default, **fixed)  # type: ignore[type-var]

    def count(self, place: int) -> int | None:
        return self.buffers[place].count

    def dtype(self, place: int = 0) -> DataType:
        return self.buffers[place].dtype

    def one_type(self) -> DataType:
        """The element type that all buffers share.  Raises ValueError."""
        types = {buffer.dtype for buffer in self.buffers}
        if len(types) > 1:
            named = ", ".join(f"@{b.name} {b.dtype}" for b in self.buffers)
            raise ValueError(f"its buffers hold different types ({named})")
        return self.dtype()


@dataclass(frozen=True)
class Expansion:
    """A new program, whose first bound buffers are the kernel's roles; the caller may change it.

    `grid`: workgroups along x; over the lengths of the kernel's buffers where these are open, and None where
    they decide more than the grid.  `scratch`: elements of each bound buffer after the roles, which are zero
    when the program starts.
    """

    program: Program
    schedule: Any
    grid: Extent | None
    scratch: Mapping[str, int] | None = None


def is_of_plugin(kernel: str) -> bool:
    """Whether a kernel is of another package: its expansion is all there is of it, for the interpreter too."""
    return kernel not in EXPANSIONS


def expand(request: ExpansionRequest) -> Expansion:
    """Raises ValueError saying what rules an expansion out, PluginError for a wrong one of another package."""
    build = EXPANSIONS.get(request.kernel)
    expansion = build(request) if build is not None else _of_plugin(request)
    if expansion.program.lanes > MAX_LANES:
        raise ValueError(
            f"its schedule makes workgroups of {expansion.program.lanes} invocations; at most {MAX_LANES}"
        )
    return expansion


def _of_plugin(request: ExpansionRequest) -> Expansion:
    """What the function of another package builds, with its ops expanded."""
    from ..rewriting.expansion import expand_ops

    build = OPS[request.kernel].expansion
    assert build is not None
    where = f"the function of {request.kernel} in {build.__module__}"
    try:
        expansion = build(request)
    except (ValueError, DiagnosticError):
        raise
    except Exception as error:
        raise PluginError(f"{where} fails: {type(error).__name__}: {error}") from error
    if not isinstance(expansion, Expansion) or not isinstance(expansion.program, Program):
        raise PluginError(f"{where} returns an Expansion of a Program, and not {expansion!r}")
    formals = expansion.program.bound_buffers[: len(request.buffers)]
    if [b.dtype for b in formals] != [b.dtype for b in request.buffers]:
        listed = ", ".join(f"@{b.name} {b.dtype}" for b in formals)
        wanted = ", ".join(f"@{b.name} {b.dtype}" for b in request.buffers)
        raise PluginError(f"{where} returns a program whose buffers are {listed or 'none'}, for {wanted}")
    if request.owns_grid and expansion.grid is None:
        raise PluginError(f"{where} returns no grid for a launch of its own")
    if not is_dataclass(expansion.schedule):
        raise PluginError(f"{where} returns a schedule that is no dataclass: {expansion.schedule!r}")
    expand_ops(expansion.program)
    return expansion


def _softmax(r: ExpansionRequest) -> Expansion:
    from . import softmax_schedules as k
    from .softmax_rows import softmax

    columns, count = r.params["columns"], r.count(0)
    if columns and count is not None and count % columns:
        raise ValueError(f"@{r.buffers[0].name} has {count} elements, which are not rows of {columns}")
    if not 1 <= columns <= k.MAX_COLUMNS:
        raise ValueError(f"rows have 1 to {k.MAX_COLUMNS} columns, not {columns}")
    rows = None if count is None else count // columns
    schedule = k.softmax_schedule(columns, r.dtype(), r.target, rows)
    schedule = r.at(replace(schedule, strided=not r.owns_grid))
    if schedule.splits > 1 and not (is_gpu(r.target) and r.owns_grid and rows is not None):
        raise ValueError(
            "rows that workgroups share need state of their own, and a GPU: only for a pipeline's stage"
        )
    program = softmax.__wrapped__(columns, r.dtype(), schedule, r.dtype(1))
    if rows is None:
        return Expansion(program, schedule, None)
    grid = k.softmax_grid(schedule, rows)
    return Expansion(program, schedule, grid, {"state": grid, "ticket": 1} if schedule.splits > 1 else None)


def _softmax_step(r: ExpansionRequest) -> Expansion:
    from . import softmax_fixed as k

    count = r.count(0)
    schedule = r.at(k.softmax_step_schedule(count, r.target))
    program = k.softmax_step.__wrapped__(schedule)
    return Expansion(program, schedule, None if count is None else k.softmax_step_grid(schedule, count))


def _matvec(r: ExpansionRequest) -> Expansion:
    from . import matvec as k

    cells, columns = r.count(0), r.count(1)
    rows = cells // columns if cells and columns else None
    schedule = k.matvec_schedule(columns, rows, r.target, r.owns_grid)
    schedule = r.at(replace(schedule, strided=not r.owns_grid))
    if schedule.vector > 1 and (not columns or columns % schedule.vector):
        raise ValueError(
            f"vectors of {schedule.vector} do not divide {columns or 'an open number of'} columns"
        )
    program = k.matvec_fixed.__wrapped__(r.dtype(0), schedule, r.dtype(1), r.dtype(2))
    if cells is None or columns is None:
        return Expansion(program, schedule, None)
    if not columns or cells % columns:
        raise ValueError(f"a matrix of {cells} elements has no rows of {columns}")
    rows = cells // columns
    scratch = {"sums": rows} if schedule.splits > 1 else None
    return Expansion(program, schedule, k.matvec_grid(schedule, rows), scratch)


def _matmul(r: ExpansionRequest) -> Expansion:
    from . import matmul_program as k

    depth, columns, count = r.params["depth"], r.params["columns"], r.count(0)
    if count is not None and count % depth:
        raise ValueError(f"@{r.buffers[0].name} has {count} elements, which are not rows of {depth}")
    rows = None if count is None else count // depth
    bias = r.dtype(3) if len(r.buffers) > 3 else None
    problem = k.MatmulProblem(depth, columns, r.dtype(0), r.dtype(2), bias, r.params["activation"])
    default: k.Schedule = replace(
        k.matmul_schedule(rows, columns, r.target, sums=problem.sums), strided=not r.owns_grid
    )
    takes_units = r.owns_grid and k.units_take(problem, r.target)
    if r.schedule.keys() & k.UNIT_FIELDS:
        if not takes_units:
            raise ValueError("matrix units: of f16 and bf16, from sm_80 on, for a stage or a grid of its own")
        default = k.UnitSchedule()
    elif takes_units and not r.schedule:
        default = k.unit_schedule(rows, columns, r.target)
    schedule = r.at(default)
    program = k.matmul.__wrapped__(problem, schedule)
    return Expansion(program, schedule, None if rows is None else k.matmul_grid(schedule, rows, columns))


def _contract_step(r: ExpansionRequest) -> Expansion:
    from . import tensor_train as k

    inner, cells = r.count(0), r.count(1)
    schedule = r.at(k.contract_step_schedule(inner, cells, r.target, r.owns_grid))
    if inner is None or cells is None:
        if schedule.vector > 1 or schedule.splits > 1:
            raise ValueError(
                f"vectors and workgroups that share columns need a known number of these: {schedule}"
            )
        return Expansion(k.contract_step.__wrapped__(r.one_type(), schedule), schedule, None)
    if not inner or cells % inner:
        raise ValueError(f"a core of {cells} elements has no {inner} rows")
    outer = cells // inner
    if outer % schedule.vector:
        raise ValueError(f"vectors of {schedule.vector} do not divide {outer} columns")
    if schedule.splits > 1 and not r.owns_grid:
        raise ValueError("columns that workgroups share need sums of their own: only for a pipeline's stage")
    program, grid = k.contract_step.__wrapped__(r.one_type(), schedule), k.contract_step_grid(schedule, outer)
    if schedule.splits == 1:
        return Expansion(program, schedule, grid)
    partials, arrived = k.contract_step_scratch(schedule, outer)
    return Expansion(program, schedule, grid, {"partials": partials, "arrived": arrived})


def _prefix(r: ExpansionRequest) -> Expansion:
    from . import scan as k

    count, dtype = r.count(0), r.one_type()
    schedule = r.at(k.prefix_schedule(count, r.target, look_back=r.owns_grid, dtype=dtype))
    if schedule.look_back and (not r.owns_grid or count is None):
        raise ValueError("a look-back needs state of its own, and a known count: only for a pipeline's stage")
    program = k.prefix.__wrapped__(dtype, schedule)
    if not schedule.look_back:
        return Expansion(program, schedule, 1)
    assert count is not None
    scratch = {"state": k.prefix_state(schedule, count, dtype), "ticket": 1}
    return Expansion(program, schedule, k.prefix_grid(schedule, count), scratch)


def _tiles(r: ExpansionRequest, size: int) -> Extent | None:
    """The grid of a kernel whose workgroups share its first buffer in tiles of `size` elements."""
    count = r.count(0)
    if count is not None:
        return max(1, -(-count // size))
    if not r.owns_grid:
        return None
    length = GridCall("len", (r.buffers[0].name,))
    return GridCall("max", (1, GridCall("ceil_div", (length, size))))


def _decode(r: ExpansionRequest) -> Expansion:
    from . import decode as k

    build = k.base64 if r.kernel == "decode.base64" else k.hex_text
    schedule = r.at(replace(k.decode_schedule(r.target), strided=not r.owns_grid))
    grid = _tiles(r, schedule.lanes * schedule.characters)
    return Expansion(build.__wrapped__(schedule), schedule, grid)


def _dfa(r: ExpansionRequest) -> Expansion:
    from . import dfa as k

    warmup = r.params["warmup"]
    schedule = r.at(k.dfa_schedule(warmup, r.target, strided=not r.owns_grid))
    if "staged" not in r.schedule and sum(k.memory_bytes(warmup, r.dtype(1), schedule)) > k.MAX_SLAB:
        schedule = replace(schedule, staged=False)  # for lanes and a chunk that the text fixes
    program = k.dfa.__wrapped__(warmup, r.dtype(1), schedule)
    return Expansion(program, schedule, _tiles(r, schedule.tile))


def _chain(r: ExpansionRequest) -> Expansion:
    from . import chain as k

    ranks = k.uniform_ranks(**r.params)
    schedule = r.at(k.chain_schedule(ranks, r.target, r.owns_grid))
    if schedule.workgroups > 1 and not r.owns_grid:
        raise ValueError(
            "a chain over several workgroups needs a grid of its own: only for a pipeline's stage"
        )
    for place, size in enumerate((ranks[0], sum(x * y for x, y in pairwise(ranks)))):
        if r.count(place) not in (None, size):
            name = r.buffers[place].name
            raise ValueError(f"@{name} has {r.count(place)} elements, its ranks take {size}")
    return Expansion(k.chain.__wrapped__(ranks, r.one_type(), schedule), schedule, schedule.workgroups)


def _embedding(r: ExpansionRequest) -> Expansion:
    from . import embedding as k

    shape, count = k.EmbeddingShape.of(r.params), r.count(1)
    if r.count(0) not in (None, shape.elements):
        name = r.buffers[0].name
        raise ValueError(f"@{name} has {r.count(0)} elements, its shapes take {shape.elements}")
    default: k.Schedule = k.embedding_schedule(
        shape, not r.owns_grid, count, r.target, r.dtype(0), r.dtype(2)
    )
    if "terms" in r.schedule:
        default = k.PairSchedule(strided=not r.owns_grid)
    elif "lanes" in r.schedule:
        default = k.EmbeddingSchedule(strided=not r.owns_grid)
    elif r.schedule.keys() & {"chunk", "columns", "subgroups"}:
        if not r.owns_grid:
            raise ValueError("lookups grouped by slice need a grid of their own: only for a pipeline's stage")
        default = k.EmbeddingUnitSchedule() if "subgroups" in r.schedule else k.GroupedSchedule()
    schedule = r.at(default)
    program = k.embedding.__wrapped__(shape, r.dtype(0), schedule, r.dtype(2))
    return Expansion(program, schedule, None if count is None else k.embedding_grid(schedule, shape, count))


EXPANSIONS: dict[str, Callable[[ExpansionRequest], Expansion]] = {
    "decode.base64": _decode,
    "decode.hex": _decode,
    "scan.dfa": _dfa,
    "scan.prefix": _prefix,
    "math.softmax": _softmax,
    "math.softmax_step": _softmax_step,
    "math.matvec_fixed": _matvec,
    "math.matmul": _matmul,
    "tt.contract_step": _contract_step,
    "tt.chain": _chain,
    "tt.embedding": _embedding,
}
"""Kernel -> the function that expands it; it imports the kernel's module only when called."""

ANY_LENGTH = frozenset({"decode.base64", "decode.hex", "scan.dfa"})
"""Kernels of which a stage is the same program for all lengths, over a grid that is an expression of these."""

ANY_LANES = frozenset({"decode.base64", "decode.hex"})
"""Kernels for which the lanes of a workgroup hardly matter: each has a run of its own, and they exchange nothing."""
