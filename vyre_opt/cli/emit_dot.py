"""`--emit=dot`: a module as a Graphviz graph.

A program or a function is a box of ops with an edge from each value to its use; a
region is a box inside it.  A pipeline is its stages and buffers, with an edge for
each read and write, which is where a hand-off between launches shows.
"""

from __future__ import annotations

from ..ir.program import (
    Access,
    Block,
    Buffer,
    Func,
    HostRead,
    Launch,
    Module,
    Op,
    Pipeline,
    Program,
    Stage,
    Value,
)

__all__ = ["graph"]


def graph(module: Module) -> str:
    """The DOT text of a module."""
    writer = _Writer()
    for number, item in enumerate(module.order):
        writer.item(item, module, f"{type(item).__name__.lower()}{number}")
    head = 'digraph module {\n  node [shape=box, fontname="monospace"]\n'
    return head + "".join(f"  {line}\n" for line in writer.lines) + "}\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: dict[Value, str] = {}
        self.count = 0

    def item(self, item: Program | Func | Pipeline, module: Module, key: str) -> None:
        self.open(key, f"{type(item).__name__.lower()} @{item.name}")
        if isinstance(item, Pipeline):
            self.pipeline(item, module, key)
        else:
            buffers = item.buffers if isinstance(item, Program) else {}
            for buffer in buffers.values():
                self.buffer(buffer, key)
            self.block(item.body, key)
        self.lines.append("}")

    def open(self, key: str, label: str) -> None:
        self.lines += [f"subgraph {_quote(f'cluster_{key}')} {{", f"label={_quote(label)}"]

    def buffer(self, buffer: Buffer, key: str) -> None:
        count = "?" if buffer.count is None else buffer.count
        label = f"@{buffer.name} : {buffer.dtype}[{count}]" + (f" {buffer.access}" if buffer.access else "")
        self.lines.append(f"{_quote(f'{key}@{buffer.name}')} [shape=cylinder, label={_quote(label)}]")

    def edge(self, start: str, end: str) -> None:
        self.lines.append(f"{_quote(start)} -> {_quote(end)}")

    # --- programs -------------------------------------------------------------------

    def block(self, block: Block, key: str) -> None:
        for arg in block.args:
            self.nodes[arg] = self.node(f"%{arg.name} : {arg.type}", ", shape=ellipse")
        for op in block.ops:
            self.op(op, key)

    def node(self, label: str, style: str = "") -> str:
        name = f"n{self.count}"
        self.count += 1
        self.lines.append(f"{name} [label={_quote(label)}{style}]")
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
        """Edges from what an op reads, and to what it writes."""
        named = op.attrs.get("buffer")
        if isinstance(named, str):
            effects = op.definition.effects
            if "read" in effects:
                self.edge(f"{key}@{named}", node)
            if "write" in effects:
                self.edge(node, f"{key}@{named}")
        kernel = op.definition.kernel
        if kernel is not None:
            for name, role in zip(op.attrs["buffers"], kernel.roles, strict=True):
                self.access(node, f"{key}@{name}", role.access)

    # --- pipelines ------------------------------------------------------------------

    def pipeline(self, pipeline: Pipeline, module: Module, key: str) -> None:
        for buffer in pipeline.buffers.values():
            self.buffer(buffer, key)
        for stage in pipeline.stages:
            self.stage(stage, module, key)

    def stage(self, stage: Stage, module: Module, key: str) -> None:
        if isinstance(stage, HostRead):
            self.edge(f"{key}@{stage.buffer}", self.node("host_read", ", shape=house"))
            return
        if isinstance(stage, Launch):
            formal = module.programs[stage.program].bound_buffers
            accesses = [b.access or Access.READ_WRITE for b in formal]
            label = f"@{stage.program} {'x'.join(map(str, stage.grid))}"
        else:
            from ..ir.ops import OPS

            kernel = OPS[stage.kernel].kernel
            accesses = [role.access for role in kernel.roles] if kernel else []
            label = stage.kernel
        node = self.node(label)
        for name, access in zip(stage.buffers, accesses, strict=True):
            self.access(node, f"{key}@{name}", access)

    def access(self, node: str, buffer: str, access: Access) -> None:
        if access is not Access.WRITE:
            self.edge(buffer, node)
        if access is not Access.READ:
            self.edge(node, buffer)
