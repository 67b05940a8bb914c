"""The policy over configurations in 16.16 fixed point, computed by the compiler's own programs.

    pre_exp  -- math.softmax_step -->  p_i = floor((pre_exp_i << 16) / max(sum, 1))
    p        -- math.matvec_fixed -->  g_i = sum_j (M_ij * p_j) >> 16, modulo 2^32

`pre_exp` are weights before they are normalised, exp(-cost / T) in 16.16, say.  Integers
throughout, so every target gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..execution.dispatcher import BadInputs, Dispatcher, Scratch, shared_dispatcher
from ..execution.integers import integer_in, items_of
from ..execution.outputs import u32_output

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "config_gradient_magnitude_pre_exp_fixed",
    "like",
    "matvec",
    "natural_config_gradient_pre_exp_fixed",
    "pick_config_pre_exp_fixed",
]

Target = str | Dispatcher
U32_MAX = (1 << 32) - 1


def pick_config_pre_exp_fixed(
    pre_exp: Sequence[int] | np.ndarray, dispatcher: Target = "cpu", *, scratch: Scratch | None = None
) -> Any:
    """floor((pre_exp_i << 16) / max(sum of all, 1)): the probability of each candidate in 16.16.

    `pre_exp`: u32 numbers, as a sequence of ints or a NumPy array; the result is a list of ints or a u32
    array accordingly.  Sum and numerator are 64 bits wide.
    `scratch`: storage that is reused by later calls.

    Raises BadInputs, before anything is dispatched, if there is no candidate or one is not a u32 number;
    BackendError if the output does not have exactly one element for each candidate.
    """
    weights = _candidates(pre_exp)
    return like(pre_exp, _softmax_step(weights, _backend(dispatcher), scratch))


def config_gradient_magnitude_pre_exp_fixed(
    pre_exp: Sequence[int] | np.ndarray, dispatcher: Target = "cpu", *, scratch: Scratch | None = None
) -> Any:
    """The absolute value of `config_gradient` in 16.16, which is the probability of each candidate."""
    return pick_config_pre_exp_fixed(pre_exp, dispatcher, scratch=scratch)


def natural_config_gradient_pre_exp_fixed(
    pre_exp: Sequence[int] | np.ndarray,
    m_inv_sqrt: Sequence[int] | np.ndarray,
    dispatcher: Target = "cpu",
    *,
    scratch: Scratch | None = None,
) -> Any:
    """M times the gradient's magnitude: each product shifted right by 16, rows summed modulo 2^32.

    `m_inv_sqrt`: the matrix M, n x n for n candidates, row-major, signed 16.16 numbers as u32 bits or as
    signed integers, flat or of shape (n, n).  Two dispatches, a softmax step and a matrix times a vector.

    Raises as `pick_config_pre_exp_fixed` does, and BadInputs for a matrix of another size.
    """
    import numpy as np

    weights = _candidates(pre_exp)
    matrix = _matrix(m_inv_sqrt, len(weights))
    backend = _backend(dispatcher)
    magnitudes = _softmax_step(weights, backend, scratch)
    return like(pre_exp, matvec(matrix.view(np.uint32), magnitudes, backend, scratch))


def matvec(
    matrix: np.ndarray, vector: np.ndarray, dispatcher: Target, scratch: Scratch | None = None
) -> np.ndarray:
    """matrix @ vector in signed 16.16, by math.matvec_fixed; both are u32 arrays, the matrix flat and row-major."""
    from ..kernels.matvec import matvec_fixed, matvec_grid, matvec_schedule

    schedule, rows = matvec_schedule(len(vector)), len(matrix) // len(vector)
    grid = (matvec_grid(schedule, rows), 1, 1)
    inputs = [matrix, vector, _zeros(rows, scratch)]
    outputs = _backend(dispatcher).dispatch(
        matvec_fixed(schedule=schedule), inputs, grid, **_options(scratch)
    )
    return u32_output(outputs, rows, "math.matvec_fixed in the autotuner")


def _softmax_step(weights: np.ndarray, backend: Dispatcher, scratch: Scratch | None) -> np.ndarray:
    from ..kernels.softmax_fixed import SoftmaxStepSchedule, softmax_step, softmax_step_grid

    schedule, count = SoftmaxStepSchedule(), len(weights)
    grid = (softmax_step_grid(schedule, count), 1, 1)
    inputs = [weights, _zeros(count, scratch)]
    outputs = backend.dispatch(softmax_step(schedule), inputs, grid, **_options(scratch))
    return u32_output(outputs, count, "math.softmax_step in the autotuner")


def _options(scratch: Scratch | None) -> dict[str, Any]:
    """Options of `dispatch`: a dispatcher that is not ours need not have `scratch`, so it is passed only if given."""
    return {} if scratch is None else {"scratch": scratch}


def _zeros(count: int, scratch: Scratch | None) -> np.ndarray:
    """An array to pass for an output, of its length; cached in `scratch` under a name that no buffer can have."""
    import numpy as np

    zeros = scratch.storage.get("zeros of the autotuner") if scratch is not None else None
    if not isinstance(zeros, np.ndarray) or len(zeros) < count:
        zeros = np.zeros(count, np.uint32)
        if scratch is not None:
            scratch.storage["zeros of the autotuner"] = zeros
    return zeros[:count]


def _backend(dispatcher: Target) -> Dispatcher:
    backend = shared_dispatcher(dispatcher)
    if not hasattr(backend, "dispatch"):
        raise BadInputs(f"dispatcher is ref, cpu, cuda or an object with dispatch(), not {dispatcher!r}")
    return backend


def like(source: Any, result: np.ndarray) -> Any:
    """`result` as an array if `source` is one, else as a list."""
    return result if hasattr(source, "dtype") else result.tolist()


# --- arguments


def _candidates(pre_exp: Any) -> np.ndarray:
    weights = _words(pre_exp, "pre_exp", 0)
    if len(weights) == 0:
        raise BadInputs("pre_exp requires at least one candidate")
    return weights


def _matrix(rows: Any, candidates: int) -> np.ndarray:
    shape = getattr(rows, "shape", None)
    if shape is not None and len(shape) > 1 and tuple(shape) != (candidates, candidates):
        raise BadInputs(f"m_inv_sqrt has shape {tuple(shape)}; {candidates} candidates take a square of it")
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, (list, tuple)) for row in rows):
        if any(len(row) != candidates for row in rows):
            raise BadInputs(f"m_inv_sqrt has a row that is not of {candidates} elements")
        rows = [cell for row in rows for cell in row]
    matrix = _words(rows, "m_inv_sqrt", -(1 << 31))
    if len(matrix) != candidates**2:
        raise BadInputs(
            f"m_inv_sqrt has {len(matrix)} elements; {candidates} candidates take {candidates} x {candidates}"
        )
    return matrix


def _words(numbers: Any, name: str, low: int) -> np.ndarray:
    """Integers from `low` to 2^32 - 1 as u32, negative ones in two's complement.  Raises BadInputs."""
    import numpy as np

    if isinstance(numbers, np.ndarray):
        if numbers.dtype.kind not in "iu":
            raise BadInputs(f"{name} is an array of {numbers.dtype.name}; it takes integers")
        flat = numbers.reshape(-1)
        if (
            flat.dtype != np.uint32
            and flat.size
            and not (low <= int(flat.min()) <= int(flat.max()) <= U32_MAX)
        ):
            raise BadInputs(f"{name} takes numbers from {low} to {U32_MAX}")
        return np.ascontiguousarray(flat.astype(np.uint32, copy=False))
    items = items_of(numbers, f"{name} is a sequence of integers")
    return np.array([_word(item, name, k, low) for k, item in enumerate(items)], np.uint32)


def _word(number: Any, name: str, index: int, low: int) -> int:
    value = integer_in(number, low, U32_MAX)
    if value is None:
        raise BadInputs(f"{name}[{index}] is {number!r}; it takes integers from {low} to {U32_MAX}")
    return value & U32_MAX
