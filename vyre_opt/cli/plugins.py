"""`--load-pass-plugin=MODULE`: a module, by name or by file, whose import registers passes."""

from __future__ import annotations

import sys
from importlib import import_module

from .errors import ToolError

__all__ = ["load_plugin"]


def load_plugin(name: str) -> None:
    """Import `name`.  Raises ToolError with the reason if it cannot be imported."""
    try:
        if name.endswith(".py"):
            _load_file(name)
        else:
            import_module(name)
    except Exception as failed:
        raise ToolError(f"cannot load pass plugin {name}: {type(failed).__name__}: {failed}") from failed


def _load_file(path: str) -> None:
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    name = f"vyre_opt_plugin_{Path(path).stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its own module up here
    spec.loader.exec_module(module)
