"""The passes that a caller names, run over modules; what they make is kept on disk where that is sound."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ..execution.cache.ir_results import ir_result
from ..execution.cache.store import Store
from ..execution.dispatcher import BadInputs
from ..execution.limits import LimitError
from ..ir.program import Module
from ..worker import import_module

if TYPE_CHECKING:
    from ..passes.bisect import BisectLimit
    from ..passes.manager import Observer, PassManager
    from ..passes.registry import Pass

__all__ = ["PassPipeline", "Passes"]

Passes = str | Sequence["str | Pass"] | None
"""A pipeline of passes, as text or as a list of passes, each as text too."""


class PassPipeline:
    """`passes` for a target; see `PassManager`.  Their modules are imported when they run.

    `bisect`: leaves out executions of passes.  `observers`: hear of each pass that runs.
    """

    def __init__(
        self,
        passes: Passes,
        target: str,
        store: Store | None,
        bisect: BisectLimit | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.passes, self.target, self._bisect, self._observers = passes, target, bisect, observers
        is_seen = bisect is not None or bool(observers) or bool(os.environ.get("VYRE_REFUSED_RESULT"))
        self.store = store if not is_seen and _is_known(passes) else None
        """None where what passes do depends on more than their names, or is wanted for its own sake."""

    @cached_property
    def manager(self) -> PassManager:
        """Raises BadInputs for a wrong pipeline, and LimitError for passes that a limit refuses."""
        import_module("vyre_opt.passes.manager")
        from ..passes.manager import PassManager
        from ..passes.registry import BUILTIN, PassError, PassRefused

        try:
            manager = PassManager(
                self.passes or (), target=self.target, bisect=self._bisect, observers=self._observers
            )
        except PassRefused as error:
            raise LimitError("plugins", False, str(error)) from None
        except PassError as error:
            raise BadInputs(str(error)) from None
        legalizations = [running.name for running in manager.passes if running.is_legalization]
        if legalizations:
            raise BadInputs(f"{legalizations[0]} is for vyre-opt; a target runs it by itself")
        # those of this package are held to what they report by tests, and verifying once is enough
        manager.verify_each = any(running.name not in BUILTIN for running in manager.passes)
        return manager

    @cached_property
    def lowers_slices_by_name(self) -> bool:
        """Whether a caller named the pass that lowers slices."""
        return self.passes != "default" and any(each.name == "lower_slices" for each in self.manager.passes)

    def result(self, module: Module) -> Module:
        """Module after the passes, which may change the given one."""

        def make() -> tuple[Module]:
            self.manager.run(module)
            return (module,)

        options = self.passes, self.target
        (made,) = ir_result(self.store, "passes", options, (module,), make)
        return made


def _is_known(passes: Passes) -> bool:
    """Whether a text names passes of this package alone."""
    if passes is None or passes == "default":
        return True
    if not isinstance(passes, str) or not re.fullmatch(r"[\w-]+(,[\w-]+)*", passes):
        return False
    from ..passes.registry import BUILTIN

    return all(name.replace("-", "_") in (*BUILTIN, "default") for name in passes.split(","))
