"""PTX that is in the cache is found without LLVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = '''
import sys
from vyre_opt import parse
from vyre_opt.execution.cache.compilations import new_log
from vyre_opt.execution.cache.store import default_store
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cuda import kernels
from vyre_opt.targets.cuda.ptx_options import PtxOptions

module = parse("""vyre 1
program @copy workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  store %v, @y[%i] : u32
}
""")
log, target = new_log(), gpu("sm_90")
unit = Unit(module.programs["copy"], module, {})
_, ptx = kernels._compile([unit], target, (8, 1), PtxOptions(), default_store(), log)
print(log[0].cached, "llvmlite" in sys.modules, len(ptx))
'''


def test_ptx_from_the_cache_loads_no_llvm(tmp_path: Path) -> None:
    known = {**os.environ, "VYRE_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=known)
        assert ran.returncode == 0, ran.stderr
        said.append(ran.stdout.split())
    cold, warm = said
    assert cold[:2] == ["False", "True"]
    assert warm == ["True", "False", cold[2]]
