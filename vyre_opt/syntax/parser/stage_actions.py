"""Semantic actions for the stages of pipelines: launches and their grids, kernels, host reads, repeats."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...ir.diagnostics import Location
from ...ir.grids import FUNCTIONS, MAX_DEPTH, Extent, GridCall
from ...ir.literals import Literal
from ...ir.pipeline import MAX_REPEATS, Fill, HostRead, KernelStage, Launch, LaunchParam, Note, Repeat, Stage
from .constant_actions import PendingConstant
from .generic_actions import GenericActions
from .scopes import Symbol


class StageActions(GenericActions):
    def launch(
        self,
        start: int,
        end: int,
        symbol: Symbol,
        grid: list[Extent],
        names: list[str] | None,
        params: list[tuple[Symbol, LaunchParam]] | None,
        attrs: dict[str, Any] | None = None,
    ) -> Launch:
        if len(grid) > 3:
            self.error(f"a grid has 1 to 3 dimensions, not {len(grid)}", start, end)
        dims = (*grid, 1, 1)
        loc = Location(self.source, start, end)
        notes = {key: self._note(key, value, start, end) for key, value in (attrs or {}).items()}
        values = {name: value for (name, _), value in params or ()}
        for number, ((name, at), _) in enumerate(params or ()):
            if any(name == earlier for (earlier, _), _ in (params or ())[:number]):
                self.error(f"@{name} is passed twice", at.start, at.end)
        stage = Launch(symbol[0], (dims[0], dims[1], dims[2]), tuple(names or ()), loc, notes, values)
        if self.has_error(start, end):
            self.holes.mark_invalid(stage)
        return stage

    def launch_param(self, start: int, end: int, symbol: Symbol, value: Symbol) -> tuple[Symbol, LaunchParam]:
        return symbol, value[0]

    def launch_param_literal(
        self, start: int, end: int, symbol: Symbol, value: Literal
    ) -> tuple[Symbol, LaunchParam]:
        return symbol, value

    def _note(self, key: str, value: Any, start: int, end: int) -> Note:
        kind, text = value if isinstance(value, tuple) else ("list", "")
        if kind == "int":
            return self.integer(start, end, text)
        if kind == "bool":
            return bool(text == "true")
        if kind != "string":
            self.error(f"note {key} is a number, true, false or a string", start, end)
        return str(text)

    def repeat(self, start: int, end: int, times: str, stages: list[Stage] | None = None) -> Repeat:
        inner = self.located(stages or [])
        stage = Repeat(self.integer(start, end, times), inner, Location(self.source, start, end))
        if stage.depth > MAX_REPEATS:
            self.error(f"repeats nest deeper than {MAX_REPEATS}", start, start + len("repeat"))
            stage.stages = []
        return stage

    def extent_param(self, start: int, end: int, symbol: Symbol) -> Extent:
        return GridCall("param", (symbol[0],))

    count_param = extent_param

    def extent_call(
        self, start: int, end: int, name: str, first: Extent, rest: list[Extent] | None = None
    ) -> Extent:
        args = (first, *(rest or ()))
        if name == "len":
            is_buffer = isinstance(first, GridCall) and first.name == "param"
            if len(args) > 2 or not is_buffer or not all(isinstance(arg, int) for arg in args[1:]):
                self.error("len takes a buffer", start, end, help="write len(@buffer), or len(@buffer, 1)")
                return 1
            assert isinstance(first, GridCall)
            return GridCall("len", (*first.args, *args[1:]))
        if name not in FUNCTIONS:
            known = ["len", *FUNCTIONS]
            help = f"there are {', '.join(known)}"
            error = self.name_error(f"a grid has no function {name}", start, start + len(name), help)
            error.suggestion = partial(self.advice, name, "extent", known)
            return 1
        if len(args) != 2:
            self.error(f"{name} takes two numbers", start, end, help=f"write {name}(len(@buffer), 256)")
            return 1
        call = GridCall(name, args)
        if call.depth > MAX_DEPTH:
            self.error(f"a grid's calls nest deeper than {MAX_DEPTH}", start, start + len(name))
            return 1
        return call

    count_extent = extent_call

    def fill_stage(self, start: int, end: int, symbol: Symbol, constant: PendingConstant) -> Fill:
        self.has_pending = False  # its type is the buffer's, and the verifier has that
        written = constant.written
        if isinstance(written, list) and len(written) == 1:
            self.error(
                "a list has a value for each lane of a vector", start, end, help="leave out the brackets"
            )
        value = tuple(written) if isinstance(written, list) else (written,)
        return Fill(symbol[0], value, Location(self.source, start, end))

    def host_read(self, start: int, end: int, symbol: Symbol) -> HostRead:
        return HostRead(symbol[0], Location(self.source, start, end))

    def kernel_stage(
        self, start: int, end: int, name: str, names: list[str] | None, attrs: dict[str, Any] | None = None
    ) -> KernelStage:
        is_kernel = self.kernel_row(name, start) is not None
        params = self.kernel_params(name, attrs, start, end) if is_kernel else {}
        stage = KernelStage(name, tuple(names or ()), params, Location(self.source, start, end))
        if self.has_error(start, end):
            self.holes.mark_invalid(stage)
        return stage
