"""`--emit=pack`: the pipelines and programs of a text, compiled into a file for machines without the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..execution.dispatcher import BadInputs
from ..ir.diagnostics import DiagnosticError, Source
from ..ir.verifier import verify
from ..mlir.file_kind import parse_either
from ..packing.packer import packed
from ..specialization.binding import bind
from . import errors
from .errors import ToolError
from .pack_shapes import parse_shapes
from .text_files import write_file

if TYPE_CHECKING:
    from ..ir.program import Module

__all__ = ["write_pack"]


def write_pack(
    text: str,
    name: str,
    output: str,
    target: str | None,
    passes: Sequence[str],
    specs: Any,
    shapes: Sequence[str] = (),
) -> int:
    """Compile a text and write the pack; `shapes`: calls, see `parse_shapes`.  Raises DiagnosticError for a text that is wrong, ToolError for what is not packed."""
    module = _module(text, name, specs)
    try:
        content = packed([module], target or "cpu", _calls(shapes), passes=",".join(passes) or None)
    except BadInputs as error:
        raise ToolError(str(error)) from None
    write_file(content, output)
    return errors.DONE


def _calls(texts: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Arrays of the calls by function; of an array its shape alone counts."""
    calls: dict[str, list[dict[str, Any]]] = {}
    for function, shapes in map(parse_shapes, texts):
        arrays = {name: np.broadcast_to(np.uint8(0), shape) for name, shape in shapes.items()}
        calls.setdefault(function, []).append(arrays)
    return calls


def _module(text: str, name: str, specs: Any) -> Module:
    module = parse_either(Source(text, name))
    diagnostics = verify(module)
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise DiagnosticError(diagnostics)
    errors.print_diagnostics(diagnostics, errors.use_color("auto"))
    if specs:
        bind(module, specs)
    return module
