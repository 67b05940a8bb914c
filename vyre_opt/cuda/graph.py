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

from ..runtime.dispatcher import BackendError
from . import bindings
from .waiting import wait_until

if TYPE_CHECKING:
    from .device import Device
    from .dispatcher import CudaDispatcher

__all__ = ["LaunchGraph"]


class LaunchGraph:
    """A graph of launches on one PyCUDA stream.  It is freed with this object, or by `drop`."""

    def __init__(self, dispatcher: CudaDispatcher) -> None:
        self.device = dispatcher.device
        with self.device:
            self.stream = self.device.cuda.Stream()
        self._executable: Any = None
        self._free: Any = None

    @contextmanager
    def record(self) -> Iterator[Any]:
        """Gives a stream whose launches are recorded instead of run.  Programs must be prepared before.

        What was recorded earlier is dropped.
        """
        self.drop()
        driver = bindings.raw()
        stream = driver.CUstream(int(self.stream.handle))
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with self.device:
            bindings.checked(driver.cuStreamBeginCapture(stream, mode), "starting to record a graph")
            try:
                yield self.stream
            except BaseException:
                # else the stream would stay in capture mode, and every later use of it fail
                driver.cuStreamEndCapture(stream)
                raise
            graph = bindings.checked(driver.cuStreamEndCapture(stream), "recording a graph")
            self._executable = bindings.checked(driver.cuGraphInstantiate(graph, 0), "instantiating a graph")
            bindings.checked(driver.cuGraphDestroy(graph), "dropping a graph")
        self._free = weakref.finalize(self, _free, self.device, self._executable)
        self._free.atexit = False  # the context may be gone by then, and the graph with it

    def replay(self, stream: Any = None) -> None:
        """Submit the graph on its own stream, or on another (see `CudaDispatcher.launch`)."""
        if self._executable is None:
            raise BackendError("this graph holds no launches yet; record some first")
        from .queues import queue_of

        driver = bindings.raw()
        with self.device:
            queue = queue_of(self.device, self.stream if stream is None else stream)
            bindings.checked(
                driver.cuGraphLaunch(self._executable, driver.CUstream(queue.handle)), "replaying a graph"
            )

    def wait(self) -> None:
        """Wait until all replays on the graph's own stream are done."""
        with self.device:
            wait_until(self.stream.is_done)

    def drop(self) -> None:
        """Free the graph; replays that were submitted still run to their end."""
        self._executable = None
        if self._free is not None:
            self._free()


def _free(device: Device, executable: Any) -> None:
    with device:
        bindings.checked(bindings.raw().cuGraphExecDestroy(executable), "dropping a graph")
