"""Random pipelines of generated programs, their buffers bound at random: for passes that join launches.

A few programs of `random_program` that agree on workgroup and grid are launched in any order,
some of them again.  Each bound buffer of a launch gets a buffer of the pipeline of the same type and
shape: mostly one that other launches use too, else a new one.  There is no independent result to
compare with: only that it is the same before and after every pass.

    @p0(in, out, digest)   @p1(in, state, digest)   @p0(in, out, digest)
         x   b0   d             b0   b1     d             b1   b2    e
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from vyre_opt.ir import AccessMode, Buffer, print_program
from vyre_opt.ir.literals import show
from vyre_opt.ir.shapes import show_shape

from .expressions import SCALARS, VECTORS, Settings
from .generator import GRIDS, WORKGROUPS, random_program
from .sample import Sample, random_bits, shape_of

__all__ = ["bound_pipeline"]

SETTINGS = Settings(statements=5)
SHARED = 0.75
"""The probability of binding a buffer that other launches use, where one fits."""


@dataclass(slots=True)
class _PipelineBuffer:
    """A buffer of the pipeline.

    `contents`: the caller provides them.  `live_out`: the caller reads it.  `private`: of one launch only.
    """

    name: str
    text: str
    contents: bool = False
    written: bool = False
    live_out: bool = False
    private: bool = False


@dataclass(slots=True)
class _Bindings:
    rng: random.Random
    all_given: bool
    buffers: list[_PipelineBuffer] = field(default_factory=list)

    def bind(self, sample: Sample) -> str:
        """The arguments of a launch: a buffer for each that the program binds, no two the same."""
        arguments: list[_PipelineBuffer] = []
        for formal in sample.program.bound_buffers:
            shape = shape_of(formal, sample.program, sample.grid)
            arguments.append(self._choose(formal, f"{formal.dtype}[{show_shape(shape)}]", arguments))
        return ", ".join(f"@{bound.name}" for bound in arguments)

    def _choose(self, formal: Buffer, text: str, arguments: list[_PipelineBuffer]) -> _PipelineBuffer:
        if formal.is_transient:  # its contents are undefined after the launch, so no other launch may bind it
            bound = _PipelineBuffer(f"b{len(self.buffers)}", text, private=True)
            self.buffers.append(bound)
            return bound
        fits = [b for b in self.buffers if b.text == text and b not in arguments and not b.private]
        if fits and self.rng.random() < SHARED:
            bound = self.rng.choice(fits)
        else:
            bound = _PipelineBuffer(f"b{len(self.buffers)}", text, self.all_given)
            self.buffers.append(bound)
        if (formal.access is AccessMode.READ or formal.live_in) and not bound.written:
            bound.contents = True
        if formal.access is not AccessMode.READ:
            bound.written = True
            bound.live_out |= self.rng.random() < 0.6
        return bound

    def declared(self) -> str:
        lines = ""
        for b in self.buffers:
            flags = {
                (True, True): " live_in live_out",
                (True, False): " read" if not b.written else " live_in",
                (False, True): " live_out",
                (False, False): "",
            }[b.contents, b.live_out or (self.all_given and not b.private)]
            lines += f"  buffer @{b.name} : {b.text}{flags}\n"
        return lines


def bound_pipeline(seed: int, all_given: bool = False) -> str:
    """The text of a pipeline @main of 2 to 6 launches.

    Without `all_given`, a launch may read elements of a buffer that no launch before it wrote, which
    is a fault.  With it the caller gives contents to every buffer, so that the pipeline is sound.
    """
    rng = random.Random(seed)
    settings = replace(
        SETTINGS,
        workgroup=rng.choice(WORKGROUPS),
        grid=rng.choice(GRIDS),
        elements=tuple(
            rng.sample((*SCALARS, *rng.sample(VECTORS, 3)), 2)
        ),  # few, so that buffers fit each other
    )
    samples = [random_program(rng.getrandbits(32), settings) for _ in range(rng.randrange(1, 4))]
    bindings = _Bindings(rng, all_given)
    stages, params = "", list[str]()
    for _ in range(rng.randrange(2, 7)):
        number = rng.randrange(len(samples))
        grid = ", ".join(map(str, samples[number].grid))
        values = _param_values(samples[number], params, rng)
        launch = f"launch @p{number} grid({grid}) ({bindings.bind(samples[number])}){values}"
        stages += f"  repeat 2 {{ {launch} }}\n" if rng.random() < 0.08 else f"  {launch}\n"
        written = [b for b in bindings.buffers if b.written and (b.contents or all_given)]
        if written and rng.random() < 0.08:
            stages += f"  host_read @{rng.choice(written).name}\n"
    programs = "".join(_renamed(sample, number) for number, sample in enumerate(samples))
    version = max(print_program(sample.module).split("\n", 1)[0] for sample in samples)
    return f"{version}\n{programs}pipeline @main {{\n{bindings.declared()}{''.join(params)}{stages}}}\n"


def _param_values(sample: Sample, params: list[str], rng: random.Random) -> str:
    """What a launch passes for some runtime scalars: literals, and params of the pipeline, which `params` gets."""
    values = []
    for param in sample.program.params.values():
        kind = rng.choice(("default", "literal", "param"))
        text = show(random_bits(param.dtype, rng), param.dtype)
        if kind == "param":
            params.append(f"  param @q{len(params)} : {param.dtype} = {text}\n")
            text = f"@q{len(params) - 1}"
        if kind != "default":
            values.append(f"@{param.name} = {text}")
    return f" params({', '.join(values)})" if values else ""


def _renamed(sample: Sample, number: int) -> str:
    """The text of a program and its functions, @main as @p0 and @helper1 as @p0_helper1."""
    _, text = print_program(sample.module).split("\n", 1)
    return re.sub(r"@(main|helper\d+)\b", lambda m: f"@p{number}{_suffix(m[1])}", text) + "\n"


def _suffix(name: str) -> str:
    return "" if name == "main" else f"_{name}"
