"""Pipelines as text: `cse,unroll{factor=4 full=true},dce`, and the pipeline named `default`."""

from __future__ import annotations

import re

from .registry import Pass, PassError, make_pass

__all__ = ["DEFAULT", "DEFAULT_PIPELINE", "default_pipeline", "format_pipeline", "parse_pipeline"]

DEFAULT = "default"

DEFAULT_PIPELINE = (
    # plain programs in canonical form, which the proofs of fusion are written for
    "expand_kernels",
    "join_rows",
    "lower_slices",
    "inline",
    "canonicalize",
    "simplify_cf",
    "cse",
    "reductions",
    # launches are joined, and the buffers between them become workgroup tiles
    "launch_fusion",
    "decode_scan_fuse",
    # cleaning up; store_forward knows an index by its value (cse), and looks within a block (simplify_cf)
    "canonicalize",
    "cse",
    "simplify_cf",
    "store_forward",
    "canonicalize",
    # what is best for a GPU: invocations and workgroups that do more, rows read once, loads in batches
    "coarsen",
    "privatize",
    "keep_loads",
    "batch_loads",
    "licm",
    "simplify_cf",
    "canonicalize",
    "cse",
    "barrier_elim",
    "vectorize_access",
    "dce",
)
"""The passes that `default` stands for."""


def default_pipeline(fusion_threshold: float | None = None, max_group_bytes: int | None = None) -> str:
    """The default pipeline as text, with two limits on what is fused.

    `fusion_threshold`: `threshold` of `fusion_pressure`, in elements per link; that pass is added for it.
    `max_group_bytes`: that of `launch_fusion`.  Raises PassError for values that these passes do not take.
    """
    if fusion_threshold is None and max_group_bytes is None:
        return DEFAULT
    passes = list(map(make_pass, DEFAULT_PIPELINE))
    at = DEFAULT_PIPELINE.index("launch_fusion")
    if max_group_bytes is not None:
        passes[at] = make_pass("launch_fusion", {"max_group_bytes": str(max_group_bytes)})
    if fusion_threshold is not None:
        passes.insert(at, make_pass("fusion_pressure", {"threshold": repr(fusion_threshold)}))
    return format_pipeline(passes)


_TOKEN = re.compile(r"\s*([A-Za-z_][\w.-]*|[{}=,]|[^\s{}=,]+)")


def parse_pipeline(text: str) -> list[Pass]:
    """The passes that `text` names, in order; `default` is DEFAULT_PIPELINE.

    Raises PassError with `text` and a caret under the mistake.
    """
    tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
    tokens.append(("", len(text)))
    passes: list[Pass] = []
    at = 0

    def fail(message: str) -> PassError:
        return PassError(f"{message}\n  {text}\n  {' ' * tokens[at][1]}^")

    while tokens[at][0]:
        name, _ = tokens[at]
        call_form = re.fullmatch(r"\s*(?:[\w.]+\()+([^()]*)\)+\s*", text)
        if call_form and "." in name:
            raise fail(f"passes stand in no {name}(...): write {call_form[1]}")
        if not (name[0].isalpha() or name[0] == "_"):
            raise fail("expected the name of a pass")
        at += 1
        options: dict[str, str] = {}
        if tokens[at][0] == "{":
            if name == DEFAULT:
                raise fail(f"{DEFAULT} is several passes and takes no options; name the passes instead")
            at += 1
            while tokens[at][0] != "}":
                key = tokens[at][0]
                if not key or key in "{=,":
                    raise fail("expected an option, or } after the options")
                at += 1
                if tokens[at][0] != "=":
                    raise fail(f"expected = after {key}")
                at += 1
                if tokens[at][0] in ("", "{", "}", "=", ","):
                    raise fail(f"expected a value for {key}")
                if key in options:
                    raise fail(f"option {key} is given twice")
                options[key] = tokens[at][0]
                at += 1
                if tokens[at][0] == ",":
                    at += 1
            at += 1
        passes += (
            parse_pipeline(",".join(DEFAULT_PIPELINE))
            if name == DEFAULT
            else make_pass(name, options).parts()
        )
        if tokens[at][0] == ",":
            at += 1
            if not tokens[at][0]:
                raise fail("expected a pass after the comma")
        elif tokens[at][0]:
            raise fail(f"expected a comma between passes{_separator_hint(text, tokens[at])}")
    return passes


def _separator_hint(text: str, token: tuple[str, int]) -> str:
    """Advice for a wrong separator between passes, or for options in brackets that are no braces."""
    word, start = token
    inner = re.match(r"[<(\[]\s*([\w-]+\s*=[^>)\]]*)[>)\]]", text[start:])
    if inner:
        return f": options stand in braces: write {text[:start]}{{{inner[1]}}}{text[start + inner.end() :]}"
    if word[0] in ";|+":
        return f": write {text[:start]},{text[start + 1 :].lstrip()}"
    if word[0] in "([":
        return f": options stand in braces, {text[:start]}{{option=value}}; --list-passes has them"
    return f": write {text[:start].rstrip()},{text[start:]}"


def format_pipeline(passes: list[Pass]) -> str:
    """The text that `parse_pipeline` reads back as `passes`."""
    return ",".join(str(p) for p in passes)
