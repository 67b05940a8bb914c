"""`PYTHONPATH=test python -m support.fuzz --seconds 600 --seed 1`: fuzz all targets, with a summary on stdout.

    text, passes     a text through parser and verifier; through passes
    fast-path        a text by the parser's fast path and by its tables
    pass-text        the text of a pipeline of passes
    options          command lines of the three tools
    npy              .npy files
    cache, tables    entries of the compile cache; the cached tables of the grammar
    emit             reports, LLVM IR and PTX
    run              programs and pipelines on ref and through the JIT of the cpu target

A case fails if it raises what is no diagnosed error, takes over 5 s of CPU time (20 s on the wall), ends its process,
takes 2 GiB of address space over what the process had, or if ref and cpu differ.  One case of each kind of failure is
made small and written to test/corpus.  The same seed gives the same cases; how many of them, the time decides, or
`--cases`.  The limits are those of Linux.

The summary has, of each target: cases, cases a minute of one process, those that were accepted as right, how many
shapes their answers had in a batch at most, the slowest case on the wall, the most memory that a batch took over its
base, and kinds of failures.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from vyre_opt.execution.processors import available

from ..tools import processes
from .corpus import CORPUS
from .session import Session, record, run_cases
from .targets import TARGETS


@click.command()
@click.option("--seconds", type=click.FloatRange(1), help="How long to run; 60 without --cases.")
@click.option("--cases", type=click.IntRange(1), help="How many cases of each target.")
@click.option("--seed", default=1, show_default=True, help="Another seed gives other cases.")
@click.option(
    "--target", "names", multiple=True, type=click.Choice(list(TARGETS)), help="Only this; repeatable."
)
@click.option("--jobs", type=click.IntRange(1), help="Processes; as many as CPUs by default.")
@click.option("--batch", "first", default=0, show_default=True, help="The first batch of each target.")
@click.option(
    "--replay", type=click.Path(path_type=Path, exists=True), help="Only run this file of a corpus."
)
@click.option("--corpus", type=click.Path(path_type=Path), default=CORPUS, help="Where failing cases go.")
def main(
    seconds: float | None,
    cases: int | None,
    seed: int,
    names: tuple[str, ...],
    jobs: int | None,
    first: int,
    replay: Path | None,
    corpus: Path,
) -> None:
    """Run mutated inputs through the compiler; exit code 1 if any is answered as none may be."""
    if replay is not None:
        sys.exit(_replay(replay))
    targets = [TARGETS[name] for name in names or TARGETS]
    limit = seconds or (1e9 if cases else 60.0)
    started = time.monotonic()
    click.echo(f"seed {seed}, targets {' '.join(t.name for t in targets)}")
    session = Session(targets, seed, limit, cases, jobs or available(), first)
    processes().set_forkserver_preload(["support.fuzz.preload"])
    with tempfile.TemporaryDirectory(prefix="vyre-opt-fuzz-") as folder:
        session.run(Path(folder), _show)
    click.echo(f"{session.summary()}\nin {time.monotonic() - started:.0f} s")
    failures = session.failures()
    for target, failure in failures:
        path = record(target, failure, corpus)
        where = f"see {path}" if path else "not seen again when run alone"
        click.echo(f"--- {target.name}: {failure.kind}: {where}\n{failure.what}")
        if path is None:
            click.echo(f"the case: {failure.case[:2000]!r}")
    sys.exit(1 if failures else 0)


def _replay(path: Path) -> int:
    """Run the case in a file, whose folder is named after its target.  Returns the exit code."""
    if path.absolute().parent.name not in TARGETS:
        raise click.UsageError(f"{path} lies in no folder that is named after a target")
    failures = run_cases(TARGETS[path.absolute().parent.name], [path.read_bytes()])
    for failure in failures:
        click.echo(f"{failure.kind}\n{failure.what}")
    return 1 if failures else 0


def _show(session: Session) -> None:
    cases = sum(totals.result.cases for totals in session.totals.values())
    print(f"{cases} cases, {len(session.failures())} kinds of failure", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(prog_name="python -m support.fuzz")
