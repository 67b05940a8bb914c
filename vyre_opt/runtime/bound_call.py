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

__all__ = ["BoundCall", "bind", "both_written"]

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
        self._pointers = [backend.address_of(operand.owner) for operand in operands]
        self._bytes = [backend.span(operand)[1] for operand in operands]
        self._makers: list[Callable[[], Any]] = []
        self._addresses: list[Address] = []
        for result in results:
            self._makers.append(backend.maker_of(result))
            self._addresses.append(backend.address_of(result))
        if loaded.piece_bytes:
            self._makers.append(backend.bytes_maker(loaded.piece_bytes))
            self._addresses.append(self._pointers[0])
        self._signature = signature_of(results[0]) if results else None
        self._out_bytes = int(results[0].nbytes) if results else 0
        self.run = self._runner(loaded)

    def watched(self, watch: Watch, arrays: Sequence[Any], words: Words, new: list[Any]) -> list[Any]:
        """`run` with an observer."""
        return self._runner(_Watched(self.loaded, watch))(arrays, words, new)

    def _runner(self, loaded: Loaded) -> Run:
        """`run(arrays, words)`: the results; `run(arrays, words, new)`: those in given arrays.

        The function knows nothing of itself nor of this object: a cycle would keep arrays until it is collected.
        """
        pointers_of, makers, addresses = self._pointers, self._makers, self._addresses
        access, sizes, pieces, count = self._access, self._bytes, loaded.pieces, self._count
        written, strided, stream, finish = self._written, self._strided, access.stream, access.finish
        has_pieces = bool(loaded.piece_bytes)
        pairs = [
            (place, sizes[place], other, length)
            for place in written
            for other, length in enumerate(sizes)
            if other != place
        ]

        def run(arrays: Sequence[Any], words: Words = (), new: list[Any] | None = None) -> list[Any]:
            if new is None:
                new = [make() for make in makers]
            elif has_pieces and len(new) == count:
                new.append(makers[-1]())
            if strided:
                arrays = [access.contiguous(a) if k in strided else a for k, a in enumerate(arrays)]
            originals = arrays
            while True:
                pointers = [address(array) for address, array in zip(pointers_of, arrays)]  # noqa: B905
                shared = [
                    (place, other)
                    for place, size, other, length in pairs
                    if pointers[other] < pointers[place] + size and pointers[place] < pointers[other] + length
                ]
                if shared:
                    copied = _copied(shared, written)
                    arrays = [access.clone(a) if k in copied else a for k, a in enumerate(arrays)]
                    continue
                if new:
                    pointers += [address(array) for address, array in zip(addresses, new)]  # noqa: B905
                    if has_pieces:
                        start = pointers[-1]
                        pointers += [start + offset for offset in pieces]
                status = loaded.run(stream(), *pointers, *words)
                if not status:
                    break
                if loaded.explain(status):
                    unaligned = [k for k in range(len(arrays)) if pointers[k] % access.alignment]
                    arrays = [access.clone(a) if k in unaligned else a for k, a in enumerate(arrays)]
            if arrays is not originals:
                for place in written:
                    if arrays[place] is not originals[place]:
                        access.overwrite(originals[place], arrays[place])
            if finish is not None:
                finish()
            if has_pieces:
                del new[count:]
            return new

        def run_plainly(arrays: Sequence[Any], words: Words = (), new: list[Any] | None = None) -> list[Any]:
            if new is None:
                new = [make() for make in makers]
            status = loaded.run(
                stream(),
                *[address(array) for address, array in zip(pointers_of, arrays)],  # noqa: B905
                *[address(array) for address, array in zip(addresses, new)],  # noqa: B905
                *words,
            )
            return run(arrays, words, new) if status else new

        # a microsecond faster
        is_plain = not (pairs or strided or has_pieces or finish is not None)
        return run_plainly if is_plain else run

    def may_plan(self) -> bool:
        """Whether the next call may take the time that it takes to plan anew: not while a graph is recorded."""
        return not self._access.is_recording()

    def fits(self, arrays: Sequence[Any], out: Any) -> bool:
        """Whether `out` is as the first result would be, and shares no memory with the arrays."""
        if signature_of(out) != self._signature:
            return False
        start = self._addresses[0](out)
        if start % self._access.alignment:
            return False
        end = start + self._out_bytes
        starts = [address(array) for address, array in zip(self._pointers, arrays, strict=True)]
        return all(end <= at or at + size <= start for at, size in zip(starts, self._bytes, strict=True))

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        """`run` with the first result in `out`, which `fits`."""
        return self.run(arrays, (), [out, *[make() for make in self._makers[1:]]])


def _copied(shared: Sequence[tuple[int, int]], written: Mapping[int, str]) -> set[int]:
    """The places of arrays that are only read, of those that share memory with one that is written.

    Raises BadInputs for two that are written.
    """
    for place, other in shared:
        if other in written:
            raise both_written(written[place], written[other])
    return {other for _, other in shared}


def both_written(one: str, other: str) -> BadInputs:
    """The error of arrays for two buffers that share memory and are both written."""
    return BadInputs(f"{one} and {other} share memory, and the kernel writes both")
