"""`TTChain`: a chain of matrices that many vectors go through, prepared once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..execution.array_backend import ArrayBackend, Operand
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..execution.kernel_call import run_call
from ..ir.ops import MAX_RANK
from ..ir.types import DataType
from ..kernels.call import Call, EmptyResult, InputSlice, KernelCall, Steps, launch
from ..kernels.chain import batch_schedule, chain, chain_schedule, goes_by_steps
from ..kernels.chain_scattered import ScatterSchedule
from ..kernels.concatenate import concatenate, concatenate_grid
from ..kernels.named.chain import contraction
from ..kernels.named.kernel import MAX_ELEMENTS, TargetDevice
from .operands import A, Like, element_type, listed
from .placement import array_backend_of
from .planned_function import device_of, planned
from .torch_calls import is_recorded

__all__ = ["TTChain"]

SUMMED = (DataType.F32, DataType.U32, DataType.I32)


class TTChain:
    """A chain of matrices that many vectors go through, in one launch: `tt_chain`, prepared once.

    Args:
        cores: matrices (r_k, r_k+1) of f32, or of signed 16.16 in i32 or u32, with ranks from 1 to 4,096.  They are copied, one
            behind the other, where they are; later changes of them do not change the chain.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Raises:
        BadInputs: for other types, or shapes that do not match.

    Example:
        >>> chain = kernels.TTChain([np.full((2, 3), 0.5, np.float32), np.ones((3, 1), np.float32)])
        >>> chain(np.array([1, 3], np.float32)).tolist()
        [6.0]
        >>> chain(np.ones((4, 2), np.float32)).shape
        (4, 1)
    """

    def __init__(self, cores: Sequence[Any], *, dispatcher: DispatcherLike | None = None) -> None:
        cores = listed(cores, "cores")
        if not cores:
            raise BadInputs("a chain has at least one core")
        if any(map(is_recorded, cores)):
            raise BadInputs("a chain has no gradient: pass core.detach() for each core")
        names = [f"core {k}" for k in range(len(cores))]
        backend = array_backend_of(dispatcher, dict(zip(names, cores, strict=True)))
        operands = [backend.take(core, name) for core, name in zip(cores, names, strict=True)]
        element, ranks = element_type(operands[0], names[0], SUMMED), list[int]()
        for operand, name in zip(operands, names, strict=True):
            element_type(operand, name, (element,))
            if len(operand.shape) != 2 or (ranks and operand.shape[0] != ranks[-1]):
                expected = f"({ranks[-1]}, ranks)" if ranks else "(ranks, ranks)"
                raise BadInputs(f"{name} has shape {operand.shape}, not {expected}")
            ranks = ranks or [operand.shape[0]]
            ranks.append(operand.shape[1])
        if not all(1 <= rank <= MAX_RANK for rank in ranks):
            raise BadInputs(f"ranks are 1 to {MAX_RANK}: {ranks}")
        if sum(operand.count for operand in operands) > MAX_ELEMENTS:
            raise BadInputs("the cores have more than 2^32 - 1 elements")
        self.ranks = tuple(ranks)
        self._cores = _joined(backend, operands, element)
        self._dispatcher = dispatcher

    def __repr__(self) -> str:
        return f"<chain of ranks {', '.join(map(str, self.ranks))}>"

    def __call__(self, acc: A, *, out: Any = None) -> Like[A]:
        """Return `acc` times each core: (r_n,) for a vector (r_0,), (n, r_n) for rows (n, r_0).  Raises BadInputs for other shapes."""
        return _run((acc, self._cores), ("acc", "the cores"), self._dispatcher, out, self.ranks)


def _joined(backend: ArrayBackend, operands: Sequence[Operand], element: DataType) -> Any:
    """All elements, one operand behind the other, as a new flat array."""
    like, program = operands[0], concatenate(element)
    if len(operands) == 1:
        return backend.result(backend.copy(like).array, (like.count,), like)
    while len(operands) > 1:
        pairs = [operands[k : k + 2] for k in range(0, len(operands), 2)]
        operands = []
        for pair in pairs:
            if len(pair) == 1:
                operands += pair
                continue
            count = pair[0].count + pair[1].count
            result = run_call(backend, launch(program, concatenate_grid(count), (count,)), pair)
            operands.append(backend.take(result, "the cores"))
    return result


@planned("TTChain")
def _run(backend: ArrayBackend, operands: Sequence[Operand], ranks: tuple[int, ...]) -> Call | Steps:
    acc, cores = operands
    element = element_type(cores, "core 0", SUMMED)
    element_type(acc, "acc", (element,))
    if len(acc.shape) not in (1, 2) or acc.shape[-1] != ranks[0]:
        raise BadInputs(f"acc has shape {acc.shape}, not ({ranks[0]},) or (n, {ranks[0]})")
    many = len(acc.shape) == 2
    shape = (*acc.shape[:-1], ranks[-1])
    vectors = acc.count // ranks[0]
    if not vectors:
        return EmptyResult(shape)
    if vectors * max(ranks) > MAX_ELEMENTS:
        raise BadInputs(f"{vectors} vectors of up to {max(ranks)} have more than 2^32 - 1 elements")
    schedule, together = batch_schedule(ranks, backend.target, vectors)
    if many or isinstance(schedule, ScatterSchedule):  # which is as good for a vector alone
        program = chain(ranks, element, schedule, vectors=together)
        grid = -(-vectors // together) * schedule.workgroups
    elif goes_by_steps(ranks, backend.target, backend.workers):
        return _by_steps(device_of(backend), element, ranks)
    else:
        schedule = chain_schedule(ranks, backend.target)
        program, grid = chain(ranks, element, schedule), schedule.workgroups
    return launch(program, grid, shape)


def _by_steps(device: TargetDevice, element: DataType, ranks: tuple[int, ...]) -> Steps:
    """A launch for each core."""
    steps: list[tuple[KernelCall, tuple[int | InputSlice, ...]]] = []
    start = 0
    for number, (rows, columns) in enumerate(pairwise(ranks)):
        stop = start + rows * columns
        before = (
            number + 1 if number else 0
        )  # the result of the step before, behind the two arrays of the call
        steps.append((contraction(device, element, (rows, columns)), (before, InputSlice(1, start, stop))))
        start = stop
    return Steps(tuple(steps))
