"""Fusion pressure: how strongly the neighbours of a chain are tied by what they hand over.

A chain of regions or launches is taken as a tensor train.  Rank i is the number of elements in the
buffer that neighbours i and i+1 share, and every core is all ones, so the contraction is the product of
the ranks:

    [1] -> 1 x r0 of ones -> r0 x r1 of ones -> ... -> r(n-1) x 1 of ones  =  r0 r1 ... r(n-1)

`fusion_pressure` really runs it: each step is a dispatch of the compiler's own tt.contract_step in 16.16
fixed point.  The u32 accumulator starts as [1] and a core holds 1.0 = 1 << 16, so each step is exact as
long as the product is a u32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import isinf, isnan
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any

from ..execution.dispatcher import BadInputs, Dispatcher, Scratch, shared_dispatcher
from ..execution.integers import integer_in, items_of
from ..execution.outputs import u32_output
from .power_compare import is_within_power, product

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MAX_CELLS",
    "checked_ranks",
    "fusion_pressure",
    "is_within_threshold",
    "pressure_of",
    "should_fuse_chain",
]

U32_MAX = (1 << 32) - 1
MAX_CELLS = 1 << 20
"""Most elements of a core: 4 MiB."""
ONE = 1 << 16  # 1.0 in 16.16
REMEDY = "shard the chain or lower the ranks"


def fusion_pressure(
    ranks: Iterable[int], dispatcher: str | Dispatcher = "cpu", *, scratch: Scratch | None = None
) -> float:
    """The product of the nonzero ranks, by one dispatch for each of them and a last one to rank 1.

    `ranks`: u32 numbers, as ints or a NumPy array of integers.  No ranks give 0.0 without a
    dispatch; ranks that are all zero give 1.0.
    `scratch`: storage reused between calls, for the cores and by the backend.

    Raises BadInputs, before anything is allocated or dispatched, for a rank that is no u32, a product
    beyond u32, or a core of more than MAX_CELLS cells; BackendError for an output with other elements
    than those of its step.
    """
    links = checked_ranks(ranks)
    if not links:
        return 0.0
    bonds = [1, *(rank for rank in links if rank), 1]
    _check_size(bonds)
    return float(_contract(bonds, dispatcher, scratch))


def pressure_of(ranks: Iterable[int]) -> int:
    """The result of `fusion_pressure` in closed form, exact and of any size; 0 for no ranks.

    Python prints no int of more than 4300 digits; show a larger one by its `bit_length()`.
    """
    links = checked_ranks(ranks)
    return product([rank for rank in links if rank]) if links else 0


def should_fuse_chain(
    ranks: Iterable[int], threshold_per_link: float | Fraction, dispatcher: str | Dispatcher | None = None
) -> bool:
    """Whether the pressure is at most threshold_per_link^n, n the count of all ranks, zeros included.

    That is ln(pressure) / n <= ln(threshold), but compared exactly, in rationals.  No ranks: False.  An
    infinite threshold fuses every chain.

    With a `dispatcher` the pressure is computed there, within the limits of `fusion_pressure`; without one
    it is the closed form, of any size.  Both decide the same.

    Raises BadInputs for a threshold that is not a number above zero, also where there are no ranks.
    """
    _checked_threshold(threshold_per_link)
    links = checked_ranks(ranks)
    if not links:
        return False
    if dispatcher is None:
        factors = [rank for rank in links if rank]
    else:
        factors = [int(fusion_pressure(links, dispatcher=dispatcher))]
    return is_within_threshold(factors, len(links), threshold_per_link)


def is_within_threshold(factors: Sequence[int], links: int, threshold_per_link: float | Fraction) -> bool:
    """Whether a pressure, as positive factors of it, is at most threshold_per_link^links; exact.  Raises BadInputs."""
    threshold = _checked_threshold(threshold_per_link)
    return threshold is None or is_within_power(factors, threshold, links)


def checked_ranks(ranks: Iterable[int]) -> list[int]:
    """The ranks as ints.  Raises BadInputs for what is not a sequence of u32 numbers."""
    items = items_of(ranks, "ranks are a sequence of u32 numbers")
    return [_checked_rank(rank, position) for position, rank in enumerate(items)]


def _checked_rank(rank: Any, position: int) -> int:
    value = integer_in(rank, 0, U32_MAX)
    if value is None:
        raise BadInputs(f"rank {position} is {rank!r}; a rank is an integer from 0 to {U32_MAX}")
    return value


def _checked_threshold(threshold: Any) -> Fraction | None:
    """The threshold as a fraction; None if it is infinite."""
    advice = "threshold_per_link is an int, a float or a Fraction above zero"
    if isinstance(threshold, bool) or not isinstance(threshold, Real):
        raise BadInputs(f"{advice}, not {threshold!r}")
    if isinstance(threshold, Rational):  # first: an int may be too large for isnan
        exact = Fraction(int(threshold.numerator), int(threshold.denominator))
    elif isnan(threshold) or threshold <= 0:
        raise BadInputs(f"{advice}, not {threshold}")
    elif isinf(threshold):
        return None
    else:
        exact = Fraction(*threshold.as_integer_ratio())  # type: ignore[attr-defined]
    if exact <= 0:
        raise BadInputs(f"{advice}, not {threshold}")
    return exact


def _check_size(bonds: Sequence[int]) -> None:
    """Raises BadInputs for a chain that is too large to contract."""
    pressure = 1
    for rank in bonds:
        pressure *= rank
        if pressure > U32_MAX:
            raise BadInputs(f"the product of the ranks is beyond {U32_MAX}, which u32 holds: {REMEDY}")
    for rows, columns in pairwise(bonds):
        if rows * columns > MAX_CELLS:
            raise BadInputs(
                f"a core of {rows} x {columns} has {rows * columns} cells, of {MAX_CELLS} at most: {REMEDY}"
            )


def _contract(bonds: Sequence[int], dispatcher: str | Dispatcher, scratch: Scratch | None) -> int:
    """Run the chain of all-ones cores from bond to bond, the first and the last of rank 1."""
    import numpy as np

    from ..ir.types import DataType
    from ..kernels.tensor_train import StepSchedule, contract_step, contract_step_grid

    schedule = StepSchedule()
    program = contract_step(DataType.U32, schedule)
    backend = shared_dispatcher(dispatcher)
    if not hasattr(backend, "dispatch"):
        raise BadInputs(f"dispatcher is ref, cpu, cuda or an object with dispatch(), not {dispatcher!r}")
    # a user's dispatcher need not have the parameter: pass it only if the caller gave scratch
    options: dict[str, Any] = {} if scratch is None else {"scratch": scratch}
    ones = _ones(max(rows * columns for rows, columns in pairwise(bonds)), scratch)
    accumulator = np.ones(1, np.uint32)
    for rows, columns in pairwise(bonds):
        # an array as the output, which every dispatcher takes
        inputs = [accumulator, ones[: rows * columns], np.zeros(columns, np.uint32)]
        grid = (contract_step_grid(schedule, columns), 1, 1)
        outputs = backend.dispatch(program, inputs, grid, **options)
        accumulator = u32_output(outputs, columns, "tt.contract_step in fusion_pressure")
    return int(accumulator[0])


def _ones(cells: int, scratch: Scratch | None) -> np.ndarray:
    """`cells` or more elements of 1.0 in 16.16; cached in `scratch` under a name that no buffer can have."""
    import numpy as np

    cached = scratch.storage.get("cores of ones") if scratch is not None else None
    if isinstance(cached, np.ndarray) and len(cached) >= cells:
        return cached
    ones = np.full(cells, ONE, np.uint32)
    if scratch is not None:
        scratch.storage["cores of ones"] = ones
    return ones
