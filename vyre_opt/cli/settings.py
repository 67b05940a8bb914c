"""What the command line of vyre-opt asked for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(slots=True, eq=False, repr=False)
class Settings:
    """The options that a run of the compiler reads; each has the name of its option."""

    passes: tuple[str, ...] = ()
    emit: str = "vyre"
    target: str | None = None
    ptx_version: tuple[int, int] | None = None
    bounds: str = "none"
    spec: tuple[tuple[str, str], ...] = ()
    print_generic: bool = False
    print_ir_before: tuple[str, ...] = ()
    print_ir_after: tuple[str, ...] = ()
    print_ir_after_all: bool = False
    print_ir_after_change: bool = False
    verify_each: bool = True
    verify_diagnostics: bool = False
    verify_roundtrip: bool = False
    split_input_file: bool = False
    timing: bool = False
    stats: bool = False
    remarks: tuple[str, ...] = ()
    dump_pass_pipeline: bool = False
    crash_reproducer: str | None = None
    color: bool = False
