"""CUDA graphs: many launches recorded once and submitted as one.

    graph = LaunchGraph(dispatcher)
    with graph.record() as stream:
        dispatcher.launch(first, [x, t], 64, stream=stream)
        dispatcher.launch(second, [t, y], 64, stream=stream)
    graph.replay()

The arrays must live as long as the graph; a replay works on whatever they hold then.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...execution.dispatcher import BackendError
from . import libcuda
from .waiting import wait_until

if TYPE_CHECKING:
    from .device import Device
from .launch_context import LaunchContext

__all__ = ["LaunchGraph"]


class LaunchGraph:
    """A graph of launches on one PyCUDA stream.  It is freed with this object, or by `drop`."""

    def __init__(self, dispatcher: LaunchContext) -> None:
        self.device = dispatcher.device
        with self.device:
            self.stream = self.device.cuda.Stream()
        self._executable = 0
        self._free: Any = None

    @contextmanager
    def record(self) -> Iterator[Any]:
        """Gives a stream whose launches are recorded instead of run.  Programs must be prepared before.

        What was recorded earlier is dropped.
        """
        self.drop()
        with self.device:
            with libcuda.recording(int(self.stream.handle)) as graph:
                yield self.stream
            self._executable = libcuda.instantiate(graph)
            libcuda.drop_graph(graph)
        self._free = weakref.finalize(self, _free, self.device, self._executable)
        self._free.atexit = False  # the context may be gone by then, and the graph with it

    def replay(self, stream: Any = None) -> None:
        """Submit the graph on its own stream, or on another (see `CudaDispatcher.launch`)."""
        if not self._executable:
            raise BackendError("this graph holds no launches yet; record some first")
        from .queues import queue_of

        with self.device:
            queue = queue_of(self.device, self.stream if stream is None else stream)
            libcuda.launch_graph(self._executable, queue.handle)

    def wait(self) -> None:
        """Wait until all replays on the graph's own stream are done."""
        with self.device:
            wait_until(self.stream.is_done)

    def drop(self) -> None:
        """Free the graph; replays that were submitted still run to their end."""
        self._executable = 0
        if self._free is not None:
            self._free()


def _free(device: Device, executable: int) -> None:
    with device:
        libcuda.drop_executable(executable)
