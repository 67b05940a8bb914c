"""Op name -> its handler.  Every op of the language has an entry."""

from __future__ import annotations

from ...ir.ops import OPS
from . import atomics, control, elementwise, ids, kernel_ops, matrices, memory_ops, slices, subgroups
from .machine import Handler

TERMINATORS = ("yield", "condition")
"""Ops that `Machine.run_block` handles itself."""

_BY_FORMAT: dict[str, Handler] = {
    "unary": elementwise.arithmetic,
    "binary": slices.of_same_extents(elementwise.arithmetic),
    "ternary": slices.of_same_extents(elementwise.arithmetic),
    "compare": slices.of_same_extents(elementwise.compare),
    "convert": elementwise.convert,
    "id": ids.id_or_size,
    "size": ids.id_or_size,
    "atomic": atomics.atomic,
    "kernel": kernel_ops.kernel,
}

_BY_NAME: dict[str, Handler] = {
    "const": ids.const,
    "spec": ids.spec,
    "param": ids.param,
    "len": memory_ops.length,
    "load": memory_ops.load,
    "store": memory_ops.store,
    "select": slices.of_same_extents(elementwise.select),
    "splat": elementwise.splat,
    "vector": elementwise.vector,
    "extract": elementwise.extract,
    "insert": elementwise.insert,
    "permute": elementwise.permute,
    "movemask": elementwise.movemask,
    "copy_async": memory_ops.copy_async,
    "copy_wait": memory_ops.copy_wait,
    "barrier": subgroups.barrier,
    "subgroup_shuffle": subgroups.shuffle,
    "subgroup_reduce": subgroups.reduce,
    "subgroup_scan": subgroups.scan,
    "workgroup_reduce": subgroups.workgroup_reduce,
    "workgroup_scan": subgroups.workgroup_scan,
    "subgroup_ballot": subgroups.ballot,
    "matrix_load": matrices.load,
    "matrix_store": matrices.store,
    "matrix_mul_add": matrices.mul_add,
    "matrix_unpack": matrices.unpack,
    "matrix_pack": matrices.pack,
    "slice_load": slices.load,
    "slice_gather": slices.gather,
    "slice_store": slices.store,
    "slice_broadcast": slices.broadcast,
    "slice_iota": slices.iota,
    "slice_reduce": slices.reduce,
    "slice_scan": slices.scan,
    "slice_transpose": slices.transpose,
    "slice_dot": slices.dot,
    "slice_len": slices.length,
    "for": control.for_,
    "while": control.while_,
    "if": control.if_,
    "region": control.region,
    "call": control.call,
    "trap": control.trap,
    "assert": control.assert_,
    "check_bounds": control.check_bounds,
    "debug_print": control.debug_print,
    "breakpoint": control.breakpoint_,
}

TABLE: dict[str, Handler] = {
    **{row.name: _BY_FORMAT[row.format] for row in OPS.values() if row.format in _BY_FORMAT},
    **_BY_NAME,
}
