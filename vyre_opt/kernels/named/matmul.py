"""math.matmul: C = activation(A B + bias), A in rows of `depth`, B and C in rows of `columns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import erf, prod, sqrt

from ...ir.types import DataType
from .. import matmul_program as k
from ..call import Call, EmptyResult, InputSlice, KernelCall, Steps, launch
from ..expansion import Expansion, ExpansionRequest
from ..pitched_rows import pitch_of, pitched_rows, pitched_rows_grid
from .kernel import MAX_ELEMENTS, Array, NamedKernel, OperandLike, TargetDevice, element_type, factors

_factors = partial(factors, k.MatmulSchedule)
_BLOCKS = (16, 48, 96, 192)
_GPU_LANES = (
    (256, 16, 8, 8),
    (128, 8, 8, 8),
    (128, 16, 8, 8),
    (128, 16, 8, 4),
    (256, 16, 4, 4),
    (128, 16, 4, 4),
    (128, 16, 4, 2),
    (128, 4, 4, 4),
    (128, 8, 2, 2),
)
"""Lanes, lanes side by side, and rows and columns of a lane."""


class Matmul(NamedKernel):
    name = "math.matmul"
    gpu = tuple(
        _factors(
            lanes=(lanes,),
            lanes_n=(lanes_n,),
            rows_per_thread=(rows,),
            columns_per_thread=(columns,),
            block_m=(lanes // lanes_n * rows,),
            block_k=(8, 16, 32),
            unroll=(8, 16),
            prefetch=(0, 1),
        )
        for lanes, lanes_n, rows, columns in _GPU_LANES
    )
    cpu = (
        _factors(
            rows_per_thread=(2, 3, 4, 6), columns_per_thread=(2,), block_m=_BLOCKS, block_k=(0, 128, 256, 512)
        ),
        _factors(rows_per_thread=(2, 3, 4), columns_per_thread=(3,), block_m=_BLOCKS, block_k=(0, 128, 256)),
        _factors(rows_per_thread=(3, 6, 12), columns_per_thread=(1,), block_m=_BLOCKS, block_k=(0, 128, 256)),
        _factors(
            lanes_n=(1,), rows_per_thread=(1, 4, 6, 8), columns_per_thread=(1,), block_m=_BLOCKS, block_k=(0,)
        ),
    )

    def expand(self, r: ExpansionRequest) -> Expansion:
        depth, columns, count = r.params["depth"], r.params["columns"], r.count(0)
        rows = None if count is None else count // depth
        bias = r.dtype(3) if len(r.buffers) > 3 else None
        problem = k.MatmulProblem(depth, columns, r.dtype(0), r.dtype(2), bias, r.params["activation"])
        default: k.Schedule = replace(
            k.matmul_schedule(rows, columns, r.target, sums=problem.sums), strided=not r.owns_grid
        )
        takes_units = r.owns_grid and k.units_take(problem, r.target)
        if r.schedule.keys() & k.UNIT_FIELDS and not takes_units:
            raise ValueError("matrix units: of f16 and bf16, from sm_80 on, for a stage or a grid of its own")
        if takes_units and not r.schedule.keys() & k.LANE_FIELDS:
            default = k.UnitSchedule() if r.schedule else k.unit_schedule(rows, columns, r.target)
        schedule = r.at(default)
        grid = None if rows is None else k.matmul_grid(schedule, rows, columns)
        return Expansion(r.build(k.matmul, problem, schedule), schedule, grid)

    def reference(
        self, a: Array, b: Array, bias: Array | None = None, *, depth: int, columns: int, activation: int = 0
    ) -> Array:
        """Reference product in f64."""
        import numpy as np

        if depth < 1 or len(a) % depth:
            raise ValueError(f"{len(a)} elements are not rows of {depth}")
        if len(b) != depth * columns:
            raise ValueError(f"B has {len(b)} elements; {depth} rows of {columns} have {depth * columns}")
        if bias is not None and len(bias) != columns:
            raise ValueError(f"a bias of {len(bias)} elements for {columns} columns")
        with np.errstate(all="ignore"):
            total = a.astype(np.float64).reshape(-1, depth) @ b.astype(np.float64).reshape(depth, columns)
            if bias is not None:
                total += bias
            return _activated(total, k.ACTIVATIONS[activation]).reshape(-1)

    def call(
        self,
        device: TargetDevice,
        arrays: Sequence[OperandLike],
        activation: str = "none",
        dtype: str | None = None,
        result: str | None = None,
    ) -> Call | Steps:
        """Multiply matrices, vectors and stacks; their sizes are runtime scalars except on matrix units."""
        a, b, *rest = arrays
        element = element_type(a, "a", self.row.roles[0].types, dtype)
        element_type(b, "b", (element,), dtype)
        if activation not in k.ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(k.ACTIVATIONS)}, not {activation!r}")
        if result not in (None, "f32", element.name):
            raise ValueError(f"the result is of f32 or, like a, of {element.name}, not of {result!r}")
        is_row, is_column = len(a.shape) == 1, len(b.shape) == 1
        *a_extents, rows, depth = (1, *a.shape) if is_row else a.shape or (0, 0)
        *b_extents, b_depth, columns = (*b.shape, 1) if is_column else b.shape or (0, 0)
        if not a.shape or not b.shape or depth != b_depth:
            help = _shape_advice(a.shape, b.shape, [each.shape for each in rest])
            raise ValueError(
                f"a and b are matrices (rows, depth) and (depth, columns), not {a.shape} and {b.shape}{help}"
            )
        extents = _broadcast(tuple(a_extents), tuple(b_extents))
        shape = (*extents, *[rows][is_row:], *[columns][is_column:])
        count = prod(shape)
        if not depth:
            raise ValueError("a has no columns and b no rows; their depth is at least 1")
        bias = _bias_type(rest[0], element, columns, dtype) if rest else None
        if max(a.count, b.count, count) > MAX_ELEMENTS:
            stacks = f"{prod(extents)} products of " if extents else ""
            raise ValueError(
                f"{stacks}matrices of {rows} x {depth} x {columns} have more than 2^32 - 1 elements"
            )
        if not count:
            return EmptyResult(shape, kind="float32" if result == "f32" else "")
        wide = DataType.F32 if result == "f32" else element
        pitches = pitch_of(depth, element), pitch_of(columns, element)
        batch = k.batch_of(a_extents, b_extents, rows)
        number = k.ACTIVATIONS.index(activation)
        problem = k.MatmulProblem(depth, columns, element, wide, bias, number, pitches, len(batch.axes))
        fits = max(a.count // depth * pitches[0], b.count // columns * pitches[1]) <= MAX_ELEMENTS
        if not fits or not k.units_take(problem, device.architecture):
            return _product(device, replace(problem, pitches=None), batch, shape)
        product = _product(device, problem, batch, shape)
        # on matrix units all rows begin aligned: otherwise of copies of the matrices whose rows do
        steps: list[tuple[KernelCall, tuple[int | InputSlice, ...]]] = []
        inputs = list(range(len(arrays)))
        for index, size, pitch in ((0, depth, pitches[0]), (1, columns, pitches[1])):
            if pitch != size:
                copied = arrays[index].count // size
                grid = pitched_rows_grid(size, copied, element)
                inputs[index] = len(arrays) + len(steps)
                steps.append((launch(pitched_rows(size, element), grid, (copied, pitch)), (index,)))
        return Steps((*steps, (product, tuple(inputs)))) if steps else product


def _shape_advice(a: Sequence[int], b: Sequence[int], rest: Sequence[Sequence[int]]) -> str:
    """Advice for shapes of factors that do not fit: a factor that is transposed, or the result passed first."""
    if rest and a == (*b[:-1], *rest[0][-1:]) and b[-1:] == rest[0][-2:-1]:
        return "; the array for the result stands behind the factors: matmul(a, b, out=c)"
    if len(b) == 2 and b[-1:] == a[-1:]:
        return "; transpose b: b.T"
    matrix = b if len(b) > 1 else (*b, 1)  # a vector is a column
    if matrix[:-2] == a[:-2] and a[-2:-1] == matrix[-2:-1]:
        return "; transpose a: a.T"
    return ""


def _product(
    device: TargetDevice, problem: k.MatmulProblem, batch: k.Batch, shape: tuple[int, ...]
) -> KernelCall:
    """Launch on matrix units for a problem with pitches.  `shape`: shape of the result."""
    depth, columns = problem.depth or 0, problem.columns or 0
    sizes = batch.params
    schedule: k.Schedule
    if problem.pitches:
        schedule = k.unit_schedule(batch.rows, columns, device.architecture, device.workers, batch.count)
    else:
        schedule = k.matmul_schedule(
            batch.rows, columns, device.target, device.workers, problem.sums, batch.count
        )
        multiples = _multiple(depth, problem), _multiple(columns, problem)
        if schedule.form != "tiles":
            multiples = 1, 1  # other forms make no use of them
        problem = replace(problem, depth=None, columns=None, multiples=multiples)
        sizes |= {"depth": depth, "columns": columns}
    grid = k.matmul_grid(schedule, batch.rows, columns, batch.count)
    words = tuple(size for _, size in sorted(sizes.items()))
    return launch(k.matmul(problem, schedule), grid, shape, words=words)


def _multiple(size: int, problem: k.MatmulProblem) -> int:
    """Divisor that the code for a size may rely on; the divisors are few, so that few codes are compiled."""
    return problem.vector if size % problem.vector == 0 else 1


def _broadcast(a_extents: tuple[int, ...], b_extents: tuple[int, ...]) -> tuple[int, ...]:
    import numpy as np

    try:
        return np.broadcast_shapes(a_extents, b_extents)
    except ValueError:
        raise ValueError(
            f"a and b are stacks of matrices, (..., rows, depth) and (..., depth, columns), whose leading extents "
            f"broadcast; {a_extents} and {b_extents} do not"
        ) from None


def _bias_type(bias: OperandLike, element: DataType, columns: int, dtype: str | None) -> DataType:
    if bias.shape != (columns,):
        raise ValueError(f"the bias has shape {bias.shape}, not ({columns},)")
    if bias.kind == "float32":
        return DataType.F32  # whatever `dtype` says of the matrices
    return element_type(bias, "bias", tuple(dict.fromkeys((element, DataType.F32))), dtype)


def _activated(x: Array, activation: str) -> Array:
    import numpy as np

    match activation:
        case "relu":
            return np.where(x < 0, 0.0, x)
        case "gelu":
            return x / 2 * (1 + np.vectorize(erf, otypes=[np.float64])(x * sqrt(0.5)))
        case "silu":
            return x / (1 + np.exp(-x))
    return x
