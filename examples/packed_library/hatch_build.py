"""Compiles the kernels of smoothing/kernels.py into a pack, which goes into the wheel."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent


class Kernels(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        import vyre_opt

        spec = importlib.util.spec_from_file_location("smoothing_kernels", HERE / "smoothing" / "kernels.py")
        assert spec is not None
        assert spec.loader is not None
        kernels = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernels)
        self.folder = tempfile.TemporaryDirectory()
        pack = Path(self.folder.name) / "kernels.vyrepack"
        digest = vyre_opt.pack(pack, [kernels.smooth, kernels.smooth_twice])
        # the loader trusts this pack alone: who changes it in the installed package has to change this, too
        (pack.parent / "digest.txt").write_text(digest)
        for name in ("kernels.vyrepack", "digest.txt"):
            build_data["force_include"][str(pack.parent / name)] = f"smoothing/{name}"
        build_data["infer_tag"] = False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()
