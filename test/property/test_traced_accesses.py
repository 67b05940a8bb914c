"""What analyses say of accesses to buffers of one and several dimensions, against those that the interpreter makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import Settings, random_inputs, random_program
from support.dimension_programs import random_pipeline
from support.quick import quick
from support.traced_accesses import Claims, check_claims

from vyre_opt import parse
from vyre_opt.analysis import bounds, coverage, dependence, footprint, virtual_index
from vyre_opt.analysis.affine import AffineExpr
from vyre_opt.analysis.footprint import MemoryAccess
from vyre_opt.ir import Op

SETTINGS = Settings(statements=6, dimensions=0.7)
PART = 5


def claims_of_programs(seeds: range) -> Claims:
    claims = Claims()
    for seed in seeds:
        sample = random_program(seed, SETTINGS)
        inputs = random_inputs(sample.program, sample.grid, seed)
        check_claims(sample.program, sample.module, sample.grid, inputs, claims)
    return claims


def claims_of_pipelines(seeds: range) -> Claims:
    """Each program of a pipeline alone, on a grid for all elements; some have races or go out of bounds."""
    claims = Claims()
    for seed in seeds:
        case = random_pipeline(seed)
        module = parse(case.text)
        for program in module.programs.values():
            extents = [*reversed(case.shape), 1][:3]
            x, y, z = (-(-extent // size) for extent, size in zip(extents, program.workgroup, strict=True))
            rng = np.random.default_rng(seed)
            inputs = [rng.integers(0, 1 << 32, case.shape, np.uint32) for _ in program.bound_buffers]
            check_claims(program, module, (x, y, z), inputs, claims)
    return claims


@pytest.mark.parametrize("start", quick(range(0, 2000, PART)))
def test_random_programs(start: int) -> None:
    claims = claims_of_programs(range(start, start + PART))
    assert not claims.wrong, claims.wrong[:5]
    assert claims.checked["footprint"] > PART
    assert claims.checked["apart between lanes"] > PART


@pytest.mark.parametrize("start", quick(range(0, 2000, PART)))
def test_programs_of_random_pipelines(start: int) -> None:
    claims = claims_of_pipelines(range(start, start + PART))
    assert not claims.wrong, claims.wrong[:5]
    assert claims.checked["footprint"] > PART
    assert claims.checked["bounds"] > PART


def wrong_footprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns change places."""
    right = footprint.virtual_index

    def swapped(op: Op, *rest: Any) -> Any:
        expr = right(op, *rest)
        if not isinstance(expr, AffineExpr):
            return expr
        total = AffineExpr()
        for part in reversed(virtual_index.components(expr, len(op.indices))):
            total = total.scaled(virtual_index.RADIX) + part
        return total

    monkeypatch.setattr(footprint, "virtual_index", swapped)


def wrong_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load and store is proven."""
    right = bounds.BoundsProofs.__init__

    def claims_all(self: bounds.BoundsProofs, *args: Any, **options: Any) -> None:
        right(self, *args, **options)
        self.proven = {op: () for op in self.program.walk() if op.name in ("load", "store")}

    monkeypatch.setattr(bounds.BoundsProofs, "__init__", claims_all)


def wrong_dependence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One dimension is enough to tell invocations apart."""
    monkeypatch.setattr(
        dependence.DependenceTest, "_determined_ids", lambda self, p, q, counts, fixed: set(counts)
    )


def wrong_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a workgroup reads, it has written."""

    def run(self: coverage.CoverageWalk) -> None:
        self.order = {
            access.op: "barrier" for access in self.footprints.events if isinstance(access, MemoryAccess)
        }

    monkeypatch.setattr(coverage.CoverageWalk, "run", run)


MISTAKES = {
    "footprint": (wrong_footprint, claims_of_pipelines),
    "bounds": (wrong_bounds, claims_of_pipelines),
    "apart": (wrong_dependence, claims_of_programs),
    "coverage": (wrong_coverage, claims_of_programs),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_wrong_claim_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that never finds anything would pass every other test here."""
    plant, claims_of = MISTAKES[kind]
    plant(monkeypatch)
    found = (claims_of(range(seed, seed + 1)).wrong for seed in range(30))
    assert any(what.startswith(kind) for wrong in found for what in wrong)
