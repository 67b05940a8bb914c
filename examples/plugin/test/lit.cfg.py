# ruff: noqa: F821  (lit defines `config`)
"""`lit test` runs every .test file here by the RUN lines at its head, with the tools of lit's own environment."""

import os
import sys
import tempfile
from pathlib import Path

import lit.formats

config.name = "vyre-signal"
config.suffixes = [".test"]
config.test_format = lit.formats.ShTest(execute_external=False)
config.test_exec_root = tempfile.mkdtemp(prefix="vyre-signal-")
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
for name in ("PYTHONPATH", "VYRE_CACHE_DIR"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
