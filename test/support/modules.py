"""Python modules from files, and from texts that tests write."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["load_module", "written_module"]


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look it up
    spec.loader.exec_module(module)
    return module


def written_module(folder: Path, text: str, name: str) -> ModuleType:
    """A text as the module `name`, in a file of a folder."""
    path = folder / f"{name}.py"
    path.write_text(text)
    return load_module(path)
