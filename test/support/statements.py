"""Random statements: accesses, barriers, subgroup ops, and blocks that hold more of them.

Control flow is uniform where all of a workgroup takes it together.  Barriers and
subgroup ops stand only there, under conditions and bounds that the verifier can see
to be uniform too.
"""

from __future__ import annotations

from collections.abc import Callable

from vyre_opt.ir import OPS, DataType, Value
from vyre_opt.ir.builder import Nest, Operand
from vyre_opt.ir.ops import COMBINERS

from .expressions import INTEGERS, SCALARS, Expressions
from .memory import DividedBuffer, MemoryGenerator, Track

MAX_TRIPS = 4


DIRECTIVES = {
    "uint": ("%u", "%08x", "%-5d|"),
    "int": ("%d", "%+i", "%X"),
    "float": ("%f", "%.3e", "%10g"),
    "bool": ("%b", "%7b"),
}
"""By kind of element."""


class Statements:
    """Adds statements where the builder stands.  `memory` is None in a function, which has no buffers."""

    def __init__(self, e: Expressions, memory: MemoryGenerator | None) -> None:
        self.e = e
        self.b = e.b
        self.rng = e.rng
        self.memory = memory
        self.nesting = 0
        self.regions = 0
        self.uniform = memory is not None

    def several(self, count: int) -> None:
        for _ in range(count):
            self.one()

    def one(self) -> None:
        """One statement; an expression instead of one that would race or read unwritten elements here."""
        nested = self.nesting < self.e.settings.depth and self.rng.random() < 0.3
        choices = self._structured() if nested else self._simple()
        if not self.rng.choice(choices)():
            self.e.fresh(self.e.any_type())

    def _simple(self) -> list[Callable[[], bool]]:
        memory = self.memory
        if memory is None:
            return [self.expression]
        choices = [
            self.expression,
            memory.load_input,
            memory.atomic_counter,
            *(self._on(memory.owned, act) for act in (memory.store_own, memory.load_own, memory.atomic_own)),
        ]
        if memory.shared:
            acts = (memory.store_own, memory.fill_own, memory.load_own, memory.load_other, memory.load_other)
            choices += [
                self._on(memory.shared, act) for act in (*acts, memory.atomic_tile, memory.atomic_own)
            ]
        if self.uniform and self.e.settings.sync:
            choices += [self.barrier, self.subgroup, self.subgroup]
            choices += [self.barrier, self.handoff] if memory.shared else []
        if self.rng.random() < 0.1:
            choices += [self.trap, self.assert_, self.debug_print]
        return choices

    def _structured(self) -> list[Callable[[], bool]]:
        return [self.for_loop, self.for_loop, self.while_loop, self.if_, self.if_, self.region]

    def _on(self, storages: list[DividedBuffer], act: Callable[[DividedBuffer], bool]) -> Callable[[], bool]:
        return lambda: act(self.rng.choice(storages))

    # --- simple statements ----------------------------------------------------------------

    def expression(self) -> bool:
        self.e.fresh(self.e.any_type())
        return True

    def barrier(self) -> bool:
        assert self.memory is not None
        if self.rng.random() < 0.15:
            self.b.barrier("subgroup")
        else:
            self.memory.barrier()
        return True

    def handoff(self) -> bool:
        """Write, barrier, read what others wrote."""
        memory = self.memory
        assert memory is not None
        storage = self.rng.choice(memory.shared)
        if storage.track.read or storage.track.atomic:
            memory.barrier()
        memory.fill_own(storage)
        memory.barrier()
        for _ in range(self.rng.randrange(1, 4)):
            memory.load_other(storage)
        return True

    def subgroup(self) -> bool:
        b, e, rng = self.b, self.e, self.rng
        row = rng.choice(
            [row for row in OPS.values() if row.format in ("shuffle", "reduce", "scan", "ballot")]
        )
        if row.format == "ballot":
            result = b.subgroup_ballot(e.value(DataType.BOOL))
        elif row.format == "shuffle":
            lane = e.value(DataType.U32) if rng.random() < 0.3 else b.const(rng.randrange(36))
            result = b.subgroup_shuffle(e.value(e.any_type()), lane, rng.choice(("idx", "up", "down", "xor")))
        else:
            combine = rng.choice(COMBINERS)
            pattern = OPS["and" if combine in ("and", "or", "xor") else "add"]
            dtype = rng.choice([t for t in SCALARS if pattern.accepts(t)])
            value = e.value(dtype)
            if row.format == "reduce":
                result = getattr(b, row.name)(value, combine)
            else:
                result = getattr(b, row.name)(value, rng.choice(("inclusive", "exclusive")), combine)
        e.note(result)
        return True

    def trap(self) -> bool:
        """A trap that is never reached."""
        value = self.e.value(DataType.U32)
        with self.b.if_(self.b.gt(self.b.rem(value, 5), 5)):
            self.b.trap('not reached: "5 > 5"\n')
        return True

    def assert_(self) -> bool:
        """An assert that holds, of which no pass knows it."""
        value = self.e.value(DataType.U32)
        self.b.assert_(self.b.lt(self.b.rem(value, 5), 5), 'never: "5 < 5"')
        return True

    def debug_print(self) -> bool:
        e, rng = self.e, self.rng
        types = [e.any_type() for _ in range(rng.randrange(4))]
        values = [e.value(dtype) for dtype in types]
        directives = [rng.choice(("%v", *DIRECTIVES[dtype.element.kind])) for dtype in types]
        self.b.debug_print(f"100%% {rng.randrange(10)}: " + ", ".join(directives), *values)
        return True

    # --- blocks ---------------------------------------------------------------------------

    def _inside(self, uniform: bool, body: Callable[[], None]) -> None:
        """Fill a block with `body`; its values go out of scope after it."""
        outside = self.uniform
        self.uniform = outside and uniform
        self.nesting += 1
        places = dict(self.memory.places) if self.memory else {}
        with self.e.pool.scope():
            body()
        if self.memory:
            self.memory.places = places
        self.nesting -= 1
        self.uniform = outside

    def _body(self, nest: Nest, types: list[DataType]) -> None:
        self.several(self.rng.randrange(1, 5))
        if self.memory and self.rng.random() < 0.4:
            self.memory.add_to_digest(self.digest(4))
        if types:
            nest.yield_(*[self.e.value(dtype) for dtype in types])

    def _types(self) -> list[DataType]:
        return [self.e.any_type() for _ in range(self.rng.choice((0, 1, 1, 2)))]

    def _bound(self, dtype: DataType, uniform: bool) -> tuple[Operand, Operand, Operand]:
        """Lower, upper and step of at most MAX_TRIPS trips, far from the type's ends."""
        rng, b, e = self.rng, self.b, self.e
        trips = rng.randrange(MAX_TRIPS + 1)
        step = rng.randrange(1, 4)
        lower = rng.randrange(-3 if dtype.is_signed else 0, 4)
        if rng.random() < 0.5:
            return lower, max(lower, lower + trips * step - rng.randrange(step)), step
        if uniform:
            upper = b.rem(e.uniform(DataType.U32), MAX_TRIPS + 1)
            return (0 if rng.random() < 0.5 else b.const(1)), upper, 1
        dynamic = e.small(dtype, MAX_TRIPS + 1)
        first: Operand = e.small(dtype, 2) if rng.random() < 0.4 else max(lower, 0)
        pace = b.add(b.and_(e.value(dtype), 1), 1) if rng.random() < 0.3 else 1
        return first, dynamic, pace

    def for_loop(self) -> bool:
        uniform = self.uniform and self.rng.random() < 0.5
        dtype = DataType.U32 if uniform or self.rng.random() < 0.5 else self.rng.choice(INTEGERS)
        lower, upper, step = self._bound(dtype, uniform)
        types = self._types()
        carry = [self.e.value(dtype) for dtype in types]
        before = self._enter_loop(uniform)
        with self.b.for_(lower, upper, step, carry=carry, dtype=dtype) as loop:

            def body() -> None:
                self.e.pool.add(loop.index, uniform)
                for arg in loop.args:
                    self.e.pool.add(arg)
                self._body(loop, types)

            self._inside(uniform, body)
        return self._leave(loop, before)

    def while_loop(self) -> bool:
        """A while that counts its trips, and may stop for another reason."""
        b, e = self.b, self.e
        types = self._types()
        carry = [b.const(0), *(e.value(dtype) for dtype in types)]
        most = self.rng.randrange(MAX_TRIPS + 1)
        before = self._enter_loop(False)
        with b.while_(carry) as loop:

            def condition() -> None:
                in_range = b.lt(loop.args[0], most)
                for arg in loop.args:
                    e.pool.add(arg)
                loop.condition(
                    b.and_(in_range, e.value(DataType.BOOL)) if self.rng.random() < 0.5 else in_range
                )

            def body() -> None:
                counter, *rest = loop.args
                for arg in rest:
                    e.pool.add(arg)
                self.several(self.rng.randrange(1, 4))
                loop.yield_(b.add(counter, 1), *[e.value(dtype) for dtype in types])

            self._inside(False, condition)
            self._inside(False, body)
        return self._leave(loop, before)

    def if_(self) -> bool:
        """An `if`, and sometimes others of its condition behind it, for passes that merge them."""
        uniform = self.uniform and self.rng.random() < 0.4
        condition = self.e.uniform(DataType.BOOL) if uniform else self.e.value(DataType.BOOL)
        self._if(condition, uniform)
        while self.rng.random() < 0.3:
            for _ in range(self.rng.randrange(3)):
                self.rng.choice(self._simple())()
            self._if(condition, uniform)
        return True

    def _if(self, condition: Value, uniform: bool) -> None:
        types = self._types()
        memory = self.memory
        before = memory.snapshot() if memory else []
        with self.b.if_(condition) as branch:
            self._inside(uniform, lambda: self._body(branch, types))
        first = memory.snapshot() if memory else []
        if memory:
            memory.restore(before)
            if not uniform:
                memory.merge_concurrent(first)
        if types or self.rng.random() < 0.5:
            with branch.else_():
                self._inside(uniform, lambda: self._body(branch, types))
        if memory:
            memory.merge(first)
        self._results(branch)

    def region(self) -> bool:
        types = self._types()
        self.regions += 1
        with self.b.region(f"part{self.regions}") as nest:
            self._inside(True, lambda: self._body(nest, types))
        self._results(nest)
        return True

    def _enter_loop(self, uniform: bool) -> list[Track]:
        memory = self.memory
        if memory is None:
            return []
        before = memory.snapshot()
        memory.enter_loop(uniform and self.e.settings.sync)
        return before

    def _leave(self, nest: Nest, before: list[Track]) -> bool:
        if self.memory is not None:
            self.memory.merge(before)
        self._results(nest)
        return True

    def _results(self, nest: Nest) -> None:
        for value in nest.results:
            self.e.pool.add(value)

    # --- the end --------------------------------------------------------------------------

    def digest(self, count: int) -> Value:
        """A u64 that depends on `count` values in scope, so that a wrong one shows in an output."""
        b = self.b
        values = [value for same_type in self.e.pool.by_type.values() for value in same_type]
        digest = b.const(0, DataType.U64)
        for value in self.rng.sample(values, min(count, len(values))):
            digest = b.xor(b.rotl(digest, 7), self._word(value))
        return digest

    def _word(self, value: Value) -> Value:
        """The bits of one lane of a value; a NaN counts as 0.0."""
        b = self.b
        if value.type.is_vec:
            value = b.extract(value, self.rng.randrange(value.type.lanes))
        if value.type.is_float:
            value = b.select(b.eq(value, value), value, 0.0)
            value = b.bitcast(value, DataType.of(f"u{value.type.bits}"))
        return value if value.type is DataType.U64 else b.cast(value, DataType.U64)
