"""The fast path of calls that repeat: a function of pointers, compiled by LLVM, that talks to the driver itself.

PyCUDA takes some microseconds to pack the arguments of a launch.  Here all but the pointers and the
stream is packed once, in a block of words, and what remains is a loop over that block.  The loop is compiled
once a process, as a function that Python calls like one of its own.

    words of a block      0  address of the flag of faults      4  how many steps
                          1  the context                        5  1 if the calls are counted
                          2  address of the count of calls      6  bits of the pointers and values that changed
                          3  how many pointers and values          since the graph got them
                             a call passes                      7  how many of them are pointers
    behind them           the pointers; the values; the number of the call; the steps; constants; arguments of kernels
    a step of 9 words     function, grid x y z, workgroup x y z, dynamic shared bytes, address of the arguments;
                          or 0, number of a pointer, bytes to clear there, 0;
                          or 0, number of a pointer, bytes to copy there, 1 + number of the source;
                          or the graph, 0, how many nodes, address of their table
    a node in the table   its handle, address of its parameters, bits of the pointers in its arguments

Several launches are a graph: what a launch costs is then paid once.  A node gets new arguments where a pointer in
them is another than at the last call, so nothing is recorded again.  On a stream that is being captured, which takes
no graph, its kernels are launched one by one.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import addressof, byref, c_uint64
from functools import cache
from typing import Any

from ...linker.library import link
from ...records import dataclass
from ...worker import import_module
from . import libcuda
from .device import Device
from .launcher_ir import DRIVER, PYTHON, SYMBOL
from .steps import Argument, Clear, Copy, KernelLaunch, Step, slot

__all__ = ["CompiledLauncher", "use_code"]

HEADER = 8
STEP = 9
ALL_BITS = (1 << 64) - 1
MIN_GRAPH = 3
"""Least launches of a graph, if memory is copied and cleared before the first of them only."""


class CompiledLauncher:
    """See `Launcher`.  To make one, the GPU's context must be current."""

    def __init__(
        self, device: Device, steps: Sequence[Step], pointers: int, may_fault: bool, values: int = 0
    ) -> None:
        launches = [step for step in steps if isinstance(step, KernelLaunch)]
        arguments = sum(len(launch.arguments) for launch in launches)
        # the graph comes last, and a word has bits for so many pointers
        is_graph = len(launches) >= MIN_GRAPH and list(steps[-len(launches) :]) == launches
        is_graph = is_graph and pointers + values < 64
        first_step = HEADER + pointers + values + 1
        size = first_step + STEP * len(steps) + 2 * arguments
        self._block = (c_uint64 * size)()  # as long as `launch`, which has its address
        self._faults, self._steps = device.faults, steps  # the block has addresses of what they own
        base = addressof(self._block)
        words = [
            self._faults.flag_address,
            device.context.handle,
            addressof(self._faults.calls),
            pointers + values,
            len(steps),
            int(may_fault),
            ALL_BITS,
            pointers,
        ]
        words += [0] * (size - 2 * arguments - HEADER)

        def address_of(argument: Argument) -> int:
            """The address of an argument's word."""
            if argument == "call" and is_graph:
                argument = 0  # it would change the node at every call
            if isinstance(argument, int):
                words.append(argument)
                return base + 8 * (len(words) - 1)
            number = pointers + values if argument == "call" else slot(argument, pointers)
            return base + 8 * (HEADER + number)

        nodes: list[_GraphKernel] = []
        number = 0
        for step in steps:
            if isinstance(step, Clear):
                row = [0, step.pointer, step.size, 0]
            elif isinstance(step, Copy):
                row = [0, step.pointer, step.size, 1 + step.source]
            else:
                addresses = [address_of(argument) for argument in step.arguments]
                addresses_at = base + 8 * len(words)
                words += addresses
                entry = step.kernel.kernel
                sizes = (*step.grid, *entry.program.workgroup, entry.dynamic_shared)
                if is_graph:
                    params = libcuda.KernelParams(step.kernel.handle, sizes, addresses_at)
                    nodes.append(_GraphKernel(params, _changes(step.arguments, pointers)))
                    continue
                row = [step.kernel.handle, *sizes, addresses_at]
            at = first_step + STEP * number
            words[at : at + len(row)] = row
            number += 1
        words[4] = number + is_graph
        for index, word in enumerate(words):
            self._block[index] = word
        if is_graph:  # after the arguments, which are read when a node is added
            self._graph = _KernelGraph(device, nodes)
            row = [self._graph.handle, 0, len(nodes), addressof(self._graph.table)]
            for index, word in enumerate(row, first_step + STEP * number):
                self._block[index] = word
        self.launch: Callable[..., int] = _python_function(base)


def _changes(arguments: Sequence[Argument], pointers: int) -> int:
    """A bit for each pointer and each value among the arguments."""
    bits = 0
    for argument in arguments:
        if isinstance(argument, str) and argument != "call":
            bits |= 1 << slot(argument, pointers)
    return bits


# --- several launches as a graph


@dataclass(frozen=True, slots=True)
class _GraphKernel:
    """A kernel of a graph.  `changes`: a bit for each pointer and value among its arguments."""

    params: libcuda.KernelParams
    changes: int


class _KernelGraph:
    """Nodes one after the other, whose arguments may be exchanged; the context must be current.  Raises BackendError.

    `handle`: of what is launched.  `table`: for each node its handle, the address of its parameters, its bits.
    """

    def __init__(self, device: Device, nodes: Sequence[_GraphKernel]) -> None:
        library, graph = libcuda.library(), ctypes.c_void_p()
        libcuda.check(library.cuGraphCreate(byref(graph), 0), "making a graph")
        self._nodes = nodes
        self.table = (c_uint64 * (3 * len(nodes)))()
        last = c_uint64()
        for number, node in enumerate(nodes):
            added, params = c_uint64(), node.params
            before = byref(last) if number else None
            result = library.cuGraphAddKernelNode(byref(added), graph, before, int(number > 0), byref(params))
            libcuda.check(result, "adding a kernel to a graph")
            self.table[3 * number : 3 * number + 3] = [added.value, addressof(params), node.changes]
            last = added
        self.handle = libcuda.instantiate(graph)
        weakref.finalize(self, _drop, device, graph, self.handle)


def _drop(device: Device, graph: ctypes.c_void_p, executable: int) -> None:
    with device:
        libcuda.drop_executable(executable)
        libcuda.drop_graph(graph)


# --- the compiled function


class _MethodDef(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


METH_FASTCALL = 0x80

_FOREVER: list[Any] = []
"""Code and its descriptions: functions of Python have their addresses, and look there even when they are dropped."""


_OBJECTS: list[bytes] = []
"""Machine code that a caller brought, see `use_code`."""


def use_code(object_file: bytes) -> None:
    """Take the launcher's machine code from an object file, where this process has none yet; see `launcher_code`."""
    if not _OBJECTS:
        _OBJECTS.append(object_file)


@cache
def _compiled() -> _MethodDef:
    """The compiled function as Python wants it.  Raises LinkError for an object that is none of the launcher."""
    addresses = dict[str, int]()
    for name in (*PYTHON, *DRIVER):
        function = getattr(ctypes.pythonapi if name in PYTHON else libcuda.library(), name)
        addresses[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    if _OBJECTS:
        library = link(_OBJECTS[0], [SYMBOL], addresses)
    else:
        import_module(f"{__package__}.launcher_code")
        from .launcher_code import linked

        library = linked(addresses)
    method = _MethodDef(b"launch", library[SYMBOL], METH_FASTCALL, None)
    _FOREVER.append((method, library))
    return method


def _python_function(block: int) -> Callable[..., int]:
    """The compiled function, bound to the address of a block."""
    method = _compiled()
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., int] = new(addressof(method), block, None)
    return function
