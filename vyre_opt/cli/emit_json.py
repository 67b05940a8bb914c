"""`--emit=json`: a module, the remarks of its passes, their statistics, and what its lowering takes for proven, as one
document.

Values are numbered within their program or function, since names need not be unique; constants
and the defaults of specs are text as the language writes it, so that no reader rounds them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Location
from ..ir.grids import show_extent
from ..ir.literals import show
from ..ir.pipeline import Fill, HostRead, Launch, Pipeline, Repeat, Stage
from ..ir.program import Block, Buffer, Func, Module, Op, Param, Program, Spec, Value
from ..lowering.common.certificates import certificates

if TYPE_CHECKING:
    from ..passes.manager import PassManager, Remark

__all__ = ["document"]

SCHEMA = 1
"""Incremented when a key is removed or changes its meaning; not for new keys."""

Json = dict[str, Any]


def document(
    module: Module,
    target: str | None,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    statistics: Mapping[tuple[str, str], int],
) -> str:
    """The JSON text of a module after its passes."""
    whole = {
        "schema": SCHEMA,
        "source": module.source.name if module.source else None,
        "target": target,
        "pipeline": [str(p) for p in manager.passes] if manager else [],
        "programs": [_program(i) for i in module.order if isinstance(i, Program)],
        "funcs": [_func(i) for i in module.order if isinstance(i, Func)],
        "pipelines": [_pipeline(i) for i in module.order if isinstance(i, Pipeline)],
        "remarks": [_remark(r) for r in remarks],
        "lowering": [_claim(*claim) for i in module.programs.values() for claim in certificates(i)],
        "statistics": [{"pass": name, "what": what, "number": n} for (name, what), n in statistics.items()],
    }
    rows = ",\n".join(f'  "{key}": {_text(value)}' for key, value in whole.items())
    return f"{{\n{rows}\n}}\n"


def _text(value: Any) -> str:
    """JSON with a line for each member of a list; a member is on one line, which json's C encoder writes."""
    if not isinstance(value, list) or not value:
        return json.dumps(value, default=_plain)
    return "[\n    " + ",\n    ".join(json.dumps(member, default=_plain) for member in value) + "\n  ]"


def _plain(value: Any) -> Any:
    """Values of a certificate besides those of JSON: sets, and objects that `str` describes."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _remark(remark: Remark) -> Json:
    return {
        "pass": remark.pass_name,
        "kind": remark.kind,
        "message": remark.message,
        "location": _location(remark.loc),
        "certificate": remark.certificate,
    }


def _claim(op: Op, certificate: Json) -> Json:
    return {"location": _location(op.loc), "certificate": certificate}


def _location(loc: Location | None) -> Json | None:
    if loc is None:
        return None
    line, column = loc.source.line_column(loc.start)
    return {"file": loc.source.name, "line": line, "column": column}


def _program(program: Program) -> Json:
    return {
        "name": program.name,
        "workgroup": program.workgroup,
        "grid": program.grid,
        "prefer_shared": program.prefer_shared,
        "cluster": program.cluster,
        "buffers": [_buffer(b) for b in program.buffers.values()],
        "specs": [_scalar(s) for s in program.specs.values()],
        "params": [_scalar(p) for p in program.params.values()],
        "ops": _OpWriter().block(program.body)["ops"],
        "location": _location(program.loc),
    }


def _func(func: Func) -> Json:
    body = _OpWriter().block(func.body)
    results = [t.name for t in func.results]
    return {
        "name": func.name,
        "params": body["args"],
        "results": results,
        "ops": body["ops"],
        "location": _location(func.loc),
    }


def _pipeline(pipeline: Pipeline) -> Json:
    return {
        "name": pipeline.name,
        "specs": [_scalar(s) for s in pipeline.specs.values()],
        "buffers": [_buffer(b) for b in pipeline.buffers.values()],
        "params": [_scalar(p) for p in pipeline.params.values()],
        "stages": [_stage(s) for s in pipeline.stages],
        "location": _location(pipeline.loc),
    }


def _stage(stage: Stage) -> Json:
    location = _location(stage.loc)
    if isinstance(stage, Repeat):
        return {"repeat": stage.times, "stages": [_stage(s) for s in stage.stages], "location": location}
    if isinstance(stage, Launch):
        grid = [extent if isinstance(extent, int) else show_extent(extent) for extent in stage.grid]
        launch = {"launch": stage.program, "grid": grid, "buffers": stage.buffers, "location": location}
        return {**launch, "notes": stage.notes} if stage.notes else launch
    if isinstance(stage, HostRead):
        return {"host_read": stage.buffer, "location": location}
    if isinstance(stage, Fill):
        return {"fill": stage.buffer, "value": stage.shown, "location": location}
    return {"kernel": stage.kernel, "buffers": stage.buffers, "params": stage.attrs, "location": location}


def _buffer(buffer: Buffer) -> Json:
    return {
        "name": buffer.name,
        "dtype": buffer.dtype.name,
        "count": buffer.count,
        "shape": list(buffer.shape),
        "sizes": [None if size is None else show_extent(size) for size in buffer.sizes],
        "size_bytes": buffer.size_bytes,
        "access": None if buffer.access is None else str(buffer.access),
        "binding": buffer.binding,
        "live_in": buffer.live_in,
        "live_out": buffer.live_out,
        "location": _location(buffer.loc),
    }


def _scalar(item: Spec | Param) -> Json:
    default = None if item.default is None else show(item.default, item.dtype)
    return {"name": item.name, "dtype": item.dtype.name, "default": default, "location": _location(item.loc)}


class _OpWriter:
    """Writes the ops of one body, numbering values in the order of their definition."""

    def __init__(self) -> None:
        self.numbers: dict[Value, int] = {}

    def define(self, value: Value) -> Json:
        number = self.numbers[value] = len(self.numbers)
        return {"value": number, "name": value.name, "type": value.type.name}

    def block(self, block: Block) -> Json:
        return {"args": [self.define(a) for a in block.args], "ops": [self.op(op) for op in block.ops]}

    def op(self, op: Op) -> Json:
        record: Json = {"op": op.name, "operands": [self.numbers[v] for v in op.operands]}
        if op.attrs:
            record["attrs"] = {key: _attr(op, key, value) for key, value in op.attrs.items()}
        if op.regions:
            record["regions"] = [self.block(block) for block in op.regions]
        record["results"] = [self.define(v) for v in op.results]
        record["location"] = _location(op.loc)
        return record


def _attr(op: Op, key: str, value: Any) -> Any:
    return show(value, op.results[0].type) if op.name == "const" and key == "value" else value
