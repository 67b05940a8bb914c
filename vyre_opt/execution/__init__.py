"""Calls of programs: arrays, plans of launches, the protocol of all targets, the errors, and the limits of a call."""

from ..faces import face

__getattr__, __dir__ = face("execution", "targets", "driver", "debugger")
