"""A checker of certificates: that an optimised text does what the text as written does, by arithmetic on the two texts.

It needs Python alone, and nothing of the compiler: a reader of the generic form, terms for values, one walk through programs.

reader       texts as programs and pipelines            elements  sets of elements that a workgroup touches
terms        values as sums of ids, counters and ops    cover     what a workgroup reads, it has written
walk         two programs side by side                  apart     what workgroups, or lanes, touch of one buffer
claims       same, tile, join                           facts     in bounds, free of races
certificate  a whole one, and the report
"""

from __future__ import annotations

from .certificate import Finding, Report, check

__all__ = ["Finding", "Report", "check"]
