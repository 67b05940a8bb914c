"""Changes of passes to a function, as parts of a pack: their remarks, and a certificate that `vyre-pack verify` checks again."""

from __future__ import annotations

from typing import Any

from ..driver.pass_pipeline import Passes
from ..ir.program import Module
from ..pack_files.format import Part, canonical
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module
from ..worker import find_module, import_module

__all__ = ["decision_parts"]

CERTIFICATES = "vyre_opt.certificates"
"""Module that writes certificates; a build may lack it."""


def decision_parts(name: str, module: Module, passes: Passes) -> list[Part]:
    """The remarks of passes on a function, and the certificate, with the two texts that it is of."""
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
    parts = [Part(f"remarks/{name}", "remarks", canonical(remarks))]
    if writer is not None and writer.texts:
        certificate = writer.certificate(copy)
        of = {"optimised": f"certificates/{name}/optimised", "written": f"certificates/{name}/written"}
        parts += [
            Part(f"certificates/{name}", "certificate", certificate.encode(), of),
            Part(of["written"], "text", writer.written.encode()),
            Part(of["optimised"], "text", writer.optimised.encode()),
        ]
    return parts
