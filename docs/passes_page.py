"""docs/reference/passes.md, made from the registry:  python docs/passes_page.py > docs/reference/passes.md"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from textwrap import dedent
from typing import get_type_hints

from vyre_opt.passes.pipeline_text import DEFAULT, DEFAULT_PIPELINE
from vyre_opt.passes.registry import BUILTIN, LEGALIZATIONS, Pass, find_pass, option_type

__all__ = ["page"]

_INTRO = """\
# Passes

<!-- Made by `python docs/passes_page.py > docs/reference/passes.md`; edit the pass instead. -->

Each pass is one file of `vyre_opt/passes`, `tune` one of `vyre_opt/tuning`; those of `legalize` are the rewrites of
`vyre_opt/lowering` that it names.  Give passes in order, with options in
braces; `-` and `_` in a name are the same:

```sh
vyre-opt --pass=cse --pass=dce file.vyre
vyre-opt --pass-pipeline='cse,unroll{factor=4}' file.vyre
```

A pass that requires others pulls them in where they have not run with their default options;
`--dump-pass-pipeline` shows the pipeline as it will run.  After a change, the results
of the passes and analyses that a pass **invalidates** are void and computed again when
they are next needed; all analyses but those it **preserves** are dropped.  A remark tells of a pass that you
named whose result a later one made void, if it does not run again.
`--remarks` shows what the passes decided and why, `--stats` what they counted; [debugging.md](../guides/debugging.md) has
what else can be seen of them, and how to find the one that is wrong.

Other packages add passes through the entry point group `vyre_opt.passes`, and analyses that passes may name by
`register_analysis`; a name that is of neither is an error.  [Writing passes](../guides/writing-passes.md) begins with such a package.
"""

_DEFAULT = """
## The default pipeline

`vyre-opt -O`, or `--pass={name}`, runs these in this order, after the passes that are given
with `--pass`; `vyre-run -O` runs `specialize` before them.  They join the launches of
pipelines where that is proven to be the same, keep what is handed over in workgroup memory
or registers, and clean up.  `specialize` is not among them, since it takes a program's
constants away for good: `vyre-opt --pass=specialize -O`.

{passes}
"""


def page() -> str:
    """The whole of docs/reference/passes.md."""
    passes = [find_pass(name) for name in sorted((*BUILTIN, *LEGALIZATIONS))]
    lines = [_INTRO, "| Pass | What it does |\n|---|---|"]
    lines += [f"| [{p.name}](#{p.name}) | {p.summary} |" for p in passes]
    numbered = "\n".join(f"{i}. [{p}](#{_anchor(p)})" for i, p in enumerate(DEFAULT_PIPELINE, 1))
    lines.append(_DEFAULT.format(name=DEFAULT, passes=numbered).rstrip())
    return "\n".join([*lines, *(line for p in passes for line in _section(p))])


def _anchor(text: str) -> str:
    return text.partition("{")[0]


def _section(cls: type[Pass]) -> Iterator[str]:
    yield f"\n## {cls.name}\n"
    yield f"{cls.summary}\n"
    module = sys.modules[getattr(cls, "rewrite_module", cls.__module__)]
    _, _, more = (inspect.getdoc(module) or "").partition("\n\n")
    if more:
        yield f"{_fenced(more)}\n"
    yield f"- Requires: {_names(cls.requires)}"
    yield f"- Invalidates: {_names(cls.invalidates)}"
    yield f"- Preserves: {_names(cls.preserves)}"
    fields = dataclasses.fields(cls.Options)
    if not fields:
        yield "- Options: none"
        return
    hints = get_type_hints(cls.Options)
    yield "\n| Option | Type | Default |\n|---|---|---|"
    for option in fields:
        default = str(option.default).lower() if isinstance(option.default, bool) else repr(option.default)
        yield f"| `{option.name}` | {option_type(hints[option.name]).__name__} | `{default}` |"
    more = inspect.getdoc(cls.Options) or ""
    if not more.startswith(f"{cls.Options.__name__}("):  # the docstring that dataclass itself writes
        yield f"\n{more}"


def _fenced(text: str) -> str:
    """A docstring as Markdown: its indented paragraphs, which are pictures, as blocks."""
    block = re.compile(r"(?:(?<=\n\n)|\A)((?: {4}.*\n?|\n(?= {4}))+)")
    return block.sub(lambda match: f"```text\n{dedent(match[1]).rstrip()}\n```\n", text).rstrip()


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


if __name__ == "__main__":
    print(page())
