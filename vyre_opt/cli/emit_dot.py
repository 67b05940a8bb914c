"""`--emit=dot`: a module as a Graphviz graph.

A program or a function is a box of ops, with an edge from each value to its uses; a region is a box
inside it.  A pipeline is its launches, with an edge for each buffer that one hands to another, and
what passes made of them (see report/graph.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir.pipeline import Pipeline
from ..ir.program import AccessMode, Block, Buffer, Func, Module, Op, Program, Value
from ..ir.shapes import show_shape
from ..report.decisions import decisions
from ..report.graph import pipeline_graph, quote
from ..report.pictures import PipelinePicture, pictures

if TYPE_CHECKING:
    from ..passes.manager import Remark

__all__ = ["graph"]


def graph(module: Module, before: Mapping[str, PipelinePicture], remarks: Sequence[Remark]) -> str:
    """The DOT text of a module; `before` has its pipelines as they were before the passes."""
    writer = _DotWriter()
    after = pictures(module)
    for number, item in enumerate(module.order):
        key = f"{type(item).__name__.lower()}{number}"
        if isinstance(item, Pipeline):
            old, new = before.get(item.name, after[item.name]), after[item.name]
            writer.lines += pipeline_graph(key, old, new, decisions(old, new, remarks))
        else:
            writer.item(item, key)
    head = 'digraph module {\n  node [shape=box, fontname="monospace"]\n'
    return head + "".join(f"  {line}\n" for line in writer.lines) + "}\n"


class _DotWriter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: dict[Value, str] = {}
        self.count = 0

    def item(self, item: Program | Func, key: str) -> None:
        self.open(key, f"{type(item).__name__.lower()} @{item.name}")
        buffers = item.buffers if isinstance(item, Program) else {}
        for buffer in buffers.values():
            self.buffer(buffer, key)
        self.block(item.body, key)
        self.lines.append("}")

    def open(self, key: str, label: str) -> None:
        self.lines += [f"subgraph {quote(f'cluster_{key}')} {{", f"label={quote(label)}"]

    def buffer(self, buffer: Buffer, key: str) -> None:
        label = f"@{buffer.name} : {buffer.dtype}[{show_shape(buffer.shape)}]" + (
            f" {buffer.access}" if buffer.access else ""
        )
        self.lines.append(f"{quote(f'{key}@{buffer.name}')} [shape=cylinder, label={quote(label)}]")

    def edge(self, start: str, end: str) -> None:
        self.lines.append(f"{quote(start)} -> {quote(end)}")

    # --- programs -------------------------------------------------------------------

    def block(self, block: Block, key: str) -> None:
        for arg in block.args:
            self.nodes[arg] = self.node(f"%{arg.name} : {arg.type}", ", shape=ellipse")
        for op in block.ops:
            self.op(op, key)

    def node(self, label: str, style: str = "") -> str:
        name = f"n{self.count}"
        self.count += 1
        self.lines.append(f"{name} [label={quote(label)}{style}]")
        return name

    def op(self, op: Op, key: str) -> None:
        names = ", ".join(f"%{v.name}" for v in op.results)
        node = self.node(f"{names} = {op.name}" if names else op.name)
        for operand in op.operands:
            self.edge(self.nodes[operand], node)
        self.memory(op, node, key)
        for number, block in enumerate(op.regions):
            self.open(f"{node}_{number}", op.name)
            self.block(block, key)
            self.lines.append("}")
        for result in op.results:
            self.nodes[result] = node

    def memory(self, op: Op, node: str, key: str) -> None:
        """Edges from the buffers that an op reads, and to those that it writes."""
        buffer = op.attrs.get("buffer")
        if isinstance(buffer, str):
            effects = op.definition.effects
            if "read" in effects:
                self.edge(f"{key}@{buffer}", node)
            if "write" in effects:
                self.edge(node, f"{key}@{buffer}")
        kernel = op.definition.kernel
        if kernel is not None:
            for name, role in kernel.with_roles(op.attrs["buffers"]):
                self.access(node, f"{key}@{name}", role.access)

    def access(self, node: str, buffer: str, access: AccessMode) -> None:
        if access is not AccessMode.WRITE:
            self.edge(buffer, node)
        if access is not AccessMode.READ:
            self.edge(node, buffer)
