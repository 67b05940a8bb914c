"""Pipelines for launch_fusion, of every kind that it decides on."""

from __future__ import annotations

from .kinds import KINDS, Kind
from .programs import BUMP, COUNT, MIRROR, REVERSE, TRIPLE, pipeline, stage, window

__all__ = ["BUMP", "COUNT", "KINDS", "MIRROR", "REVERSE", "TRIPLE", "Kind", "pipeline", "stage", "window"]
