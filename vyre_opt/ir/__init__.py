"""The language in memory: types, ops, programs and pipelines, what must hold of them, and what builds them."""

from ..faces import face

__getattr__, __dir__ = face("ir", "syntax", "kernels")
