"""`--emit`: the formats in which vyre-opt writes a compiled module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .errors import ToolError
from .text_files import MARKER

if TYPE_CHECKING:
    from ..certificates import CertificateWriter
    from ..ir.program import Module
    from ..passes.manager import PassManager, Remark
    from ..report.measure import RunTimes
    from ..report.snapshot import ModuleSnapshot
    from .compile_options import CompileOptions

__all__ = [
    "EMIT_FORMATS",
    "LOWERED",
    "certificate_writer",
    "check_emit_format",
    "emit",
    "join",
    "snapshot_before",
]

LOWERED = ("llvm", "ptx", "asm")
REPORTS = ("html", "dot")
EMIT_FORMATS = ("vyre", *LOWERED, "mlir", "json", *REPORTS, "smt2", "pack", "certificate")


def check_emit_format(
    emit_format: str,
    target: str | None,
    version: tuple[int, int] | None,
    is_split: bool,
    bounds: str = "none",
    bare_pointers: bool = False,
    debug_info: bool = False,
) -> None:
    """Raises ValueError for a format that cannot be made for the target, or of a split input, or with other options."""
    if debug_info and emit_format not in LOWERED:
        raise ValueError(
            "--debug-info is of --emit=ptx, asm and llvm, which have code; lines of others: --print-locations"
        )
    if bare_pointers and emit_format != "mlir":
        raise ValueError("--bare-pointers says what the arguments of --emit=mlir are")
    if bounds != "none" and emit_format == "mlir":
        raise ValueError("--emit=mlir writes accesses of memrefs, which check no bounds; leave --bounds out")
    if emit_format == "html" and is_split:
        raise ValueError("--emit=html makes one page of one module; run it without --split-input-file")
    if emit_format == "pack" and is_split:
        raise ValueError("--emit=pack makes one pack of one module; run it without --split-input-file")
    if emit_format in LOWERED:
        from .emit_lowered import check_lowered

        check_lowered(emit_format, target, version)


def certificate_writer(options: CompileOptions) -> CertificateWriter | None:
    """Watches the passes for --emit=certificate; None for other formats."""
    if options.emit != "certificate":
        return None
    from ..certificates import CertificateWriter

    return CertificateWriter()


def snapshot_before(module: Module, options: CompileOptions) -> ModuleSnapshot | None:
    """The module before any pass, for the formats that compare it with that after them."""
    if options.emit not in REPORTS:
        return None
    from ..report.snapshot import snapshot

    return snapshot(module, keeps_module=options.measure)


def emit(
    module: Module,
    options: CompileOptions,
    manager: PassManager | None,
    remarks: Sequence[Remark],
    statistics: Mapping[tuple[str, str], int],
    before: ModuleSnapshot | None,
    legalize: Callable[[], Sequence[Remark]],
) -> str:
    """The text of a module in the format `options.emit`; `before` is from `snapshot_before`.

    `legalize`: runs the passes of the target on the module, for the code of one.
    """
    if options.emit in LOWERED:
        from .emit_lowered import lowered

        return lowered(module, options, legalize)
    if options.emit == "mlir":
        from ..mlir.emit import emit_mlir

        if not module.programs:
            raise ToolError("there is no program here to write as MLIR")
        return emit_mlir(module, options.bare_pointers)
    if options.emit == "json":
        from .emit_json import document

        return document(module, options.target, manager, remarks, statistics)
    if options.emit == "dot" and before is not None:
        from .emit_dot import graph

        return graph(module, before.pictures, remarks)
    if options.emit == "html" and before is not None:
        from ..report.launches import call_reports
        from ..report.page import page

        calls = call_reports(module, options.target or "")
        return page(module, before, manager, remarks, _measured(before, module), calls)
    from ..syntax.printer import print_program

    return print_program(module, options.print_generic, options.print_locations)


def _measured(before: ModuleSnapshot, module: Module) -> Mapping[str, RunTimes] | None:
    """The times of --measure; None without it."""
    if before.module is None:
        return None
    from ..report.measure import measure

    return measure(before.module, module)


def join(texts: Sequence[str], emit_format: str, is_split: bool) -> str:
    """The texts of a split input as one: a JSON list, or the texts with markers between them."""
    if emit_format in ("json", "certificate") and is_split:
        return f"[\n{','.join(texts).rstrip()}\n]\n"
    return f"{MARKER}\n".join(texts)
