"""Changes of passes to a function, as parts of a pack: the texts before and after, remarks, and a certificate.

`vyre-pack verify` checks the certificate again, of these two texts and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..certificates.writer import CertificateWriter
from ..driver.pass_pipeline import Passes
from ..ir.program import Module
from ..pack_files.format import Part, canonical
from ..passes.manager import PassManager
from ..rewriting.cloning import copy_module

if TYPE_CHECKING:
    from ..passes.context import Remark
    from ..passes.registry import Pass

__all__ = ["Decisions"]


class Decisions:
    """Observes the passes of a function while it is compiled."""

    def __init__(self) -> None:
        self._writer, self._remarks = CertificateWriter(), list["Remark"]()

    def before(self, running: Pass, module: Module) -> None:
        self._writer.before(running, module)

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        self._writer.after(running, module, changed, remarks)
        self._remarks += remarks

    def parts(self, name: str, module: Module, passes: Passes, target: str) -> list[Part]:
        """Texts of a function as written and after passes, in the generic form; remarks of the passes, and a certificate.

        `module`: as written, on which passes that wait for the lengths of a call run now, for any lengths.
        """
        writer, copy = self._writer, copy_module(module)
        if not writer.texts:
            PassManager(passes or (), target=target, verify_each=False, observers=[self]).run(copy)
        remarks = [
            {
                "kind": remark.kind,
                "message": remark.message,
                "pass": remark.pass_name,
                "place": None if remark.loc is None else str(remark.loc),
            }
            for remark in self._remarks
        ]
        certificate = writer.certificate(copy)  # which also reads the text that no pass ran on
        return [
            Part(f"texts/{name}", "text", writer.written.encode()),
            Part(f"optimised/{name}", "text", writer.optimised.encode()),
            Part(f"remarks/{name}", "remarks", canonical(remarks)),
            Part(f"certificates/{name}", "certificate", certificate.encode()),
        ]
