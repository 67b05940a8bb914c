"""The launchers of planned calls.  The compiled one against a driver of Python functions: what it calls, and with which
arguments."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from vyre_opt.targets.cuda import launcher, libcuda, steps
from vyre_opt.targets.cuda.launcher import CompiledLauncher
from vyre_opt.targets.cuda.steps import (
    DRIVER_ERROR,
    PENDING_FAULT,
    UNALIGNED,
    Clear,
    Copy,
    KernelLaunch,
    PyCudaLauncher,
)

CALLBACKS: list[Any] = []
"""The drivers of all tests: the compiled code, which is never unloaded, has the addresses of their functions."""

INT, WORD, POINTER = ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
ARGUMENTS = 4


class RecordingDriver:
    """The driver's functions as callbacks.  `calls`: what was called; `current`: the current context."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.current = 77
        self.error = 0
        self.cuCtxGetCurrent = ctypes.CFUNCTYPE(INT, ctypes.POINTER(WORD))(self._get)
        self.cuCtxPushCurrent_v2 = ctypes.CFUNCTYPE(INT, POINTER)(self._note("push"))
        self.cuCtxPopCurrent_v2 = ctypes.CFUNCTYPE(INT, POINTER)(lambda context: self._note("pop")())
        self.cuMemsetD8Async = ctypes.CFUNCTYPE(INT, WORD, ctypes.c_ubyte, WORD, WORD)(self._note("clear"))
        self.cuMemcpyDtoDAsync_v2 = ctypes.CFUNCTYPE(INT, WORD, WORD, WORD, WORD)(self._note("copy"))
        words = ctypes.POINTER(ctypes.POINTER(WORD))
        kinds = [POINTER, *[ctypes.c_uint] * 7, WORD, words, POINTER]
        self.cuLaunchKernel = ctypes.CFUNCTYPE(INT, *kinds)(self._launch)

        # a graph: nodes are numbered from 501 on, in the order in which they are added
        self.nodes: list[int] = []
        self.cuGraphCreate = ctypes.CFUNCTYPE(INT, POINTER, ctypes.c_uint)(lambda *_: 0)
        self.cuGraphAddKernelNode = ctypes.CFUNCTYPE(
            INT, ctypes.POINTER(WORD), POINTER, POINTER, WORD, POINTER
        )(self._add)
        self.cuGraphInstantiateWithFlags = ctypes.CFUNCTYPE(INT, POINTER, POINTER, WORD)(self._instantiate)
        self.cuGraphExecKernelNodeSetParams = ctypes.CFUNCTYPE(INT, WORD, WORD, POINTER)(self._update)
        self.cuGraphLaunch = ctypes.CFUNCTYPE(INT, WORD, WORD)(self._note("graph"))
        self.is_capturing = False
        self.cuStreamIsCapturing = ctypes.CFUNCTYPE(INT, WORD, ctypes.POINTER(INT))(self._ask)
        self.cuGraphExecDestroy = self.cuGraphDestroy = lambda graph: 0

    def _add(self, node: Any, graph: int, before: int, count: int, params: int) -> int:
        assert count == bool(self.nodes)
        assert not count or WORD.from_address(before).value == self.nodes[-1]
        self.nodes.append(501 + len(self.nodes))
        node[0] = self.nodes[-1]
        return 0

    def _instantiate(self, executable: int, graph: int, flags: int) -> int:
        WORD.from_address(executable).value = 4242
        return 0

    def _ask(self, stream: int, status: Any) -> int:
        assert stream
        status[0] = self.is_capturing
        return 0

    def _update(self, executable: int, node: int, params: int) -> int:
        """A node's new arguments: its parameters are a function, seven sizes, and the addresses of arguments."""
        places = WORD.from_address(params + 40).value
        arguments = (
            WORD.from_address(WORD.from_address(places + 8 * k).value).value for k in range(ARGUMENTS)
        )
        self.calls.append(("update", executable, node, *arguments))
        return 0

    def _note(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls.append((name, *args))
            return 0

        return call

    def _get(self, context: Any) -> int:
        context[0] = self.current
        return 0

    def _launch(self, function: int, *args: Any) -> int:
        *sizes, stream, params, _ = args
        self.calls.append(("launch", function, *sizes, stream, *(params[k][0] for k in range(ARGUMENTS))))
        return self.error


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDriver]:
    driver = RecordingDriver()
    monkeypatch.setattr(libcuda, "library", lambda: driver)
    launcher._compiled.cache_clear()  # it has the addresses of the driver's functions in it
    yield driver
    launcher._compiled.cache_clear()
    CALLBACKS.append(driver)


class Faults:
    """The words of a GPU's fault records that a launcher reads and counts in."""

    def __init__(self) -> None:
        self.flag, self.calls = ctypes.c_uint32(), WORD(5)
        self.flag_address = ctypes.addressof(self.flag)

    @property
    def pending(self) -> bool:
        return self.flag.value != 0

    def next_call(self) -> int:
        self.calls.value += 1
        return self.calls.value


@pytest.fixture
def faults() -> Faults:
    return Faults()


def launch_of(
    function: int, grid: tuple[int, ...], workgroup: tuple[int, ...], shared: int, arguments: Any
) -> KernelLaunch:
    entry = SimpleNamespace(program=SimpleNamespace(workgroup=workgroup), dynamic_shared=shared)
    kernel: Any = SimpleNamespace(handle=function, kernel=entry)
    return KernelLaunch(kernel, grid, arguments)  # type: ignore[arg-type]


KERNEL = launch_of(1234, (5, 6, 7), (32, 2, 1), 1000, ["p0", 1 << 40, "call", "p1"])


def launcher_of(faults: Faults, *steps: Any, may_fault: bool = True) -> CompiledLauncher:
    device: Any = nullcontext(SimpleNamespace())
    device.faults, device.context = faults, SimpleNamespace(handle=77)
    return CompiledLauncher(device, steps, 2, may_fault)


def test_a_launch_gets_pointers_constants_and_the_number_of_the_call(
    driver: RecordingDriver, faults: Faults
) -> None:
    enqueue = launcher_of(faults, KERNEL)
    for number, pointers in ((6, (4096, 1 << 47)), (7, (32, 48))):
        assert enqueue.launch(9, *pointers) == 0
        assert faults.calls.value == number
        (call,) = driver.calls
        assert call == ("launch", 1234, 5, 6, 7, 32, 2, 1, 1000, 9, pointers[0], 1 << 40, number, pointers[1])
        driver.calls.clear()


def test_calls_that_cannot_fault_are_not_counted(driver: RecordingDriver, faults: Faults) -> None:
    assert launcher_of(faults, KERNEL, may_fault=False).launch(0, 0, 16) == 0
    assert faults.calls.value == 5


def test_steps_are_in_order(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, Clear(1, 99), Copy(0, 1, 77), KERNEL, Clear(0, 1))
    assert enqueue.launch(9, 4096, 8192) == 0
    names = [name for name, *_ in driver.calls]
    assert names == ["clear", "copy", "launch", "clear"]
    assert driver.calls[0] == ("clear", 8192, 0, 99, 9)
    assert driver.calls[1] == ("copy", 4096, 8192, 77, 9)
    assert driver.calls[3] == ("clear", 4096, 0, 1, 9)


def test_the_context_is_current_during_a_call(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, KERNEL)
    driver.current = 1
    assert enqueue.launch(9, 16, 16) == 0
    assert [name for name, *_ in driver.calls] == ["push", "launch", "pop"]
    assert driver.calls[0] == ("push", 77)


def test_nothing_is_launched_on_pointers_that_are_not_aligned(
    driver: RecordingDriver, faults: Faults
) -> None:
    assert launcher_of(faults, KERNEL).launch(9, 4096, 4104) == UNALIGNED
    assert driver.calls == []
    assert faults.calls.value == 5


def test_nothing_is_launched_after_a_fault(driver: RecordingDriver, faults: Faults) -> None:
    enqueue = launcher_of(faults, KERNEL)
    faults.flag.value = 1
    assert enqueue.launch(9, 4096, 4096) == PENDING_FAULT
    assert driver.calls == []
    faults.flag.value = 0
    assert enqueue.launch(9, 4096, 4096) == 0


def test_an_error_of_the_driver_ends_the_steps(driver: RecordingDriver, faults: Faults) -> None:
    driver.error, driver.current = 701, 1
    assert launcher_of(faults, KERNEL, Clear(0, 1)).launch(9, 4096, 4096) == DRIVER_ERROR + 701
    assert [name for name, *_ in driver.calls] == ["push", "launch", "pop"]


def test_several_launches_are_a_graph_whose_nodes_get_new_pointers(
    driver: RecordingDriver, faults: Faults
) -> None:
    """Only those nodes, at a call, whose pointers are others than at the call before."""
    kernels = [
        launch_of(1, (1, 1, 1), (1, 1, 1), 0, [*pair, 7, "call"]) for pair in (("p0", 9), (8, 9), (9, "p1"))
    ]
    enqueue = launcher_of(faults, Copy(1, 0, 64), *kernels)
    assert driver.nodes == [501, 502, 503]
    assert enqueue.launch(9, 160, 320) == 0
    copy, graph = ("copy", 320, 160, 64, 9), ("graph", 4242, 9)
    assert driver.calls == [
        copy,
        ("update", 4242, 501, 160, 9, 7, 0),
        ("update", 4242, 503, 9, 320, 7, 0),
        graph,
    ]
    driver.calls.clear()
    assert enqueue.launch(9, 160, 320) == 0
    assert driver.calls == [copy, graph]
    driver.calls.clear()
    assert enqueue.launch(9, 160, 328) == UNALIGNED
    assert driver.calls == []
    assert enqueue.launch(9, 160, 336) == 0
    assert driver.calls[1:] == [("update", 4242, 503, 9, 336, 7, 0), graph]
    assert faults.calls.value == 8


def test_a_stream_that_is_captured_gets_launches(driver: RecordingDriver, faults: Faults) -> None:
    kernels = [launch_of(n, (n, 1, 2), (3, 4, 5), 6, ["p0", "p1", 7, n]) for n in (1, 2, 3)]
    enqueue = launcher_of(faults, *kernels)
    driver.is_capturing = True
    assert enqueue.launch(9, 160, 320) == 0
    assert driver.calls == [("launch", n, n, 1, 2, 3, 4, 5, 6, 9, 160, 320, 7, n) for n in (1, 2, 3)]
    driver.calls.clear()
    driver.is_capturing = False
    assert enqueue.launch(9, 160, 320) == 0
    assert [name for name, *_ in driver.calls] == ["update", "update", "update", "graph"]
    driver.calls.clear()
    assert enqueue.launch(0, 160, 320) == 0
    assert driver.calls == [("graph", 4242, 0)]


def test_a_launcher_needs_nothing_but_itself(driver: RecordingDriver, faults: Faults) -> None:
    """Its code stays when other code is compiled, and is still there when the last function of it is dropped."""
    first = launcher_of(faults, KERNEL)
    launcher._compiled.cache_clear()
    second = launcher_of(faults, KERNEL)
    assert first.launch(9, 16, 32) == second.launch(9, 16, 32) == 0
    function = first.launch
    del first, second
    gc.collect()
    del function
    gc.collect()
    assert len(driver.calls) == 2


def test_a_copy_between_launches_stays_there(driver: RecordingDriver, faults: Faults) -> None:
    """So there is no graph, which would come last."""
    kernels = [launch_of(n, (1, 1, 1), (1, 1, 1), 0, ["p0", "p1", 7, n]) for n in (1, 2, 3)]
    enqueue = launcher_of(faults, *kernels[:2], Copy(1, 0, 64), kernels[2])
    assert driver.nodes == []
    assert enqueue.launch(9, 160, 320) == 0
    assert [name for name, *_ in driver.calls] == ["launch", "launch", "copy", "launch"]


def test_pycudas_launcher_does_what_the_compiled_one_does(
    driver: RecordingDriver, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    queue = SimpleNamespace(
        zero=lambda target, size: calls.append(("clear", target, 0, size, 9)),
        copy=lambda target, source, size: calls.append(("copy", target, source, size, 9)),
    )
    monkeypatch.setattr(steps, "queue_of", lambda device, stream: {9: queue}[stream])
    all_steps = [Clear(1, 99), Copy(0, 1, 77), KERNEL, Clear(0, 1)]
    monkeypatch.setattr(
        KERNEL.kernel,
        "enqueue",
        lambda on, grid, words: calls.append(("launch", 1234, *grid, 32, 2, 1, 1000, 9, *words)),
        raising=False,
    )
    device: Any = nullcontext(SimpleNamespace())
    device.faults = own = Faults()
    by_pycuda, compiled = PyCudaLauncher(device, all_steps, 2, True), launcher_of(faults, *all_steps)
    for pointers in ((4096, 8192), (4096, 8196), (16, 32)):
        assert by_pycuda.launch(9, *pointers) == compiled.launch(9, *pointers)
    assert calls == driver.calls
    assert own.calls.value == faults.calls.value == 7
    own.flag.value = 1
    assert by_pycuda.launch(9, 4096, 8192) == PENDING_FAULT
