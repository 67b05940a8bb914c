"""A CUDA graph of kernels in a row, made of nodes whose arguments may be exchanged later."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import libcuda

if TYPE_CHECKING:
    from .device import Device

__all__ = ["GraphNode", "KernelGraph"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A kernel of a graph.  `function`: its handle.

    `sizes`: grid x y z, workgroup x y z, dynamic shared bytes.  `arguments`: the address of the addresses of its
    arguments.  `pointers`: a bit for each pointer among them.
    """

    function: int
    sizes: Sequence[int]
    arguments: int
    pointers: int


class _Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v1"""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint32 * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    ]


class KernelGraph:
    """Nodes one after the other; the context must be current.  Raises BackendError.

    `handle`: of what is launched.  `table`: for each node its handle, the address of its parameters, its bits.
    """

    def __init__(self, device: Device, nodes: Sequence[GraphNode]) -> None:
        library, graph, executable = libcuda.library(), ctypes.c_uint64(), ctypes.c_uint64()
        libcuda.check(library.cuGraphCreate(ctypes.byref(graph), 0), "making a graph")
        self._params = [
            _Params(n.function, (ctypes.c_uint32 * 7)(*n.sizes), n.arguments, None) for n in nodes
        ]
        self.table = (ctypes.c_uint64 * (3 * len(nodes)))()
        last = ctypes.c_uint64()
        for number, (node, params) in enumerate(zip(nodes, self._params, strict=True)):
            added = ctypes.c_uint64()
            before = ctypes.byref(last) if number else None
            result = library.cuGraphAddKernelNode(
                ctypes.byref(added), graph, before, ctypes.c_size_t(number > 0), ctypes.byref(params)
            )
            libcuda.check(result, "adding a kernel to a graph")
            for word, value in enumerate((added.value, ctypes.addressof(params), node.pointers)):
                self.table[3 * number + word] = value
            last = added
        result = library.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        libcuda.check(result, "instantiating a graph")
        self.handle = executable.value
        weakref.finalize(self, _drop, device, library, graph, executable)


def _drop(device: Device, library: ctypes.CDLL, graph: ctypes.c_uint64, executable: ctypes.c_uint64) -> None:
    """Free a graph; launches of it that were submitted still run to their end."""
    with device:
        library.cuGraphExecDestroy(executable)
        library.cuGraphDestroy(graph)
