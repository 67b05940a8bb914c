"""A linker for object code in this process: ELF objects for x86-64 and aarch64 become pages that run, without LLVM.

Imports the standard library alone.
"""
