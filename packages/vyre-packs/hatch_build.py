"""Puts the modules that modules.txt lists into the wheel: those of vyre_opt, as modules of vyre_packs."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "vyre_opt"


class Modules(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for module in (HERE / "modules.txt").read_text().split():
            path = Path(*module.split("."))
            file = path / "__init__.py" if (SOURCES / path).is_dir() else path.with_suffix(".py")
            build_data["force_include"][str(SOURCES / file)] = f"vyre_packs/{file}"
        build_data["force_include"][str(SOURCES / "py.typed")] = "vyre_packs/py.typed"
        build_data["force_include"][str(SOURCES.parent / "LICENSE")] = "vyre_packs/LICENSE"
