"""A random program as a kernel in Python can say it: what Python has no words for is replaced by what it has.

    IR                                        replaced by
    specialization constants                  their defaults, by the pass `specialize`
    defaults of params                        none
    buffers of a fixed size, transient ones   bound ones of open size; a read_write one is live in and out
    len of shared memory; cast of len to u64  its constant; len : u64, which `u64(len(x))` is
    a NaN with a payload                      the NaN that arithmetic gives
    a vector constant of different lanes      `vector` of its lanes
    a cast to its own type; to bool           its operand; a comparison with 0
    a vector access at any index              at a multiple of its lanes: `x.vec(4)[i, j]` is at i, j * 4

Buffers of vectors are left out by `SETTINGS`.
The program that comes out is another one, which may be at fault when it runs; it is to be translated only.
"""

from __future__ import annotations

from vyre_opt.ir import OPS, AccessMode, Buffer, DataType, Module, Op, Program, Value, arith
from vyre_opt.ir.program import NO_ATTRS
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_for
from vyre_opt.rewriting.walker import Walker

from .expressions import SCALARS, Settings
from .sample import Sample

__all__ = ["SETTINGS", "python_subset"]

SETTINGS = Settings(statements=8, fastmath=True, elements=SCALARS, dimensions=0.0)
"""Of the generator, for programs that Python can say but for the table above."""


def python_subset(sample: Sample) -> Module:
    """A module with the program of a sample, and the functions that it calls, of what Python can say."""
    module = copy_for(sample.module, sample.program)
    PassManager("specialize", verify_each=False).run(module)
    for func in module.funcs.values():
        _Replacer({}).walk_block(func.body)
    program = module.programs[sample.program.name]
    _Replacer(program.buffers).walk_block(program.body)
    _declare(program)
    return module


def _declare(program: Program) -> None:
    """Buffers and params as arguments of a function."""
    arguments = [buffer for buffer in program.buffers.values() if not buffer.is_workgroup]
    for binding, buffer in enumerate(arguments):
        buffer.shape, buffer.binding = (None,) * buffer.dimensions, binding
        buffer.live_in = buffer.access is AccessMode.READ_WRITE
        buffer.live_out = buffer.access is not AccessMode.READ
    for param in program.params.values():
        param.default = None


class _Replacer(Walker):
    """Replaces ops, as the table says.  `buffers`: those of the program; a function has none."""

    def __init__(self, buffers: dict[str, Buffer]) -> None:
        super().__init__()
        self.buffers = buffers

    def visit(self, op: Op, out: list[Op]) -> None:
        replace = getattr(self, f"_{op.name}", None)
        if replace is None or not replace(op, out):
            out.append(op)

    def _new(
        self, out: list[Op], name: str, operands: tuple[Value, ...], dtype: DataType, value: object = None
    ) -> Value:
        attrs = NO_ATTRS if value is None else {"value": value}
        out.append(Op(OPS[name], operands, (Value("n", dtype),), attrs))
        return out[-1].result

    def _const(self, op: Op, out: list[Op]) -> bool:
        dtype, value = op.result.type, op.attrs["value"]
        if dtype.element.is_float:
            lanes = [_without_payload(lane, dtype.element) for lane in _lanes(value)]
            value = tuple(lanes) if isinstance(value, tuple) and len(set(lanes)) > 1 else lanes[0]
            op.attrs = {"value": value}
        if not isinstance(value, tuple):
            return False
        parts = tuple(self._new(out, "const", (), dtype.element, lane) for lane in value)
        self.replace(op.results, [self._new(out, "vector", parts, dtype)])
        return True

    def _len(self, op: Op, out: list[Op]) -> bool:
        buffer, dtype = self.buffers[op.attrs["buffer"]], op.result.type
        if buffer.is_workgroup:
            self.replace(
                op.results, [self._new(out, "const", (), dtype, buffer.extent(op.attrs.get("dimension")))]
            )
            return True
        return False

    def _cast(self, op: Op, out: list[Op]) -> bool:
        source, dtype = op.operands[0], op.result.type
        if source.type is dtype:
            self.replace(op.results, op.operands)
            return True
        if isinstance(source.owner, Op) and source.owner.name == "len" and dtype is DataType.U64:
            out.append(Op(source.owner.definition, (), (Value("n", dtype),), source.owner.attrs))
            self.replace(op.results, out[-1].results)
            return True
        if dtype.element.is_bool:
            zero = self._new(out, "const", (), source.type, 0)
            self.replace(op.results, [self._new(out, "ne", (source, zero), dtype)])
            return True
        return False

    def _load(self, op: Op, out: list[Op]) -> bool:
        *rows, last = op.operands
        op.operands = (*rows, self._multiple(last, op.result.type, out))
        return False

    def _store(self, op: Op, out: list[Op]) -> bool:
        value, *rows, last = op.operands
        op.operands = (value, *rows, self._multiple(last, value.type, out))
        return False

    def _multiple(self, index: Value, dtype: DataType, out: list[Op]) -> Value:
        """The last index of an access, times its lanes."""
        if not dtype.is_vec:
            return index
        lanes = self._new(out, "const", (), index.type, dtype.lanes)
        return self._new(out, "mul", (index, lanes), index.type)


def _lanes(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _without_payload(bits: int, dtype: DataType) -> int:
    number = arith.decode_float(bits, dtype)
    return bits if number == number else arith.encode_float(float("nan"), dtype)
