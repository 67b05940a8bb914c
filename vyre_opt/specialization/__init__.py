"""Specialization: values for a program's constants and type parameters, and cache keys made of both."""

from ..faces import face

__getattr__, __dir__ = face("specialization")
