"""Report about passes on a module's pipelines, for Python: as text, in a notebook, and as a page."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..driver.call_report import CallReport
from ..ir.diagnostics import render
from ..ir.program import Module
from ..passes.manager import PassManager, Remark
from ..rewriting.cloning import copy_module
from .decisions import decisions
from .launches import call_reports
from .page import fragment, page
from .pictures import pictures
from .snapshot import ModuleSnapshot, snapshot
from .traffic import show_bytes

__all__ = ["Report"]


class Report:
    """A module before and after passes.

    `str` says what became one launch, what stayed apart and which fact is missing; a notebook shows that as a drawing;
    `save` writes it as a page.  `module`: after the passes.  `remarks`: what each pass says.  `call`: what a call launches.
    """

    def __init__(
        self, module: Module, passes: str | Sequence[str] = "default", call: CallReport | None = None
    ) -> None:
        """Runs the passes on a copy of the module.  Raises PassError for a wrong pipeline of passes."""
        self.call = call
        self.module = copy_module(module)
        self.before: ModuleSnapshot = snapshot(self.module)
        self.manager = PassManager(passes)
        self.remarks: list[Remark] = self.manager.run(self.module).remarks

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _lines(self) -> Iterator[str]:
        after = pictures(self.module)
        for name, before in self.before.pictures.items():
            now = after[name]
            old, new = before.traffic.known, now.traffic.known
            moved = f", {show_bytes(old)} -> {show_bytes(new)} through memory" if old or new else ""
            yield f"pipeline @{name}: {before.launches} -> {now.launches} launches{moved}"
            found = decisions(before, now, self.remarks)
            for fusion in found.fused:
                parts = ", ".join(f"@{launch}" for launch in fusion.launches)
                yield f"  @{fusion.program} from {parts}"
                for buffer, where in fusion.handoffs.items():
                    yield f"    @{buffer}: now in {where}"
            for cut in found.missed:
                yield f"  apart: {cut.message.partition(chr(10))[0]}"
        for remark in self.remarks:
            if remark.kind == "warning":
                yield render(remark.diagnostic())
        if self.call is not None:
            yield str(self.call)

    def _repr_html_(self) -> str:
        prefix = f"r{zlib.crc32(str(self).encode()):08x}-"
        return fragment(self.module, self.before, self.remarks, prefix, self._calls())

    def html(self) -> str:
        """The whole page, as `vyre-opt --emit=html` writes it."""
        return page(self.module, self.before, self.manager, self.remarks, None, self._calls())

    def _calls(self) -> Mapping[str, CallReport | str]:
        """Reports of the pipeline that `call` is of, or of all whose sizes the text says."""
        if self.call is None:
            return call_reports(self.module)
        return dict.fromkeys(self.before.pictures, self.call)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.  Raises OSError."""
        Path(path).write_text(self.html(), encoding="utf-8")
