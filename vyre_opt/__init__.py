"""vyre-opt: a compiler for small GPU pipelines.

Everything a user needs is importable from here; each name is loaded when it is
first asked for, so that `import vyre_opt` and the command line start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "parse": "ir.parser",
    "parse_file": "ir.parser",
    "print_program": "ir.printer",
    "verify": "ir.verifier",
    "fingerprint": "ir.fingerprint",
    "Builder": "ir.builder",
    "DataType": "ir.types",
    "DiagnosticError": "ir.diagnostics",
    "Diagnostic": "ir.diagnostics",
    "PassManager": "passes.manager",
    "count_opportunities": "passes.decode_scan_fuse",
    "candidate_handoffs": "passes.decode_scan_fuse",
    "dispatcher": "runtime.dispatcher",
    "DispatchError": "runtime.dispatcher",
    "BadInputs": "runtime.dispatcher",
    "BackendError": "runtime.dispatcher",
    "ProgramError": "runtime.dispatcher",
    "Scratch": "runtime.dispatcher",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
