"""What the first compile and the first call would import one by one, imported at once by the thread that makes all imports.

An exception of a signal in the middle of an import leaves a lock taken for ever, or a module half made (see `worker`).
"""

from importlib import import_module

_MODULES = (
    "vyre_opt.driver.compile",
    "vyre_opt.driver.in_place",
    "vyre_opt.execution.plans.host_plan",
    "vyre_opt.execution.plans.storage_layout",
    "vyre_opt.kernels.expansion",
    "vyre_opt.mlir.file_kind",
    "vyre_opt.passes.manager",
    "vyre_opt.syntax.normal_form",
    "vyre_opt.syntax.synonyms",
    "vyre_opt.targets.cpu",
    "vyre_opt.targets.cpu.launch_sequence",
    "vyre_opt.targets.cpu.loaded_plan",
    "difflib",
    "numpy.ctypeslib",
)

for name in _MODULES:
    import_module(name)
