"""Plant secrets in generated mail, web tokens and a backup, and find them by every way that vyre-opt has.

    python examples/find_secrets --size 64

What each way finds is compared with what Python's email, base64 and re find, and that with what was planted.  Then a
word list is searched in the files of the project's own wheel.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import click

sys.path.insert(
    0, str(Path(__file__).parents[1])
)  # Python was told to run the folder, and knows no package yet

from find_secrets.corpus import OTHER, PLACES, Corpus, Planted, write_corpus
from find_secrets.independent_check import secrets_as_written, secrets_in_parts
from find_secrets.ways import WAYS, Search
from find_secrets.wheel import WheelSearch, files_of_wheel, search_wheel, word_list

MIB = 1 << 20


def search_corpus(corpus: Corpus) -> dict[str, Search]:
    """What each way finds, by its name.  Raises ClickException where it is not what it must be."""
    planted, in_parts, as_written = (
        Counter(corpus.planted),
        secrets_in_parts(corpus),
        secrets_as_written(corpus),
    )
    if in_parts != planted:
        raise click.ClickException(
            f"email, base64 and re do not find what was planted: {_difference(in_parts, planted)}"
        )
    searches = {way.name: way.run(corpus) for way in WAYS}
    for way in WAYS:
        found, expected = searches[way.name].found, way.expected(as_written, in_parts)
        if found != expected:
            raise click.ClickException(
                f"{way.name} does not find what re does: {_difference(found, expected)}"
            )
    return searches


def _difference(found: Counter[Planted], expected: Counter[Planted]) -> str:
    missing, more = expected - found, found - expected
    first = next(iter([*missing, *more]))
    return f"{missing.total()} are missing and {more.total()} too many, the first one {first}"


def places_table(corpus: Corpus, searches: dict[str, Search]) -> list[list[str]]:
    """How many secrets of each place each way found."""
    columns = [Counter(corpus.planted), *(search.found for search in searches.values())]
    counts = [Counter(each.place for each in column.elements()) for column in columns]
    rows = [[place, *(str(count[place]) for count in counts)] for place in (*PLACES, OTHER)]
    return [["secrets in", "planted", *searches], *rows]


def speeds_table(searches: dict[str, Search]) -> list[list[str]]:
    rows = [
        [name, f"{each.size / MIB:.1f}", f"{each.seconds:.3f}", f"{each.size / each.seconds / 1e9:.3f}"]
        for name, each in searches.items()
    ]
    return [["way", "MiB", "seconds", "GB/s"], *rows]


def lines_of(table: list[list[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in table
    )


def wheel_lines(result: WheelSearch, words: int) -> str:
    most = ", ".join(f"{word.decode()} {count}" for word, count in result.counts.most_common(5))
    return "\n".join(
        [
            f"wheel       {result.files} files, {result.size:,} bytes; {words:,} words in either case",
            f"matches     {result.counts.total():,}, the same in base64, the same as by slices of Python; {most}",
            f"seconds     {result.seconds:.3f}, {result.size / result.seconds / 1e9:.3f} GB/s; "
            f"in base64 {result.encoded_seconds:.3f}",
        ]
    )


@click.command(help=(__doc__ or "").replace("\n\n    python", "\n\n\b\n    python"))
@click.option("--size", type=click.FloatRange(min=0), default=4, show_default=True, help="MiB of all files.")
@click.option("--seed", default=1, show_default=True, help="Of what is drawn.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Leave the files there.  Default: nowhere.",
)
@click.option(
    "--wheel", type=click.Path(path_type=Path), help="A wheel.  Default: the files of the installed package."
)
def main(size: float, seed: int, folder: Path | None, wheel: Path | None) -> None:
    with ExitStack() as stack:
        try:
            files = files_of_wheel(wheel)
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            corpus = write_corpus(folder, int(size * MIB), seed)
        except (OSError, zipfile.BadZipFile) as wrong:
            raise click.ClickException(str(wrong)) from None
        searches = search_corpus(corpus)
    click.echo(lines_of(places_table(corpus, searches)) + "\n")
    click.echo(lines_of(speeds_table(searches)) + "\n")
    words = word_list()
    result = search_wheel(files, words)
    if result.differing:
        raise click.ClickException(
            f"in {', '.join(result.differing)} Scanner does not find what slices of Python do"
        )
    click.echo(wheel_lines(result, len(words)))


if __name__ == "__main__":
    main()
