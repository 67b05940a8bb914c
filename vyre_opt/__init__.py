"""vyre-opt: a compiler for small GPU pipelines.

`dir(vyre_opt)` is what most programs need: the language of kernels, `compile` and `run`, `kernels`, `Scanner`.  The rest
is in `vyre_opt.ir`, `passes`, `fusion`, `tuning`, `execution` and `specialization`.  Every public name is importable from
here as well, and loaded when it is first asked for, so that `import vyre_opt` and the command line start fast.
"""

from __future__ import annotations

from importlib import import_module as _import

TYPE_CHECKING = False  # as type checkers take it; `typing` itself would take milliseconds of every start
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"


def _is_main_interpreter() -> bool:
    """Whether this is the first interpreter of its process."""
    is_main = getattr(_import("_thread"), "_is_main_interpreter", None)  # of Python 3.12 on
    if is_main is not None:
        return bool(is_main())
    try:
        interpreters = _import("_xxsubinterpreters")
    except ImportError:  # Python was built without them
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if not _is_main_interpreter():
    raise ImportError(
        "vyre_opt works in the main interpreter of a process alone, as NumPy and LLVM do, and this is a sub-interpreter; "
        "import it in a process of its own (multiprocessing, subprocess; for mod_wsgi, WSGIApplicationGroup %{GLOBAL})"
    )

_EXPORTS = {
    "parse": "syntax.parser",
    "parse_file": "syntax.parser",
    "parse_source": "syntax.parser",
    "print_program": "syntax.printer",
    "verify": "ir.verifier",
    "errors_of": "ir.verifier",
    "fingerprint": "syntax.fingerprint",
    "Module": "ir.program",
    "Program": "ir.program",
    "Buffer": "ir.program",
    "AccessMode": "ir.program",
    "Param": "ir.program",
    "Block": "ir.program",
    "Op": "ir.program",
    "Value": "ir.program",
    "Pipeline": "ir.pipeline",
    "Launch": "ir.pipeline",
    "KernelStage": "ir.pipeline",
    "Fill": "ir.pipeline",
    "HostRead": "ir.pipeline",
    "Repeat": "ir.pipeline",
    "OPS": "ir.ops",
    "OpDef": "ir.ops",
    "Source": "ir.diagnostics",
    "Location": "ir.diagnostics",
    "Builder": "ir.builder",
    "PipelineBuilder": "ir.pipeline_builder",
    "DataType": "ir.types",
    "DiagnosticError": "ir.diagnostics",
    "Diagnostic": "ir.diagnostics",
    "ProgramWarning": "lang.program_warnings",
    "PassManager": "passes.manager",
    "PassContext": "passes.manager",
    "Pass": "passes.registry",
    "register": "passes.registry",
    "register_analysis": "passes.registry",
    "register_op": "ir.plugin_ops",
    "register_kernel": "ir.plugin_ops",
    "Expansion": "kernels.expansion",
    "ExpansionRequest": "kernels.expansion",
    "pattern": "rewriting.terms",
    "pattern_on": "rewriting.pattern",
    "op": "rewriting.terms",
    "const": "rewriting.terms",
    "one_use": "rewriting.terms",
    "Pattern": "rewriting.pattern",
    "Rewriter": "rewriting.rewriter",
    "apply_patterns": "rewriting.driver",
    "count_opportunities": "passes.decode_scan_fuse",
    "candidate_handoffs": "passes.decode_scan_fuse",
    "debug": "debugger.kernels",
    "on_debug_print": "execution.debug_prints",
    "dispatcher": "execution.dispatcher",
    "DispatchError": "execution.dispatcher",
    "BadInputs": "execution.dispatcher",
    "BadLaunch": "execution.dispatcher",
    "BadSpecs": "execution.dispatcher",
    "BackendError": "execution.dispatcher",
    "ProgramError": "execution.dispatcher",
    "Limits": "execution.limits",
    "LimitError": "execution.limits",
    "Scratch": "execution.dispatcher",
    "OutputAlloc": "execution.dispatcher",
    "synchronize": "targets.cuda.device",
    "compile": "driver.compile",
    "pack": "packing.packer",
    "profile": "driver.profile",
    "run": "driver.compile",
    "Executable": "driver.executable",
    "ProgramExecutable": "driver.program",
    "PipelineExecutable": "driver.pipeline",
    "LimitedExecutable": "driver.limited",
    "SpecValue": "specialization.values",
    "SpecMap": "specialization.spec_map",
    "SpecCacheKey": "specialization.keys",
    "vsa_specialization_key": "specialization.keys",
    "versioned_specialization_artifact_key": "specialization.keys",
    "pick_config": "tuning.policy",
    "pick_best_config": "tuning.policy",
    "config_gradient": "tuning.policy",
    "expected_cost": "tuning.policy",
    "expected_cost_gradient": "tuning.policy",
    "pick_config_pre_exp_fixed": "tuning.fixed",
    "config_gradient_magnitude_pre_exp_fixed": "tuning.fixed",
    "natural_config_gradient_pre_exp_fixed": "tuning.fixed",
    "autotune": "tuning.tuner",
    "kernel_workload": "tuning.workload",
    "call_workload": "tuning.call_workload",
    "Space": "tuning.space",
    "Tuning": "tuning.result",
    "export_tuning": "tuning.result_cache",
    "import_tuning": "tuning.result_cache",
    "fusion_pressure": "fusion.pressure",
    "should_fuse_chain": "fusion.pressure",
    "pressure_of": "fusion.pressure",
    "plan_launch_fusion": "fusion.launch_plan",
    "LaunchFusionStage": "fusion.launch_groups",
    "LaunchFusionGroup": "fusion.launch_groups",
    "LaunchFusionPlan": "fusion.launch_groups",
    "LaunchFusionError": "fusion.launch_groups",
    "ZeroBudget": "fusion.launch_groups",
    "DuplicateStage": "fusion.launch_groups",
    "ByteCountOverflow": "fusion.launch_groups",
    "StageOverBudget": "fusion.launch_groups",
}

_NEIGHBOURS = dict.fromkeys(("Scanner", "Match", "Matches", "EncodingError", "PatternError"), "vyre_scan")
"""Names of packages that stand on this one, which are here too; as text, since nothing here imports those."""

_PACKAGES = ("kernels", "lang", "packs")
_FACES = ("ir", "passes", "fusion", "tuning", "execution", "specialization")
"""Packages that show the other public names (faces.py)."""
_CALLS = ("debugger.", "driver.", "kernels", "lang")
"""Starts of the names of modules from which programs are compiled and called."""

_FIRST = (
    "compile",
    "pack",
    "run",
    "debug",
    "profile",
    "dispatcher",
    "synchronize",
    "call_workload",
    "Scanner",
    "ProgramWarning",
)
"""Names of the table that `dir` shows."""
_AS_OPERATORS = frozenset("add sub mul div rem neg and_ or_ xor not_ shl shr eq ne lt le gt ge".split())
"""Names of the language that `dir` leaves out, since kernels write them as operators."""

__all__ = ["__version__", *_FIRST, *_PACKAGES, *_FACES]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if name in _PACKAGES or name in _FACES:
        return _module(name)
    if name in _NEIGHBOURS:
        value = globals()[name] = getattr(_import(_NEIGHBOURS[name]), name)
        return value
    if module is None:
        try:
            return _of_lang(name)
        except AttributeError as error:
            tracebacks = _import(f"{__name__}.ir.tracebacks")
            if not (name.startswith("_") or getattr(error, "__notes__", None)):
                error.add_note(f"help: {_import(f'{__name__}.lang.foreign_words').outside_help(name)}")
            if isinstance(error, tracebacks.CallerError):
                tracebacks.hide_own_frames(error)
            raise
    value = getattr(_module(module), name)
    globals()[name] = value
    return value


def _module(name: str) -> Any:
    """A module of this package, with all that calls of it import."""
    from .worker import import_module

    if name.startswith(_CALLS):
        import_module(f"{__name__}.driver.first_call")
    return import_module(f"{__name__}.{name}")


def _of_lang(name: str) -> Any:
    """Return a name that kernels in Python are written with: `vyre_opt.program`, `vyre_opt.global_id`."""
    if not name.startswith("_"):
        lang = _module("lang")
        if name in lang.__all__ or name in lang.ops.__all__:
            value = globals()[name] = getattr(lang, name)
            return value
    error = _import(f"{__name__}.ir.tracebacks").CallAttributeError(
        f"module {__name__!r} has no attribute {name!r}"
    )
    if not name.startswith("_"):
        help = _import(f"{__name__}.lang.foreign_words").foreign_help(name)
        if help is not None:
            error.add_note(f"help: {help}")
    raise error


def __dir__() -> list[str]:
    lang = _module("lang")
    return sorted({*__all__, *lang.__all__, *lang.ops.__all__} - _AS_OPERATORS)
