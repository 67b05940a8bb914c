"""The passes that vyre-opt knows: `--list-passes`, and `--load-pass-plugin=MODULE`, which adds some."""

from __future__ import annotations

import dataclasses
import sys
from importlib import import_module
from typing import get_type_hints

from ..passes.pipeline_text import DEFAULT, DEFAULT_PIPELINE
from ..passes.registry import Pass, PassError, find_pass, option_type, pass_names
from .errors import ToolError
from .text_files import read_bytes

__all__ = ["load_plugin", "pass_list"]


def pass_list() -> str:
    """Every pass with its summary, and below it its options with type and default; then -O."""
    names = pass_names()
    width = max(len(name) for name in names)
    lines: list[str] = []
    for name in names:
        try:
            pass_class = find_pass(name)
        except Exception as error:  # one bad plugin must not hide the rest
            kind = "" if isinstance(error, PassError) else f"{type(error).__name__}: "
            lines.append(f"{name:<{width}}  cannot be loaded: {kind}{error}")
            continue
        lines.append(f"{name:<{width}}  {pass_class.summary}")
        lines += [f"{'':<{width}}    {option}" for option in _options(pass_class)]
    lines.append(f"\n-O, --pass={DEFAULT}:\n  {','.join(DEFAULT_PIPELINE)}")
    return "\n".join(lines) + "\n"


def _options(pass_class: type[Pass]) -> list[str]:
    hints = get_type_hints(pass_class.Options)
    lines = []
    for field in dataclasses.fields(pass_class.Options):
        default = field.default if isinstance(field.default, str) else str(field.default).lower()
        kind = option_type(hints[field.name]).__name__.upper()
        lines.append(f"{field.name}={kind}  (default {default})")
    return lines


def load_plugin(name: str) -> None:
    """Import a module by name, or a file `name` that ends in .py; importing registers its passes.

    Raises ToolError with the reason if it cannot be imported.
    """
    try:
        if name.endswith(".py"):
            _load_file(name)
        else:
            import_module(name)
    except ToolError:
        raise
    except Exception as error:
        raise ToolError(f"cannot load pass plugin {name}: {type(error).__name__}: {error}") from error


def _load_file(path: str) -> None:
    from importlib.abc import SourceLoader
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    name = f"vyre_opt_plugin_{Path(path).stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or not isinstance(spec.loader, SourceLoader):
        raise ImportError("not a Python file")
    # not by `exec_module`, which reads a file without an end without an end
    code = spec.loader.source_to_code(read_bytes(path), path)
    module = module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its own module up here
    exec(code, module.__dict__)
