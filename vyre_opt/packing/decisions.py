"""Changes of passes to a function, as parts of a pack: the texts before and after, remarks, and a certificate.

`vyre-pack verify` checks the certificate again, of these two texts and no others.
"""

from __future__ import annotations

from ..certificates.writer import CertificateWriter
from ..driver.pass_pipeline import Passes
from ..ir.program import Module
from ..pack_files.format import Part, canonical
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module

__all__ = ["decision_parts"]


def decision_parts(name: str, module: Module, passes: Passes) -> list[Part]:
    """Texts of a function as written and after passes, in the generic form; remarks of the passes, and a certificate."""
    copy, writer = copy_module(module), CertificateWriter()
    manager = PassManager(passes or (), target="cpu", verify_each=False, observers=[writer])
    remarks = [
        {
            "kind": remark.kind,
            "message": remark.message,
            "pass": remark.pass_name,
            "place": None if remark.loc is None else str(remark.loc),
        }
        for remark in manager.run(copy).remarks
    ]
    certificate = writer.certificate(copy)  # which also reads the text that no pass ran on
    return [
        Part(f"texts/{name}", "text", writer.written.encode()),
        Part(f"optimised/{name}", "text", writer.optimised.encode()),
        Part(f"remarks/{name}", "remarks", canonical(remarks)),
        Part(f"certificates/{name}", "certificate", certificate.encode()),
    ]
