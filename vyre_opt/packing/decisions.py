"""Changes of passes to a function, as parts of a pack: the texts before and after, remarks, and a certificate.

`vyre-pack verify` checks the certificate again, of these two texts and no others.
"""

from __future__ import annotations

from typing import Any

from ..driver.pass_pipeline import Passes
from ..ir.program import Module
from ..pack_files.format import Part, canonical
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module
from ..syntax.printer import print_program
from ..worker import find_module, import_module

__all__ = ["decision_parts"]

CERTIFICATES = "vyre_opt.certificates"
"""Module that writes certificates; a build may lack it."""


def decision_parts(name: str, module: Module, passes: Passes) -> list[Part]:
    """Texts of a function as written and after passes, in the generic form; remarks of the passes, and a certificate."""
    copy = copy_module(module)
    manager = PassManager(passes or (), target="cpu", verify_each=False)
    writer: Any = None
    if find_module(CERTIFICATES) is not None:
        writer = import_module(CERTIFICATES).CertificateWriter()
        manager.observers.append(writer)
    remarks = [
        {
            "kind": remark.kind,
            "message": remark.message,
            "pass": remark.pass_name,
            "place": None if remark.loc is None else str(remark.loc),
        }
        for remark in manager.run(copy).remarks
    ]
    parts = [
        Part(f"texts/{name}", "text", print_program(module, generic=True).encode()),
        Part(f"optimised/{name}", "text", print_program(copy, generic=True).encode()),
        Part(f"remarks/{name}", "remarks", canonical(remarks)),
    ]
    if writer is not None:
        parts.append(Part(f"certificates/{name}", "certificate", writer.certificate(copy).encode()))
    return parts
