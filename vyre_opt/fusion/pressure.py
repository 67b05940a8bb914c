"""Fusion pressure: how strongly the neighbours of a chain are tied by what they hand over.

A chain of regions or launches is a tensor train.  Rank i is the count of elements in the
buffer that neighbours i and i+1 share; every core is all ones.  Contracted, it gives the
product of the ranks:

    [1] -> 1 x r0 of ones -> r0 x r1 of ones -> ... -> r(n-1) x 1 of ones  =  r0 r1 ... r(n-1)

The contraction is run, not assumed: each step is a dispatch of the compiler's own
tt.contract_step in 16.16, where an accumulator of u32 starts as [1] and a core holds 1 << 16,
so each step multiplies exactly for as long as the product is a u32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import isinf, isnan
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any

from ..runtime.dispatcher import BadInputs, Dispatcher, Scratch, shared_dispatcher
from ..runtime.integers import integer_in, items_of
from ..runtime.outputs import u32_output
from .power_compare import is_within_power, product

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MAX_CELLS", "checked_ranks", "fusion_pressure", "pressure_of", "should_fuse_chain"]

U32_MAX = (1 << 32) - 1
MAX_CELLS = 1 << 20
"""Of a core, in elements: 4 MiB."""
ONE = 1 << 16
REMEDY = "shard the chain or lower the ranks"


def fusion_pressure(
    ranks: Iterable[int], dispatcher: str | Dispatcher = "cpu", *, scratch: Scratch | None = None
) -> float:
    """The product of the nonzero ranks, by one dispatch for each of them and a last one to rank 1.

    `ranks`: u32 numbers, as ints or a NumPy array of integers.  No ranks give 0.0 without a
    dispatch; ranks that are all zero give 1.0.
    `scratch`: storage to keep between calls: the cores' elements, and what the backend keeps.

    Raises BadInputs before anything is allocated or dispatched for what is no rank, a product
    beyond u32, or a core of more than MAX_CELLS cells; BackendError for an output that does not
    have exactly the elements of its step.
    """
    links = checked_ranks(ranks)
    if not links:
        return 0.0
    bonds = [1, *(rank for rank in links if rank), 1]
    _check_size(bonds)
    return float(_contract(bonds, dispatcher, scratch))


def pressure_of(ranks: Iterable[int]) -> int:
    """What `fusion_pressure` gives, in closed form and of any size: exact, and 0 for no ranks.

    Python prints no int of more than 4300 digits; show such a one by its `bit_length()`.
    """
    links = checked_ranks(ranks)
    return product([rank for rank in links if rank]) if links else 0


def should_fuse_chain(
    ranks: Iterable[int],
    threshold_per_link: float | Fraction,
    dispatcher: str | Dispatcher | None = None,
) -> bool:
    """Whether the pressure is at most threshold_per_link^n, n the count of all ranks, zeros included.

    That is ln(pressure) / n <= ln(threshold), decided in rationals, so that no rounding of a
    logarithm takes part.  No ranks: False.  An infinite threshold fuses every chain.

    With a `dispatcher` the pressure is the one it computes, within its limits (see
    `fusion_pressure`); without one it is the closed form, of any size.  Both decide alike.

    Raises BadInputs for a threshold that is not a number above zero, also where there are no ranks.
    """
    threshold = _checked_threshold(threshold_per_link)
    links = checked_ranks(ranks)
    if not links:
        return False
    if dispatcher is None:
        factors = [rank for rank in links if rank]
    else:
        factors = [int(fusion_pressure(links, dispatcher=dispatcher))]
    return threshold is None or is_within_power(factors, threshold, len(links))


def checked_ranks(ranks: Iterable[int]) -> list[int]:
    """The ranks as ints.  Raises BadInputs for what is not a sequence of u32 numbers."""
    found = items_of(ranks, "ranks are a sequence of u32 numbers")
    return [_checked_rank(rank, position) for position, rank in enumerate(found)]


def _checked_rank(rank: Any, position: int) -> int:
    value = integer_in(rank, 0, U32_MAX)
    if value is None:
        raise BadInputs(f"rank {position} is {rank!r}; a rank is an integer from 0 to {U32_MAX}")
    return value


def _checked_threshold(threshold: Any) -> Fraction | None:
    """As a fraction; None if it is infinite."""
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
    """Raises BadInputs for a chain that the contraction cannot hold."""
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
    # Other people's dispatchers need not know of scratch: it goes along only where it is given.
    options: dict[str, Any] = {} if scratch is None else {"scratch": scratch}
    ones = _ones(max(rows * columns for rows, columns in pairwise(bonds)), scratch)
    accumulator = np.ones(1, np.uint32)
    for rows, columns in pairwise(bonds):
        # An array, not a Room, for the same reason.
        inputs = [accumulator, ones[: rows * columns], np.zeros(columns, np.uint32)]
        grid = (contract_step_grid(schedule, columns), 1, 1)
        outputs = backend.dispatch(program, inputs, grid, **options)
        accumulator = u32_output(outputs, columns, "tt.contract_step in fusion_pressure")
    return int(accumulator[0])


def _ones(cells: int, scratch: Scratch | None) -> np.ndarray:
    """At least `cells` elements of 1.0 in 16.16; kept in `scratch` under a name that no buffer has."""
    import numpy as np

    kept = scratch.storage.get("cores of ones") if scratch is not None else None
    if isinstance(kept, np.ndarray) and len(kept) >= cells:
        return kept
    made = np.full(cells, ONE, np.uint32)
    if scratch is not None:
        scratch.storage["cores of ones"] = made
    return made
