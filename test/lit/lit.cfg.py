# ruff: noqa: F821  (lit defines `config`)
"""lit's configuration: every .vyre file here is a test, run by the RUN lines at its head.

`lit test/lit` runs them all, `lit test/lit/cli/pipe.vyre` runs one, and `pytest` runs
them beside the rest.  Only lit's own shell, filecheck and this project's two tools
are used, from the environment whose Python runs lit.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import lit.formats

config.name = "vyre-opt"
config.suffixes = [".vyre"]
config.excludes = ["Inputs"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_source_root = os.path.dirname(__file__)

# What a reader is shown is what is tested: files here may run those of examples/.
config.substitutions.append(("%examples", str(Path(__file__).parents[2] / "examples")))

# Outputs (%t) go to a folder of this run, so the source tree stays clean.
config.test_exec_root = tempfile.mkdtemp(prefix="vyre-opt-lit-")
atexit.register(shutil.rmtree, config.test_exec_root, ignore_errors=True)

scripts = str(Path(sys.executable).parent)
config.environment["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])
for name in (
    "VYRE_CACHE_DIR",
    "XDG_CACHE_HOME",
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "COVERAGE_PROCESS_START",
):
    if name in os.environ:
        config.environment[name] = os.environ[name]

# A host where pipes end tools by a signal; elsewhere their exit code differs.
if os.name == "posix":
    config.available_features.add("posix")
