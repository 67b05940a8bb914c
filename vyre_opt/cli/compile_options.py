"""The options of vyre-opt that a compilation reads."""

from __future__ import annotations

from ..records import dataclass

__all__ = ["ALL", "CompileOptions"]

ALL = "*"
"""All passes, among the names of them that an option takes."""


@dataclass(slots=True, eq=False, repr=False)
class CompileOptions:
    """Each option by its name on the command line.  `passes`: those of --pass, which are `named_passes`, and of -O."""

    passes: tuple[str, ...] = ()
    named_passes: tuple[str, ...] = ()
    emit: str = "vyre"
    measure: bool = False
    target: str | None = None
    ptx_version: tuple[int, int] | None = None
    debug_info: bool = False
    bounds: str = "none"
    bare_pointers: bool = False
    spec: tuple[tuple[str, str], ...] = ()
    print_generic: bool = False
    print_locations: bool = False
    print_ir_before: tuple[str, ...] = ()
    print_ir_before_all: bool = False
    print_ir_after: tuple[str, ...] = ()
    print_ir_after_all: bool = False
    print_ir_after_change: bool = False
    print_ir_after_failure: bool = False
    print_ir_tree_dir: str | None = None
    print_op_stats: str | None = None
    parser: str = "tables"
    verify_each: bool = True
    verify_diagnostics: bool = False
    verify_roundtrip: bool = False
    split_input_file: bool = False
    timing: bool = False
    stats: bool = False
    remarks: tuple[str, ...] = ()
    remarks_file: str | None = None
    debug_only: tuple[str, ...] = ()
    opt_bisect_limit: int | None = None
    dump_pass_pipeline: bool = False
    crash_reproducer: str | None = None
    no_crash_reproducer: bool = False
    certify: bool = False
    color: bool = False
