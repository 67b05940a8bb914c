"""The language in memory: types, ops, programs and pipelines, what must hold of them, and what builds them."""
