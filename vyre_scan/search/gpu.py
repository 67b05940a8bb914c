"""Searches text on a GPU, window after window: while one is searched, the next is on its way.

    pinned memory     | copy 0 | copy 1 | copy 2 |
    other memory      | by threads to pinned memory, and from there
    the GPU                    | search 0 | search 1 | search 2 |
    this process                          | hits 0   | hits 1   | hits 2 |

A window begins some characters before those that it is to search, as many as a match may have, so that each place has its
hits from one window.  The hits come back with their number if they are few, and otherwise when this is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from vyre_opt.targets.cuda import CudaDispatcher, libcuda
from vyre_opt.targets.cuda.device import Device
from vyre_opt.targets.cuda.driver import translated_errors
from vyre_opt.targets.cuda.queues import PyCudaQueue
from vyre_opt.targets.cuda.transfers import Staging
from vyre_opt.targets.cuda.waiting import wait_until

from ..arrays import Array
from .data import DeviceOctets
from .encodings import RAW, Encoding
from .gpu_tables import GpuTables

__all__ = ["GpuSearch", "SearchedWindow"]

WINDOW, RESIDENT_WINDOW = 48 * 1_400_000, 48 * 11_200_000
"""Characters of a window, and of one that is in the GPU's memory already: multiples of ALIGNED."""
MOST_BEFORE = 1 << 13
"""Characters before a window that it may see."""
SLOTS = 3
"""Windows under way at once: one is copied, one searched, and of one the hits are taken."""
ALIGNED = 48
"""Whole groups of characters in every encoding, and whole vectors of the programs."""

COUNTERS, HEADER = 2, 256
"""u32s at the start of a window's results, and the bytes before the hits."""
FIRST_HITS = 1 << 15
"""Hits that are copied together with the counters."""
ROOM = 1 << 20
"""Hits of a window for which there is room at first; of one with more they are only counted, and it is searched again."""


class SearchedWindow(NamedTuple):
    """Window of `size` characters from `first` on, and its hits, with places from that of character `first` - `before` on.

    `hits`: None where a character holds no bits; then it is the last window.
    """

    first: int
    size: int
    before: int
    hits: Array | None


class _WindowMemory:
    """Memory of one window under way: `text` and `results` on the GPU, `answer` in pinned memory."""

    def __init__(self, gpu: Device) -> None:
        cuda = gpu.cuda
        self.gpu, self.room = gpu, ROOM
        self.queue = PyCudaQueue(gpu, cuda.Stream())
        self.done = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.text: Any = None
        self.characters = 0  # for which `text` has room
        self.first = self.start = self.stop = 0  # the window, and from `first` on what it sees before that
        self.pointer = 0  # of its characters on the GPU
        self.results = gpu.allocate(HEADER + 8 * ROOM)
        self.answer = gpu.pinned.allocate((HEADER + 8 * FIRST_HITS,), np.uint8)

    def text_pointer(self, characters: int) -> int:
        """The address of memory for so many characters of a window."""
        if self.characters < characters:
            self.characters = max(characters, WINDOW + MOST_BEFORE)
            self.text = self.gpu.allocate(self.characters)
        return int(self.text)

    def fetch(self) -> None:
        """Enqueue a copy of the counters and the first hits."""
        self.gpu.cuda.memcpy_dtoh_async(self.answer, int(self.results), self.queue.stream)
        self.done.record(self.queue.stream)

    def counters(self) -> tuple[int, int]:
        wait_until(self.done.query)
        count, wrong = self.answer[: 4 * COUNTERS].view(np.uint32).tolist()
        return count, wrong


_idle_slots: dict[int, list[_WindowMemory]] = {}
"""Slots that no search uses, by the number of their GPU: to make streams and pinned memory takes longer than a short search."""


@contextmanager
def _slots(gpu: Device, count: int) -> Iterator[list[_WindowMemory]]:
    """Slots of memory, which are idle again at the end.  Nothing that the caller can free may be read any more then."""
    idle = _idle_slots.setdefault(gpu.number, [])
    slots: list[_WindowMemory] = []
    with gpu:
        while len(slots) < count:
            try:
                slots.append(idle.pop())
            except IndexError:
                slots.append(_WindowMemory(gpu))
    try:
        yield slots
    finally:
        with gpu:
            for slot in slots:
                slot.queue.wait()
        idle += [slot for slot in slots if slot.room == ROOM][: max(0, SLOTS - len(idle))]


class GpuSearch:
    """Search of text in an encoding on the GPU of a dispatcher.  Its programs check no bounds: tables and windows are valid."""

    def __init__(self, tables: GpuTables, encoding: Encoding, dispatcher: CudaDispatcher) -> None:
        self.tables, self.encoding, self.dispatcher = tables, encoding, dispatcher
        self.before = -(-encoding.characters_of(tables.automaton.warmup) // ALIGNED) * ALIGNED
        """Characters before a window that it sees."""
        self.memory = self._on_device()
        with self.gpu, translated_errors("preparing a search"):
            self.kernel = dispatcher.prepare(tables.program(encoding))
            self.most_workgroups = self.kernel.resident_workgroups()

    @property
    def gpu(self) -> Device:
        return self.dispatcher.device

    def _on_device(self) -> dict[str, tuple[Any, int]]:
        """The tables in the GPU's memory, and how many elements they have, by name."""
        arrays = {(name, ""): array for name, array in self.tables.arrays.items()}
        if self.encoding is not RAW:
            arrays["values", self.encoding.name] = self.encoding.values
        memory = self.tables.memory.setdefault(self.gpu.number, {})
        with self.gpu as gpu, translated_errors("copying tables to the GPU"):
            for key, array in arrays.items():
                if key not in memory:
                    memory[key] = gpu.allocate(array.nbytes)
                    gpu.cuda.memcpy_htod(int(memory[key]), np.ascontiguousarray(array))
        return {key[0]: (memory[key], array.size) for key, array in arrays.items()}

    def windows(self, text: Array | DeviceOctets, first: int, end: int) -> Generator[SearchedWindow]:
        """Search the characters of `text` from `first` up to `end`, which are whole groups, in order.

        Each window sees the characters before it, as far as `text` has them.  Ends with one that is wrong.
        """
        size = RESIDENT_WINDOW if isinstance(text, DeviceOctets) else WINDOW
        starts = range(first, end, size)
        with self.gpu as gpu:
            staging = None if isinstance(text, DeviceOctets) or _is_pinned(text) else Staging(gpu)
        pending = deque[_WindowMemory]()
        with _slots(self.gpu, min(SLOTS, len(starts))) as slots:
            for number in range(len(starts) + SLOTS):
                if number >= SLOTS and pending:
                    window = self._collect(pending.popleft())
                    yield window
                    if window.hits is None:
                        return
                if number < len(starts):
                    slot, start = slots[number % SLOTS], starts[number]
                    slot.first, slot.start, slot.stop = (
                        max(0, start - self.before),
                        start,
                        min(start + size, end),
                    )
                    with self.gpu, translated_errors(f"searching {slot.stop - start} characters"):
                        slot.pointer = self._bring(slot, text, staging)
                        self._launch(slot)
                    pending.append(slot)

    def _bring(self, slot: _WindowMemory, text: Array | DeviceOctets, staging: Staging | None) -> int:
        """Enqueue the copy of a window's characters, and return their address on the GPU."""
        first, stop = slot.first, slot.stop
        if isinstance(text, DeviceOctets) and (text.pointer + first) % 16 == 0:  # programs load vectors
            return text.pointer + first
        pointer = slot.text_pointer(stop - first)
        if isinstance(text, DeviceOctets):
            slot.queue.copy(pointer, text.pointer + first, stop - first)
        elif staging is None:
            self.gpu.cuda.memcpy_htod_async(pointer, text[first:stop], slot.queue.stream)
        else:
            staging.copy(pointer, text[first:stop], slot.queue.stream)
        return pointer

    def _launch(self, slot: _WindowMemory) -> None:
        """Enqueue the search of a window, and the copy of its first hits."""
        tables, characters = self.tables, slot.stop - slot.first
        bytes_before, count = map(self.encoding.bytes_of, (slot.start - slot.first, characters))
        slot.queue.zero(int(slot.results), 4 * COUNTERS)
        results = int(slot.results)
        pointers = {"text": slot.pointer, "counters": results, "hits": results + HEADER}
        counts = {"text": characters, "counters": COUNTERS, "hits": slot.room}
        for name, (memory, size) in self.memory.items():
            pointers[name], counts[name] = int(memory), size
        grid = max(1, min(self.most_workgroups, -(-count // tables.tile)))
        params = {**tables.params, "start": bytes_before, "count": count}
        self.kernel.launch(slot.queue, (grid, 1, 1), pointers, counts, params)
        slot.fetch()

    def _collect(self, slot: _WindowMemory) -> SearchedWindow:
        """Wait for a window, and take its hits."""
        start, size, before = slot.start, slot.stop - slot.start, slot.start - slot.first
        with self.gpu, translated_errors(f"searching {size} characters"):
            count, wrong = slot.counters()
            if wrong:
                return SearchedWindow(start, size, before, None)
            if count > slot.room:  # all hits were counted
                slot.room, slot.results = count, self.gpu.allocate(HEADER + 8 * count)
                self._launch(slot)
                slot.counters()
            hits = slot.answer[HEADER : HEADER + 8 * min(count, FIRST_HITS)].view(np.uint64)
            if count > FIRST_HITS:
                hits = np.empty(count, np.uint64)
                self.gpu.cuda.memcpy_dtoh_async(hits, int(slot.results) + HEADER, slot.queue.stream)
                slot.queue.wait()
        return SearchedWindow(start, size, before, self.tables.sorted_unique(hits))


def _is_pinned(text: Array) -> bool:
    begin = text.ctypes.data
    return libcuda.is_pinned(begin) and libcuda.is_pinned(begin + len(text) - 1)
