"""The class of all passes, and the registry that finds them.

A built-in pass lives in the module of its name, which is imported at the first look-up.
Others are found through the entry point group `vyre_opt.passes` (see ir/plugins.py), whose entries name
a module that registers its passes on import, or a Pass class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_type_hints

from ..ir import plugins
from ..ir.program import Module
from ..ir.suggestions import suggest
from ..ir.tracebacks import CallerError
from ..records import dataclass
from ..worker import import_module

if TYPE_CHECKING:
    from .context import PassContext

__all__ = [
    "LEGALIZATIONS",
    "BrokenPlugin",
    "NoOptions",
    "Pass",
    "PassError",
    "ANALYSES",
    "check_declarations",
    "PassRefused",
    "pass_names",
    "find_pass",
    "make_pass",
    "option_type",
    "register",
    "register_analysis",
]

BUILTIN = (
    "barrier_elim",
    "batch_loads",
    "canonicalize",
    "coarsen",
    "cse",
    "dce",
    "decode_scan_fuse",
    "expand_kernels",
    "expand_ops",
    "fold",
    "fusion_pressure",
    "inline",
    "join_rows",
    "keep_loads",
    "launch_fusion",
    "licm",
    "lower_slices",
    "privatize",
    "reductions",
    "simplify_cf",
    "specialize",
    "store_forward",
    "tune",
    "unroll",
    "vectorize_access",
    "verify",
)


LEGALIZATIONS = (
    "flatten",
    "legalize",
    "matrix_fragments",
    "print_records",
    "reciprocals",
    "row_major",
    "warpgroups",
    "workgroup_reductions",
    "zero_tiles",
)
"""Passes that targets run by themselves before they write code, and `legalize`, which stands for all of a target."""

ANALYSES = {
    "buffer_layout": "the bytes of buffers in each memory",
    "footprints": "the elements that ops read and write",
    "fusion": "what launches hand over to each other, by which they are joined",
    "uniformity": "which values and control flow are the same for whole workgroups",
}
"""The analyses: what a pass may invalidate or preserve beside passes."""

ELSEWHERE = {"tune": "vyre_opt.tuning.tune_pass", **dict.fromkeys(LEGALIZATIONS, f"{__package__}.legalize")}
"""Modules of built-in passes that are not in the module of their name: they share one, or need a higher package."""

_OWN = frozenset((*BUILTIN, *LEGALIZATIONS))


class PassError(CallerError, ValueError):
    """A pass that does not exist or is declared wrongly, or a wrong option of a pass."""


class BrokenPlugin(PassError):
    """A pass of another package that does not load."""


class PassRefused(PassError):
    """A pass of another package, after `plugins.refuse`."""


@dataclass(frozen=True)
class NoOptions:
    """Options of a pass without any."""


class Pass:
    """Base of a pass; a subclass is one small file with one `run`.

    What a subclass declares:

        requires       passes that must have run and not been invalidated since
        invalidates    passes and analyses whose results no longer hold after a change by this one; analyses are
                       those of `ANALYSES` and of `register_analysis`
        preserves      analyses that stay true whatever this pass changes; all others are dropped after a change
        takes_type_parameters   whether it may run on a program that still has type parameters
        per_item       whether it rewrites programs and functions independently, as `ctx.items` or `ctx.programs`
                       gives them, so that --opt-bisect-limit can skip single ones
        is_required    whether later passes depend on it, so that --opt-bisect-limit never skips it
        is_legalization   whether its output is for a target alone: then only other legalizations may follow
        needs_core_ops   whether it needs the meaning of each op: then `expand_ops` runs before it, on a module that
                       has ops of other packages
        Options        a frozen dataclass of int, float, bool and str fields with defaults; a field that is None by
                       default is `float | None`
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    invalidates: ClassVar[tuple[str, ...]] = ()
    preserves: ClassVar[tuple[str, ...]] = ()
    takes_type_parameters: ClassVar[bool] = False
    per_item: ClassVar[bool] = False
    is_required: ClassVar[bool] = False
    is_legalization: ClassVar[bool] = False
    needs_core_ops: ClassVar[bool] = False
    Options: ClassVar[type[Any]] = NoOptions

    def __init__(self, options: Any = None) -> None:
        self.options = self.Options() if options is None else options

    def run(self, module: Module, ctx: PassContext) -> bool:
        """Rewrite `module` in place; return whether anything changed."""
        raise TypeError(f"pass {type(self).__name__} has no run")

    def parts(self) -> Sequence[Pass]:
        """Passes that this one expands to in a pipeline."""
        return (self,)

    def __str__(self) -> str:
        """The pass as pipeline text; options at their defaults are left out."""
        options = []
        for f in dataclasses.fields(self.options):
            value = getattr(self.options, f.name)
            if value != f.default:
                options.append(f"{f.name}={str(value).lower() if isinstance(value, bool) else value}")
        return f"{self.name}{{{' '.join(options)}}}" if options else self.name


_registered: dict[str, type[Pass]] = {}
_registered_analyses: set[str] = set()

A = TypeVar("A", bound=type[Any])

_hints: Callable[[Any], Mapping[str, Any]] = cache(get_type_hints)
"""Types of options by name.  Cached: resolving annotations takes most of the time of making a pass."""


def register_analysis(cls: A) -> A:
    """Class decorator: passes may name the analysis `cls.name` as invalidated or preserved."""
    _registered_analyses.add(cls.name)
    return cls


def register(cls: type[Pass]) -> type[Pass]:
    """Class decorator: make a pass known under its name.  Raises PassError for a duplicate."""
    other = _registered.get(cls.name)
    # the same class again is no duplicate: its module may have been reloaded
    if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise PassError(f"pass {cls.name} is registered twice: by {other.__module__} and {cls.__module__}")
    if cls.name in _OWN and cls.__module__ != _module_of(cls.name):
        raise PassError(f"pass {cls.name} is built in; {cls.__module__} must give its own another name")
    _registered[cls.name] = cls
    return cls


def _module_of(name: str) -> str:
    """The module of a built-in pass."""
    return ELSEWHERE.get(name, f"{__package__}.{name}")


def pass_names() -> list[str]:
    """The names of all passes: built in, registered, and from entry points; sorted."""
    return sorted({*_OWN, *_registered, *plugins.names(plugins.PASSES)})


def find_pass(name: str) -> type[Pass]:
    """The class of the pass called `name`; `-` and `_` are the same.  Raises PassError with a suggestion."""
    spelling, name = name, name.replace("-", "_")
    if name not in _registered:
        if name in _OWN:
            import_module(_module_of(name))
        else:
            try:
                plugins.load(plugins.PASSES, name, lambda loaded: _is_registered(name, loaded))
            except plugins.PluginRefused as error:
                raise PassRefused(str(error)) from None
            except plugins.PluginError as error:
                raise BrokenPlugin(str(error)) from error
    if name not in _registered:
        import_module("vyre_opt.syntax.synonyms")
        from ..syntax.synonyms import advice

        hint = advice(name, "pass", pass_names())
        hint = hint.replace(f"`{name}`", f"`{spelling}`") if hint else ""
        raise PassError(f"unknown pass {spelling}" + (f"; {hint}" if hint else "; see --list-passes"))
    return _registered[name]


def _is_registered(name: str, plugin: Any) -> bool:
    """Whether an entry point provided pass `name`: it names the class, or a module that registers one."""
    if isinstance(plugin, type) and issubclass(plugin, Pass):
        register(plugin)
    return name in _registered


def check_declarations(cls: type[Pass]) -> None:
    """Raises PassError for a name in `invalidates` or `preserves` that is neither a pass nor an analysis."""
    for relation in ("requires", "invalidates", "preserves"):
        names = getattr(cls, relation)
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise PassError(f"{relation} of pass {cls.name} is a tuple of names, not {names!r}")
    analyses = {*ANALYSES, *_registered_analyses}
    passes = {*_OWN}
    unknown = [n for n in cls.invalidates if n.replace("-", "_") not in analyses | passes]
    if unknown:  # look among the entry points last, since reading them takes a while
        passes.update(name.replace("-", "_") for name in pass_names())
        unknown = [n for n in unknown if n.replace("-", "_") not in passes]
    for relation, names, choices, kind in (
        ("invalidates", unknown, analyses | passes, "no pass and no analysis"),
        ("preserves", [n for n in cls.preserves if n not in analyses], analyses, "no analysis"),
    ):
        for name in names:
            hint = suggest(name, choices) or f"analyses are {', '.join(sorted(analyses))}"
            raise PassError(f"pass {cls.name} {relation} {name}, which is {kind}; {hint}")


def make_pass(name: str, options: Mapping[str, str] | None = None) -> Pass:
    """A pass with the options in `options`, each as text.  Raises PassError."""
    cls = find_pass(name)
    hints = _hints(cls.Options)
    values: dict[str, Any] = {}
    for key, text in (options or {}).items():
        key = key.replace("-", "_")
        if key not in hints:
            hint = suggest(key, hints)
            choices = f"; it has {', '.join(hints)}" if hints else "; it has none"
            raise PassError(f"pass {cls.name} has no option {key}" + (f"; {hint}" if hint else choices))
        try:
            values[key] = _PARSERS[option_type(hints[key])](text)
        except OverflowError:
            raise PassError(f"option {key} of {cls.name} is given more than 64 bits") from None
        except ValueError:
            kind = option_type(hints[key]).__name__
            raise PassError(f"option {key} of {cls.name} is {kind}, not {text!r}") from None
    try:
        return cls(cls.Options(**values))
    except ValueError as error:
        raise PassError(f"pass {cls.name}: {error}") from None


def option_type(hint: Any) -> type:
    """The type of an option's value by its annotation: `float` for `float | None`."""
    value_type: type = next((arg for arg in get_args(hint) if arg is not type(None)), hint)
    return value_type


def _parse_bool(text: str) -> bool:
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise ValueError(text)


def _parse_int(text: str) -> int:
    """Raises OverflowError beyond 64 bits: Python prints no int of thousands of digits."""
    value = int(text, 0)
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(text)
    return value


_PARSERS: dict[type, Callable[[str], Any]] = {
    int: _parse_int,
    float: float,
    bool: _parse_bool,
    str: str,
}
