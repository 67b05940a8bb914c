"""The language of a text that is not ours, told by its words."""

from __future__ import annotations

import re

__all__ = ["lowered_head", "text_language"]

LOOKED_AT = 20_000
"""Characters from the start of a text."""

_LANGUAGES: list[tuple[str, str]] = [
    ("WGSL", r"@compute\b|@group\(|var<(?:storage|uniform|workgroup)|@workgroup_size|\bfn\s+\w+\s*\("),
    ("Triton", r"@triton\.jit|\bimport triton|\btl\.\w+"),
    ("Metal", r"using namespace metal|<metal_stdlib>|\[\[thread_position|\bkernel void\b"),
    ("HLSL", r"\[numthreads\(|RWStructuredBuffer|SV_\w+ID\b|\bcbuffer\b"),
    ("GLSL", r"#version \d|gl_\w+ID\b|\blayout\s*\("),
    ("OpenCL C", r"\b__kernel\b|get_global_id|\bkernel\b.*\bglobal\b"),
    ("CUDA C++", r"__global__|__device__|__shared__|<<<|\bthreadIdx\b|\bblockIdx\b|cuda_runtime"),
    ("MLIR", r"\bfunc\.func\b|\b(?:builtin\.)?module\b.*\{|\bgpu\.\w+|\barith\.\w+|\bmemref[.<]|\bscf\.\w+|^#map"),
    ("PTX", r"^\.version\b|^\.target\b|\.visible\b|\.entry\b|\bld\.param"),
    ("LLVM IR", r"^define\b.*@|^target (?:triple|datalayout)|^declare\b.*@|source_filename"),
    ("Python", r"^\s*(?:import|from)\s+\w+|^\s*def\s+\w+\s*\(|^\s*@\w+[\w.]*\n"),
    ("C", r"#include\s*[<\"]|^\s*(?:void|int|float|double)\s+\w+\s*\("),
    ("JSON", r"\A\s*[\[{]\s*[\"\]}]"),
]  # fmt: skip


def text_language(text: str) -> tuple[str, int, int] | None:
    """The language of a text that does not begin as one of ours, and where it shows; None if nobody knows."""
    for language, pattern in _LANGUAGES:
        match = re.search(pattern, text[:LOOKED_AT], re.MULTILINE)
        if match is not None:
            return language, match.start() + len(match[0]) - len(match[0].lstrip()), match.end()
    return None


def lowered_head(text: str) -> tuple[int, int] | None:
    """The place of what the text of a lowered program begins with; None in any other text."""
    match = re.match(r"(?:\s|//.*\n)*+(lowered) vyre\b", text[:LOOKED_AT])
    return None if match is None else match.span(1)
