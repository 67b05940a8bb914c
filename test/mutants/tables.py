"""The tables of all areas, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import analysis, faults, fusion, lowering_common, lowering_host, lowering_nvptx, passes, told
from .mutant import Mutant

__all__ = ["AREAS", "MUTANTS"]

AREAS: Mapping[str, Sequence[Mutant]] = {
    "Analysis": analysis.MUTANTS,
    "Proofs of fusion": fusion.MUTANTS,
    "Passes": passes.MUTANTS,
    "Faults that stay": faults.MUTANTS,
    "What is told before it runs, and fills": told.MUTANTS,
    "Lowering: arithmetic of all targets": lowering_common.MUTANTS,
    "Lowering: the CPU": lowering_host.MUTANTS,
    "Lowering: PTX": lowering_nvptx.MUTANTS,
}

MUTANTS: Sequence[Mutant] = [mutant for area in AREAS.values() for mutant in area]
