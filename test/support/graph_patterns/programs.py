"""The text of a variant.

Every program has the graph's @rows and @neighbours, and a value for each vertex in @values.

    @best, @total   one element      what conditional_edge and conditional_vertex combine
    @count, @list   a counter, and the edges that worklist appends
    @out            one a vertex     what push, pull and exchange make
    @parent, @root  one a vertex     the forest of path_compression and path_roots
    @mid            one a vertex     what the first phase of exchange hands to the second
    @carry          one a lane       a workgroup's reduction

A place is named where the text reads or writes memory; the lanes of `model.py` use the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from .program_text import ProgramText
from .variants import SUBGROUP, WORKGROUP, Variant

__all__ = ["MID_COUNT", "OUTPUTS", "program_text"]

MID_COUNT = 128
"""Elements of @mid: as many as the largest graph has vertices."""

OUTPUTS = {
    "conditional_edge": ("best",),
    "conditional_vertex": ("total",),
    "worklist": ("count", "list"),
    "push": ("out",),
    "pull": ("out",),
    "path_compression": ("parent",),
    "path_roots": ("parent", "root"),
    "exchange": ("out",),
}
"""Pattern -> its buffers beyond the graph and @values, in the order of their bindings."""


def program_text(variant: Variant) -> ProgramText:
    """The module's text; its only program is @p."""
    text = ProgramText()
    with text.block(f"program @p workgroup({WORKGROUP})"):
        _declare(text, variant)
        _BODIES[variant.pattern](text, variant)
    return text


def _declare(text: ProgramText, variant: Variant) -> None:
    inputs = (("rows", "u32"), ("neighbours", "u32"), ("values", variant.dtype))
    for binding, (name, dtype) in enumerate(inputs):
        text.line(f"buffer @{name} : {dtype}[?] read binding({binding})")
    for binding, name in enumerate(OUTPUTS[variant.pattern], len(inputs)):
        text.line(f"buffer @{name} : {variant.dtype}[?] read_write binding({binding}) live_in live_out")
    if variant.spread in ("tree", "tiles"):
        text.line(f"buffer @carry : {variant.dtype}[{WORKGROUP}] workgroup")
    if variant.pattern == "exchange":
        text.line(f"buffer @mid : {variant.dtype}[{MID_COUNT}] read_write")


# --- who visits what


@contextmanager
def _vertices(text: ProgramText, variant: Variant) -> Iterator[str]:
    """The vertices of the lane's group."""
    vertices = text.value("len @values")
    groups = text.value("num_workgroups x")
    if variant.spread == "lane":
        first, stride = text.value("global_id x"), text.value("global_size x")
    elif variant.spread == "subgroup":
        per_workgroup = text.value("num_subgroups")
        workgroup, subgroup = text.value("workgroup_id x"), text.value("subgroup_id")
        first = text.op("add", text.op("mul", workgroup, per_workgroup), subgroup)
        stride = text.op("mul", groups, per_workgroup)
    else:
        first, stride = text.value("workgroup_id x"), groups
    if variant.plant == "bounds_vertex":
        vertices = text.op("add", vertices, text.const(1))
    if variant.persistent:
        with text.counted(first, vertices, stride) as vertex:
            yield vertex
    else:
        with text.when(text.op("lt", first, vertices)):
            yield first


def _share(text: ProgramText, variant: Variant) -> tuple[str, str]:
    """Which of a vertex's edges are the lane's: the first, and the distance from one to the next."""
    if variant.spread == "lane":
        return text.const(0), text.const(1)
    if variant.spread == "subgroup":
        return text.value("lane_id"), text.const(SUBGROUP)
    return text.value("local_id x"), text.const(WORKGROUP)


def _extent(text: ProgramText, variant: Variant, vertex: str) -> tuple[str, str, str]:
    """Where a vertex's edges begin and end in @neighbours, and how many are visited."""
    begin = text.load("rows.begin", "rows", vertex)
    end = text.load("rows.end", "rows", text.op("add", vertex, text.const(1)))
    visits = text.op("sub", end, begin)
    one = text.const(1)
    if variant.order in ("first", "last"):
        # the mistake: there may be no edge
        visits = one if variant.plant == "bounds_edge" else text.op("min", visits, one)
    elif variant.plant == "bounds_edge":
        visits = text.op("add", visits, one)
    return begin, end, visits


def _edge(text: ProgramText, variant: Variant, begin: str, end: str, visit: str) -> tuple[str, str]:
    """The place of an edge in @neighbours, and the vertex that it leads to."""
    if variant.order in ("reverse", "last"):
        edge = text.op("sub", text.op("sub", end, visit), text.const(1))
    else:
        edge = text.op("add", begin, visit)
    return edge, text.load("edge", "neighbours", edge)


def _counts(text: ProgramText, variant: Variant, vertex: str, neighbour: str) -> str:
    """Whether an edge counts, as a bool."""
    return text.op("lt", vertex, neighbour) if variant.upward else text.value("const true : bool")


Visit = Callable[[str, str], None]
"""Writes what is done with an edge that counts: its place in @neighbours and its neighbour."""
Use = Callable[[str], None]
"""Writes what is done with a vertex's result."""


def _each_edge(text: ProgramText, variant: Variant, vertex: str, visit: Visit) -> None:
    begin, end, visits = _extent(text, variant, vertex)
    if variant.order == "until":
        _until(text, variant, vertex, (begin, end, visits), visit)
        return
    first, step = _share(text, variant)
    with text.counted(first, visits, step) as number:
        edge, neighbour = _edge(text, variant, begin, end, number)
        with text.when(_counts(text, variant, vertex, neighbour)):
            visit(edge, neighbour)


def _until(
    text: ProgramText, variant: Variant, vertex: str, extent: tuple[str, str, str], visit: Visit
) -> None:
    """Visits edges up to and including the first that counts."""
    begin, end, visits = extent
    zero, on = text.const(0), text.value("const true : bool")
    number, more = text.new_name(), text.new_name()
    results = f"{text.new_name()}, {text.new_name()}"
    header = f"{results} = while iter({number} = {zero} : u32, {more} = {on} : bool)"
    with text.block(header, "} do {"):
        left = text.op("lt", number, visits)
        text.line(f"condition {text.op('and', left, more, 'bool')}")
    with text.block(None):
        edge, neighbour = _edge(text, variant, begin, end, number)
        counts = _counts(text, variant, vertex, neighbour)
        with text.when(counts):
            visit(edge, neighbour)
        text.line(f"yield {text.op('add', number, text.const(1))}, {text.value(f'not {counts} : bool')}")


def _private(
    text: ProgramText, variant: Variant, vertex: str, op: str, term: Callable[[str], str]
) -> tuple[str, str, str]:
    """Combines `term(neighbour)` over the lane's edges that count.

    Gives the result, the number of the lane's first edge, and how many edges the vertex has.
    """
    dtype = variant.dtype
    begin, end, visits = _extent(text, variant, vertex)
    first, step = _share(text, variant)
    total, counter, so_far = text.new_name(), text.new_name(), text.new_name()
    zero = text.const(0, dtype)
    header = f"{total} = for {counter} = {first} to {visits} step {step} iter({so_far} = {zero} : {dtype})"
    with text.block(header):
        _, neighbour = _edge(text, variant, begin, end, counter)
        combined = text.op(op, so_far, term(neighbour), dtype)
        counts = _counts(text, variant, vertex, neighbour)
        text.line(f"yield {text.value(f'select {counts}, {combined}, {so_far} : {dtype}')}")
    return total, first, visits


# --- reductions and updates


def _value(text: ProgramText, variant: Variant, vertex: str) -> str:
    return text.load("value", "values", vertex, variant.dtype)


def _reduced(
    text: ProgramText, variant: Variant, value: str, op: str, has_edges: Callable[[], str]
) -> tuple[str, str]:
    """`value` combined over the group, and whether this lane is the one that has the result."""
    zero = text.const(0)
    if variant.spread == "lane":
        return value, text.op("eq", zero, zero)
    if variant.spread == "subgroup":
        total = text.value(f"subgroup_reduce<{op}> {value} : {variant.dtype}")
        return total, text.op("eq", text.value("lane_id"), zero)
    lane = text.value("local_id x")
    if variant.spread == "tree":
        _tree(text, variant, value, op, has_edges)
    else:
        _tiles(text, variant, value, op)
    return "", text.op("eq", lane, zero)


def _tree(text: ProgramText, variant: Variant, value: str, op: str, has_edges: Callable[[], str]) -> None:
    """Halves the lanes that hold a part of the result until @carry[0] holds all."""
    dtype, lane = variant.dtype, text.value("local_id x")
    # the mistake: a lane that has no edges leaves its element as it was
    with text.when(has_edges()) if variant.plant == "clear" else nullcontext():
        text.store("carry.own", "carry", lane, value, dtype)
    if variant.plant != "sync_first":
        text.line("barrier workgroup")
    stride = WORKGROUP // 2
    while stride:
        with text.when(text.op("lt", lane, text.const(stride))):
            far = text.load(f"carry.far{stride}", "carry", text.op("add", lane, text.const(stride)), dtype)
            near = text.load(f"carry.near{stride}", "carry", lane, dtype)
            text.store(f"carry.sum{stride}", "carry", lane, text.op(op, near, far, dtype), dtype)
            if variant.plant == "barrier":
                text.line("barrier workgroup", "carry.barrier")
        if variant.plant != "barrier" and not (variant.plant == "sync_tree" and stride == 16):
            text.line("barrier workgroup")
        stride //= 2


def _tiles(text: ProgramText, variant: Variant, value: str, op: str) -> None:
    """Combines each subgroup; its first lane leaves the result in @carry."""
    dtype, zero = variant.dtype, text.const(0)
    part = text.value(f"subgroup_reduce<{op}> {value} : {dtype}")
    with text.when(text.op("eq", text.value("lane_id"), zero)):
        text.store("carry.own", "carry", text.value("subgroup_id"), part, dtype)
    if variant.plant != "sync_first":
        text.line("barrier workgroup")


def _use_total(text: ProgramText, variant: Variant, reduced: tuple[str, str], op: str, use: Use) -> None:
    """The group's first lane uses the result of `_reduced`: `use(total)`."""
    total, is_first = reduced
    with text.when(is_first):
        if variant.spread in ("tree", "tiles"):
            total = text.load("carry.first", "carry", text.const(0), variant.dtype)
        if variant.spread == "tiles":
            other = text.load("carry.second", "carry", text.const(1), variant.dtype)
            total = text.op(op, total, other, variant.dtype)
        use(total)
    if variant.spread == "tiles" and variant.plant != "sync_last":
        text.line("barrier workgroup")


def _combine(
    text: ProgramText,
    variant: Variant,
    vertex: str,
    op: str,
    use: Use,
    term: Callable[[str], str] | None = None,
) -> None:
    """Combines a term of each edge that counts, @values[neighbour] if none is given, over the vertex's group."""
    term = term or (lambda neighbour: _value(text, variant, neighbour))
    total, first, visits = _private(text, variant, vertex, op, term)
    reduced = _reduced(text, variant, total, op, lambda: text.op("lt", first, visits))
    _use_total(text, variant, reduced, op, use)


def _update(text: ProgramText, variant: Variant, buffer: str, index: str, op: str, value: str) -> None:
    """An atomic update of an element, behind a guard if the variant has one."""
    dtype = variant.dtype
    if variant.plant == "atomic":
        old = text.load("update.load", buffer, index, dtype)
        text.store("update.store", buffer, index, text.op(op, old, value, dtype), dtype)
        return
    if not variant.guarded:
        text.atomic("update", op, buffer, index, value, dtype)
        return
    if variant.plant == "guard":
        old = text.load("guard", buffer, index, dtype)
    else:
        old = text.atomic("guard", "or", buffer, index, text.const(0, dtype), dtype)
    with text.when(text.op({"max": "lt", "min": "gt"}[op], old, value, dtype)):
        text.atomic("update", op, buffer, index, value, dtype)


# --- the patterns


def _conditional_edge(text: ProgramText, variant: Variant) -> None:
    """The greatest value at the end of an edge that counts."""

    def update(value: str) -> None:
        _update(text, variant, "best", text.const(0), "max", value)

    with _vertices(text, variant) as vertex:
        if variant.spread == "lane":
            _each_edge(text, variant, vertex, lambda _, n: update(_value(text, variant, n)))
        else:
            _combine(text, variant, vertex, "max", update)


def _conditional_vertex(text: ProgramText, variant: Variant) -> None:
    """The number of edges that count, added up by the vertices that have one."""
    dtype = variant.dtype

    def update(count: str) -> None:
        with text.when(text.op("gt", count, text.const(0, dtype), dtype)):
            _update(text, variant, "total", text.const(0), "add", count)

    with _vertices(text, variant) as vertex:
        _combine(text, variant, vertex, "add", update, lambda _: text.const(1, dtype))


def _worklist(text: ProgramText, variant: Variant) -> None:
    """A list of the edges that count, in any order."""

    def append(edge: str, _: str) -> None:
        zero, one = text.const(0), text.const(1)
        if variant.plant == "atomic":
            at = text.load("update.load", "count", zero)
            text.store("update.store", "count", zero, text.op("add", at, one))
        else:
            at = text.atomic("update", "add", "count", zero, one)
        text.store("list", "list", at, edge)

    with _vertices(text, variant) as vertex:
        _each_edge(text, variant, vertex, append)


def _push(text: ProgramText, variant: Variant) -> None:
    """Each neighbour keeps the least of its own value and those pushed to it."""
    with _vertices(text, variant) as vertex:
        value = _value(text, variant, vertex)
        _each_edge(text, variant, vertex, lambda _, n: _update(text, variant, "out", n, "min", value))


def _pull(text: ProgramText, variant: Variant) -> None:
    """Each vertex adds the values of its neighbours to its own output."""
    dtype = variant.dtype

    def add_to_own(total: str) -> None:
        old = text.load("own.load", "out", vertex, dtype)
        text.store("own.store", "out", vertex, text.op("add", old, total, dtype), dtype)

    with _vertices(text, variant) as vertex:
        if variant.plant != "race":
            _combine(text, variant, vertex, "add", add_to_own)
        elif variant.spread == "lane":
            # the mistake: it reads what others are writing
            _combine(text, variant, vertex, "add", add_to_own, lambda n: text.load("value", "out", n, dtype))
        else:
            # the mistake: each lane adds its own part
            total, first, visits = _private(text, variant, vertex, "add", lambda n: _value(text, variant, n))
            with text.when(text.op("lt", first, visits)):
                add_to_own(total)


def _path(text: ProgramText, variant: Variant) -> None:
    """Each vertex finds its root; path_compression stores it as the parent, path_roots elsewhere."""
    in_place = variant.pattern == "path_compression"
    plain = not in_place or variant.plant == "race"

    def parent_of(vertex: str, place: str) -> str:
        if plain:
            return text.load(place, "parent", vertex)
        return text.atomic(place, "or", "parent", vertex, text.const(0))

    with _vertices(text, variant) as vertex:
        place, parent = text.new_name(), text.new_name()
        root = text.new_name()
        first = parent_of(vertex, "parent.own")
        header = f"{root}, {text.new_name()} = while iter({place} = {vertex} : u32, {parent} = {first} : u32)"
        with text.block(header, "} do {"):
            text.line(f"condition {text.op('lt', parent, place)}")
        with text.block(None):
            text.line(f"yield {parent}, {parent_of(parent, 'parent.next')}")
        if not plain:
            text.atomic("parent.store", "exchange", "parent", vertex, root)
        elif variant.plant == "race":
            text.store("parent.store", "parent", vertex, root)
        else:
            text.store("root", "root", vertex, root)


_BARRIER_OF = {"sync_none": "", "sync_scope": "barrier workgroup"}


def _exchange(text: ProgramText, variant: Variant) -> None:
    """Every vertex hands twice its value to those that it is a neighbour of, which add up what they get."""
    dtype = variant.dtype

    def keep(total: str) -> None:
        text.store("own.store", "out", vertex, total, dtype)

    with _vertices(text, variant) as vertex:
        value = _value(text, variant, vertex)
        text.store("mid.store", "mid", vertex, text.op("add", value, value, dtype), dtype)
    barrier = _BARRIER_OF.get(variant.plant, "barrier grid")
    if barrier:
        text.line(barrier)
    with _vertices(text, variant) as vertex:
        _combine(text, variant, vertex, "add", keep, lambda n: text.load("mid.load", "mid", n, dtype))


_BODIES: dict[str, Callable[[ProgramText, Variant], None]] = {
    "conditional_edge": _conditional_edge,
    "conditional_vertex": _conditional_vertex,
    "worklist": _worklist,
    "push": _push,
    "pull": _pull,
    "path_compression": _path,
    "path_roots": _path,
    "exchange": _exchange,
}
