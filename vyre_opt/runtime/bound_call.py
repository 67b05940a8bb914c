"""Calls whose questions an earlier call with like arrays has answered: what remains is addresses and a launch.

    arrays --addresses--> loaded plan --status--> results

A bound call holds no array of a caller.  Several threads may run it at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .array_backend import ArrayBackend, Operand
from .dispatcher import BadInputs
from .params import Words
from .pipelines.call_plan import CallPlan, Loaded
from .pipelines.watch import Watch
from .signatures import signature_of

__all__ = ["BoundCall", "bind"]

Address = Callable[[Any], int]
Run = Callable[..., list[Any]]


class _Watched:
    """A loaded plan whose runs are observed."""

    def __init__(self, loaded: Loaded, watch: Watch) -> None:
        self.piece_bytes, self.pieces, self.kept_bytes = loaded.piece_bytes, loaded.pieces, 0
        self.explain, self._loaded, self._watch = loaded.explain, loaded, watch

    def run(self, stream: int, *words: int) -> int:
        return self._loaded.watched(self._watch, stream, words)

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        return self._loaded.watched(watch, stream, words)


def bind(
    backend: ArrayBackend, call: CallPlan, loaded: Loaded, operands: Sequence[Operand], results: Sequence[Any]
) -> tuple[BoundCall, Sequence[Any]]:
    """A loaded plan for arrays like the operands' owners, and the arrays for a first run.

    Where later arrays would not do as they are, since they have no signature or are converted, it is for the operands'
    own arrays, and `is_lasting` says so.
    """
    access, contiguous, strided = backend.access(operands), list(operands), []
    is_lasting = backend.is_lasting(operands)
    for place, operand in enumerate(operands if is_lasting else ()):
        array = access.contiguous(operand.owner)
        if array is not operand.owner:
            contiguous[place] = backend.take(array, "an array")
            is_lasting = is_lasting and contiguous[place].kind == operand.kind
            strided.append(place)
        elif not backend.is_in_place(operand):
            is_lasting = False
    if not is_lasting:
        contiguous = [Operand(each.array, each.shape, each.kind, each.array) for each in operands]
        strided = []
    bound = BoundCall(call, loaded, backend, contiguous, results, strided, is_lasting)
    return bound, [operand.owner for operand in (operands if is_lasting else contiguous)]


class BoundCall:
    """Runs a plan on arrays with the signatures of the operands' owners.

    `results`: those of a call before, which the results of later ones are like.  Arrays at the places `strided` are
    made contiguous first.  An array that is only read and shares memory with one that is written is copied first.
    """

    def __init__(
        self,
        call: CallPlan,
        loaded: Loaded,
        backend: ArrayBackend,
        operands: Sequence[Operand],
        results: Sequence[Any],
        strided: Sequence[int] = (),
        is_lasting: bool = True,
    ) -> None:
        self.is_lasting = is_lasting
        self.loaded = loaded
        self._access, self._count = backend.access(operands), len(results)
        self._written, self._strided = call.written, strided
        self._bytes = [backend.span(operand)[1] for operand in operands]
        self._makers = [backend.maker_of(result) for result in results]
        """For the results, and for the pieces, which are one array."""
        self._addresses = [backend.address_of(array) for array in (*(o.owner for o in operands), *results)]
        """For the operands, the results and the pieces."""
        if loaded.piece_bytes:
            self._makers.append(backend.bytes_maker(loaded.piece_bytes))
            self._addresses.append(self._addresses[0])
        self._signature = signature_of(results[0]) if results else None
        self._out_bytes = int(results[0].nbytes) if results else 0
        self.run = self._runner(loaded)

    def watched(self, watch: Watch, arrays: Sequence[Any], words: Words, new: list[Any]) -> list[Any]:
        """`run` with an observer."""
        return self._runner(_Watched(self.loaded, watch))(arrays, words, new)

    def _runner(self, loaded: Loaded) -> Run:
        """`run(arrays, words)`: the results; `run(arrays, words, new)`: those in given arrays.

        The function refers neither to itself nor to this object: a cycle would keep arrays until it is collected.
        Raises _Unfit where the first of the given arrays shares memory with the operands.
        """
        makers, addresses, written, strided = self._makers, self._addresses, self._written, self._strided
        access, sizes, pieces, count = self._access, self._bytes, loaded.pieces, self._count
        stream, finish, has_pieces = access.stream, access.finish, bool(loaded.piece_bytes)
        may_share = bool(written) and len(sizes) > 1
        out_bytes = self._out_bytes

        def pointers_of(arrays: Sequence[Any], made: Sequence[Any]) -> list[int]:
            return [address(array) for address, array in zip(addresses, [*arrays, *made])]  # noqa: B905

        def run(arrays: Sequence[Any], words: Words = (), new: list[Any] | None = None) -> list[Any]:
            made = (
                [make() for make in makers] if new is None else [*new, *[make() for make in makers[count:]]]
            )
            given = arrays
            if strided:
                arrays = [access.contiguous(a) if k in strided else a for k, a in enumerate(arrays)]
            # as `pointers_of`, without the call
            pointers = [address(array) for address, array in zip(addresses, [*arrays, *made])]  # noqa: B905
            if new and not _fits(pointers, sizes, out_bytes, access.alignment):
                raise _Unfit
            if may_share and (copied := _sharing(pointers, sizes, written)):
                arrays = [access.clone(a) if k in copied else a for k, a in enumerate(arrays)]
                pointers = pointers_of(arrays, made)
            if has_pieces:
                pointers += [pointers[-1] + offset for offset in pieces]
            # what `run` is may change with each run of a plan
            while status := loaded.run(stream(), *pointers, *words):
                if loaded.explain(status):
                    unaligned = [k for k in range(len(arrays)) if pointers[k] % access.alignment]
                    arrays = [access.clone(a) if k in unaligned else a for k, a in enumerate(arrays)]
                    pointers[: len(arrays)] = pointers_of(arrays, ())
            for place in written if arrays is not given else ():
                if arrays[place] is not given[place]:
                    access.overwrite(given[place], arrays[place])
            if finish is not None:
                finish()
            return made[:count] if has_pieces else made

        return run

    def may_plan(self) -> bool:
        """Whether the next call may take the time that it takes to plan anew: not while a graph is recorded."""
        return not self._access.is_recording()

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any] | None:
        """`run` with the first result in `out`; None, and nothing ran, where `out` does not do.

        It must be like that result, aligned, and share no memory with the arrays.
        """
        if signature_of(out) != self._signature:
            return None
        try:
            return self.run(arrays, (), [out, *[make() for make in self._makers[1 : self._count]]])
        except _Unfit:
            return None


class _Unfit(Exception):
    """An array for a result shares memory with the operands, or is not aligned.  Nothing ran."""


def _fits(pointers: Sequence[int], sizes: Sequence[int], out_bytes: int, alignment: int) -> bool:
    """Whether the first result, whose pointer follows those of the operands, is aligned and apart from them."""
    start = pointers[len(sizes)]
    end = start + out_bytes
    return not start % alignment and all(
        end <= at or at + size <= start
        for at, size in zip(pointers, sizes)  # noqa: B905
    )


def _sharing(pointers: Sequence[int], sizes: Sequence[int], written: Mapping[int, str]) -> set[int]:
    """The places of arrays that are only read and share memory with one that is written.

    Raises BadInputs for two that are written.
    """
    shared = set()
    for place, name in written.items():
        start, end = pointers[place], pointers[place] + sizes[place]
        for other, size in enumerate(sizes):
            if other != place and pointers[other] < end and start < pointers[other] + size:
                if other in written:
                    raise BadInputs(f"{name} and {written[other]} share memory, and the kernel writes both")
                shared.add(other)
    return shared
