"""The remedy for a loop whose block gives values that the loop does not carry: its head with `iter`, by the names at hand.

%s = for %k = 0 to 4 step 1 {          write %s = for %k = 0 to 4 step 1 iter(%acc = %z : f32) {, and %acc for %z in it
  %n = add %z, %v : f32
  yield %n
}
"""

from __future__ import annotations

from collections.abc import Sequence

from .diagnostics import Location
from .program import Op, Value

__all__ = ["with_iter"]


def with_iter(loc: Location | None, yielded: Sequence[Value], names: Sequence[str] = ()) -> str | None:
    """The remedy for a `for` or `while` at `loc`; `names`: those of its results, if it has any.  None where a value begins nowhere."""
    if loc is None:
        return None
    head = loc.text.partition("{")[0].strip()
    head = head.partition(" = ")[2] if names else head
    starts = [_start(value, loc) for value in yielded]
    if (
        not head.startswith(("for", "while"))
        or not starts
        or None in starts
        or (names and len(names) != len(starts))
    ):
        return None
    single = len(starts) == 1
    carried = ["%acc" if single else f"%acc{number}" for number in range(len(starts))]
    results = [*names] or ["%total" if single else f"%total{number}" for number in range(len(starts))]
    pairs = [
        f"{acc} = %{start.name} : {start.type}"
        for acc, start in zip(carried, starts, strict=True)
        if start is not None
    ]
    inside = ", ".join(
        f"{acc} for %{start.name}" for acc, start in zip(carried, starts, strict=True) if start is not None
    )
    behind = (
        ""
        if names
        else ", and behind it "
        + ", ".join(
            f"{result} for %{start.name}"
            for result, start in zip(results, starts, strict=True)
            if start is not None
        )
    )
    return f"write {', '.join(results)} = {head} iter({', '.join(pairs)}) {{, in it {inside}{behind}"


def _start(value: Value, loop: Location) -> Value | None:
    """The value that a round adds to: of its own type, from before the loop."""
    op = value.owner
    for operand in op.operands if isinstance(op, Op) else ():
        before = operand.owner.loc if isinstance(operand.owner, Op) else None
        if operand.type is value.type and before is not None and before.end <= loop.start:
            return operand
    return None
