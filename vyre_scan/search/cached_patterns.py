"""Expressions in the compile cache: their facts, and the automata of their atoms, under a key of the expressions and of the
sources that read them.  Automata of literals are built in less time than a store takes to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from vyre_opt.execution.cache.compilations import fetch, new_log, pack_parts, unpack_parts
from vyre_opt.execution.cache.store import Store
from vyre_opt.specialization.digest import digest_of

from .. import patterns as patterns_package
from ..arrays import Array
from ..patterns.automaton import Automaton
from ..patterns.expression import Expression, read_expressions
from ..patterns.pattern_list import Patterns
from ..patterns.rule_facts import Facts
from .tables import PatternTables, SearchTables, atom_tables

__all__ = ["KIND", "cached_tables"]

KIND = "patterns"

Expressions = tuple[Expression, ...]

_ARRAYS = tuple(field.name for field in fields(Automaton))


def cached_tables(patterns: Patterns, caseless: bool, store: Store | None) -> PatternTables:
    """The tables of patterns, from the store if it has them; None: without one.  Raises PatternError, LimitExceeded."""
    contents = enumerate(patterns.contents)
    literals = [content for number, content in contents if number not in patterns.expressions]
    searches = [SearchTables.of_literals(literals, caseless)] if literals else []
    if not patterns.expressions:
        return PatternTables(patterns, caseless, searches)

    def compile() -> tuple[bytes, tuple[Expressions, list[SearchTables]]]:
        expressions = tuple(read_expressions(patterns))
        atoms = atom_tables(expressions)
        return (b"" if store is None else encode(expressions, atoms)), (expressions, atoms)

    expressions, atoms = fetch(
        store,
        KIND,
        lambda: _key(patterns),
        lambda payload: decode(payload, patterns),
        compile,
        new_log(),
        f"{len(patterns.expressions)} expressions",
    )
    return PatternTables(patterns, caseless, [*searches, *atoms], expressions)


def _key(patterns: Patterns) -> bytes:
    syntax = [
        (k, one.flags, one.is_text, one.is_of_re, one.bounds) for k, one in patterns.expressions.items()
    ]
    contents = [patterns.contents[number] for number in patterns.expressions]
    return digest_of(
        [
            ("compiler", "sources", _sources()),
            ("syntax", "rows", repr(syntax).encode()),
            ("lengths", "u32", np.fromiter(map(len, contents), "<u4", len(contents)).tobytes()),
            ("patterns", "bytes", b"".join(contents)),
        ]
    )


@cache
def _sources() -> bytes:
    """A hash of the sources that make tables: a checkout changes between versions."""
    from blake3 import blake3

    digest = blake3()
    here = (Path(__file__).with_name(name) for name in ("cached_patterns.py", "tables.py"))
    for path in (*sorted(Path(patterns_package.__path__[0]).glob("*.py")), *here):
        content = path.read_bytes()
        digest.update(path.name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.digest()


def encode(expressions: Expressions, atoms: Sequence[SearchTables]) -> bytes:
    """A payload: facts of expressions and of their atoms, and the arrays of automata, one after the other."""
    rows, arrays = [], list[Array]()
    for tables in atoms:
        own = [] if tables.literals else [getattr(tables.automaton, name) for name in _ARRAYS]
        literals = [literal.decode("latin-1") for literal in tables.literals]
        rows.append((tables.owners, literals, [(array.dtype.str, array.shape) for array in own]))
        arrays += own
    facts = {
        "expressions": [
            [one.number, one.source.decode("latin-1"), asdict(one.facts) | {"atoms": ()}]
            for one in expressions
        ],
        "atoms": rows,
    }
    return pack_parts(facts, b"".join(array.tobytes() for array in arrays))


def decode(payload: bytes, patterns: Patterns) -> tuple[Expressions, list[SearchTables]]:
    """The expressions of a payload of these patterns, and the tables of their atoms.  Raises any exception for another payload."""
    facts, content = unpack_parts(payload)
    atoms, at = list[SearchTables](), 0
    for owners, literals, forms in facts["atoms"]:
        arrays = []
        for dtype, shape in forms:
            arrays.append(np.frombuffer(content, dtype, prod(shape), at).reshape(shape))
            at += arrays[-1].nbytes
        octets = [literal.encode("latin-1") for literal in literals]
        atoms.append(
            SearchTables.of_literals(octets, True, owners)
            if literals
            else SearchTables(Automaton(*arrays), owners)
        )
    expressions = tuple(
        Expression(number, source.encode("latin-1"), patterns.expressions[number], Facts(**values))
        for number, source, values in facts["expressions"]
    )
    return expressions, atoms
