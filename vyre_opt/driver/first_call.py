"""Imports of the first call of a process whose code is in the cache, made at once by the thread that makes all imports.

An exception of a signal in the middle of an import leaves a lock taken for ever, or a module half made (see `worker`).  What only a
compilation needs is imported by that thread, too, where it begins.
"""

from importlib import import_module

_MODULES = (
    "vyre_opt.driver.compile",
    "vyre_opt.driver.in_place",
    "vyre_opt.execution.plans.host_plan",
    "vyre_opt.execution.plans.storage_layout",
    "vyre_opt.targets.cpu.dispatcher",
    "vyre_opt.targets.cpu.launch_sequence",
    "vyre_opt.targets.cpu.loaded_plan",
)

for name in _MODULES:
    import_module(name)
