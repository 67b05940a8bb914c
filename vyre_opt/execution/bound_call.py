"""Calls whose questions an earlier call with like arrays has answered: what remains is addresses and a launch.

    arrays --addresses--> loaded plan --status--> results

A bound call holds no array of a caller.  Several threads may run it at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..observers import OBSERVERS
from ..worker import import_module
from .array_backend import ArrayBackend, Operand
from .dispatcher import BadInputs
from .params import Words
from .plans.call_plan import CallPlan, Loaded
from .plans.watch import Watch
from .signatures import signature_of
from .straight_line import straight_line
from .target import as_target

__all__ = ["BoundCall", "bind"]

Run = Callable[..., list[Any]]


class _Watched:
    """A loaded plan whose runs are observed."""

    def __init__(self, loaded: Loaded, watch: Watch) -> None:
        self.piece_bytes, self.pieces, self.kept_bytes = loaded.piece_bytes, loaded.pieces, 0
        self.explain, self._loaded, self._watch = loaded.explain, loaded, watch

    def run(self, stream: int, *words: int) -> int:
        return self._loaded.watched(self._watch, stream, words)

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        """Run with the times of the observer that it has, or those that another wants."""
        if self._watch.times is None:
            watch = replace(self._watch, times=watch.times, apart=watch.apart)
        else:
            watch = self._watch
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
    for index, operand in enumerate(operands if is_lasting else ()):
        array = access.contiguous(operand.owner)
        if array is not operand.owner:
            contiguous[index] = backend.take(array, "an array")
            is_lasting = is_lasting and contiguous[index].kind == operand.kind
            strided.append(index)
        elif not backend.is_in_place(operand):
            is_lasting = False
    if not is_lasting:
        contiguous = [Operand(each.array, each.shape, each.kind, each.array) for each in operands]
        strided = []
    bound = BoundCall(call, loaded, backend, contiguous, results, strided, is_lasting)
    return bound, [operand.owner for operand in (operands if is_lasting else contiguous)]


class BoundCall:
    """Runs a plan on arrays with the signatures of the operands' owners.

    `results`: those of a call before, which the results of later ones are like.  Arrays at the indices `strided` are
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
        self.is_like: Callable[..., bool] | Literal[False] | None = None
        """Test whether arrays are like those of this call; False where there is none, None before the first look."""
        self.loaded = loaded
        self._access, self._count = backend.access(operands), len(results)
        self._written, self._strided = call.written, strided
        self._call, self._target = call, as_target(backend.dispatcher)
        self._bytes = [backend.span(operand)[1] for operand in operands]
        self._makers = [backend.maker_of(result) for result in results]
        """Makers of the results, and of the pieces, which are one array."""
        self._addresses = [backend.address_of(array) for array in (*(o.owner for o in operands), *results)]
        """Addresses of the operands, the results and the pieces."""
        if loaded.piece_bytes:
            self._makers.append(backend.bytes_maker(loaded.piece_bytes))
            self._addresses.append(self._addresses[0])
        self._signature = signature_of(results[0]) if results else None
        self._out_bytes = int(results[0].nbytes) if results else 0
        self.fill = self._filler(loaded)
        self.run = self._runner()

    def watched(self, watch: Watch, arrays: Sequence[Any], words: Words, new: list[Any]) -> list[Any]:
        """`fill` with an observer."""
        return self._filler(_Watched(self.loaded, watch))(arrays, words, new)

    def _runner(self) -> Run:
        """`run(arrays, words, out)`: the results, the first of them in `out` if that is there.

        Raises _Unfit where `out` shares memory with the operands.
        """
        fill, access, loaded, count = self.fill, self._access, self.loaded, self._count
        if self._strided or access.finish is not None:
            makers = self._makers[:count]

            def run(arrays: Sequence[Any], words: Words = (), out: Any = None) -> list[Any]:
                new = [make() for make in makers]
                if out is not None:
                    new[0] = out
                return fill(arrays, words, new)

            return run
        sizes = [*self._bytes, self._out_bytes] if count else self._bytes
        captured = loaded, OBSERVERS, access.stream, fill, self._makers, self._addresses
        return straight_line(*captured, count, sizes, [*self._written], loaded.pieces, access.alignment)

    def _filler(self, loaded: Loaded) -> Run:
        """`fill(arrays, words, new)`: a run whose results are the arrays `new`.

        The function refers neither to itself nor to this object: a cycle would keep arrays until it is collected.
        Raises _Unfit where the first of them shares memory with the operands.
        """
        addresses, written, strided, sizes = self._addresses, self._written, self._strided, self._bytes
        access, pieces, pieces_maker = self._access, loaded.pieces, self._makers[self._count :]
        stream, finish, out_bytes = access.stream, access.finish, self._out_bytes
        call, target, is_recording = self._call, self._target, access.is_recording

        def observed(*words: int) -> int:
            """A run that observers of the process hear of."""
            import_module(f"{__package__}.observed_run")
            from .observed_run import observed_run

            return observed_run(call, target, loaded, is_recording)(*words)

        def pointers_of(arrays: Sequence[Any], made: Sequence[Any]) -> list[int]:
            return [address(array) for address, array in zip(addresses, [*arrays, *made])]  # noqa: B905

        def fill(arrays: Sequence[Any], words: Words, new: list[Any]) -> list[Any]:
            made = [*new, *[make() for make in pieces_maker]]
            given = arrays
            if strided:
                arrays = [access.contiguous(a) if k in strided else a for k, a in enumerate(arrays)]
            pointers = pointers_of(arrays, made)
            if new and not _fits(pointers, sizes, out_bytes, access.alignment):
                raise _Unfit
            if copied := _sharing(pointers, sizes, written):
                arrays = [access.clone(a) if k in copied else a for k, a in enumerate(arrays)]
                pointers = pointers_of(arrays, made)
            pointers += [pointers[-1] + offset for offset in pieces]
            # what `run` is may change with each run of a plan
            while status := (observed if OBSERVERS else loaded.run)(stream(), *pointers, *words):
                if loaded.explain(status):
                    unaligned = [k for k in range(len(arrays)) if pointers[k] % access.alignment]
                    arrays = [access.clone(a) if k in unaligned else a for k, a in enumerate(arrays)]
                    pointers[: len(arrays)] = pointers_of(arrays, ())
            for index in written if arrays is not given else ():
                if arrays[index] is not given[index]:
                    access.overwrite(given[index], arrays[index])
            if finish is not None:
                finish()
            return new

        return fill

    def may_plan(self) -> bool:
        """Whether the next call may take the time that it takes to plan again: not while a graph is recorded."""
        return not self._access.is_recording()

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any] | None:
        """`run` with the first result in `out`; None, and nothing ran, where `out` does not do.

        It must be like that result, aligned, and share no memory with the arrays.
        """
        if signature_of(out) != self._signature:
            return None
        try:
            return self.run(arrays, (), out)
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
    """The indices of arrays that are only read and share memory with one that is written.

    Raises BadInputs for two that are written.
    """
    shared = set()
    for index, name in written.items():
        start, end = pointers[index], pointers[index] + sizes[index]
        for other, size in enumerate(sizes):
            if other != index and pointers[other] < end and start < pointers[other] + size:
                if other in written:
                    raise BadInputs(
                        f"{name} and {written[other]} share memory, and the kernel writes both; pass arrays that are apart, such as a copy of one"
                    )
                shared.add(other)
    return shared
