"""Packs as files: named parts under BLAKE3 digests.  Nothing here knows what a part means; docs/packs.md has the format to the byte.

format    parts as bytes, and back
trust     whether a pack is one that its loader accepts, and signatures
compare   the parts in which packs differ, and packs merged into one
"""
