"""Time and peak memory of vyre-scan on text of any size:  python bench/scan_memory.py [--gib N] [--folder F]

vyre-scan counts 46 secrets, as strings, in generated mail as it is, in the base64 in that mail, and in a file that is
base64 as a whole: from a file that was just written, so that as much of it as there is memory for is in the page cache,
and from a pipe that this script fills.  The text is some 34 MB of mail, or 10 MB of a backup, of examples/find_secrets,
again and again.  Counts are compared with those of `bytes.count`, and of the generator.  Memory is the peak of the process
as the operating system has it, with Python's own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO, Any

from measure import LAUNCH, machine, save, today
from scan_inputs import ROOT

RESULTS = Path(__file__).parent / "results"
SCRIPT = "import sys; from vyre_scan.start import main; sys.exit(main())"
MIB, GIB = 1 << 20, 1 << 30
CORPUS = 48 * MIB
SECRETS = 46
MOST_MEMORY = 500 * MIB


@dataclass(frozen=True, slots=True)
class Mode:
    """`file`: of the corpus; `places`: where in it secrets are found, None for the bytes of the file as they are."""

    name: str
    options: tuple[str, ...]
    file: str
    places: tuple[str, ...] | None


MODES = (
    Mode("strings", ("-U",), "mail.mbox", None),
    Mode("--only-blobs", ("--only-blobs",), "mail.mbox", ("base64", "attachment")),
    Mode("--decode base64", ("--decode", "base64"), "backup.b64", ("backup",)),
)


@dataclass(frozen=True, slots=True)
class Block:
    """Text that is repeated.  `matches`: of each mode, how many are in one."""

    content: bytes
    secrets: list[str]
    matches: dict[str, int]


def blocks(size: int, folder: Path) -> dict[str, Block]:
    """By the name of the file; of a corpus of so many bytes."""
    sys.path.insert(0, str(ROOT / "examples"))
    from find_secrets.corpus import write_corpus

    corpus = write_corpus(folder, size, seed=1)
    found = {}
    for file in dict.fromkeys(mode.file for mode in MODES):
        content = corpus.path(file).read_bytes()
        # those of which none is planted twice
        planted = [
            each for each in corpus.planted if each.file == file and each.content[:4] in ("AKIA", "ghp_")
        ]
        chosen = Random(1).sample(planted, min(SECRETS, len(planted)))
        matches = {
            mode.name: sum(content.count(each.content.encode()) for each in chosen)
            if mode.places is None
            else sum(each.place in mode.places for each in chosen)
            for mode in MODES
            if mode.file == file
        }
        found[file] = Block(content, [each.content for each in chosen], matches)
    return found


# --- one run


def run(mode: Mode, block: Block, repeats: int, path: Path | None, folder: Path) -> dict[str, Any]:
    """Of a file, or of a pipe if there is no path.  Leaves if a wrong number of matches is counted."""
    patterns, counted = folder / "patterns.txt", folder / "counted"
    patterns.write_text("\n".join(block.secrets) + "\n")
    scan = [sys.executable, "-c", SCRIPT, *mode.options, "-c", "-f", str(patterns), str(path or "-")]
    # LAUNCH discards what a command prints, and is small: the peak of a process begins with that of its parent
    command = [
        sys.executable,
        "-I",
        "-S",
        str(LAUNCH),
        "/bin/sh",
        "-c",
        'exec "$@" > "$0"',
        str(counted),
        *scan,
    ]
    stdin = subprocess.DEVNULL if path else subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE) as process:
        if process.stdin is not None:
            feed(process.stdin, block.content, repeats)
        assert process.stdout is not None
        seconds, processor, peak, code = process.stdout.read().split()
    count, expected = counted.read_text().strip(), block.matches[mode.name] * repeats
    if int(code) or count != str(expected):
        raise SystemExit(f"{mode.name}: exit code {int(code)}, {count} matches, not {expected}")
    return {
        "mode": mode.name,
        "source": "file" if path else "pipe",
        "size": len(block.content) * repeats,
        "matches": expected,
        "seconds": float(seconds),
        "processor": float(processor),
        "peak": int(peak) * (1 if sys.platform == "darwin" else 1024),
    }


def feed(pipe: IO[bytes], content: bytes, repeats: int) -> None:
    """Write all of it; less if the reader ends before."""
    try:
        for _ in range(repeats):
            pipe.write(content)
        pipe.close()
    except BrokenPipeError:
        pass


def measured(size: int, modes: Sequence[Mode], folder: Path) -> list[dict[str, Any]]:
    rows = []
    made = blocks(min(CORPUS, size), folder)
    for file in dict.fromkeys(mode.file for mode in modes):
        block = made[file]
        repeats = -(-size // len(block.content))
        path = folder / "text"
        with path.open("wb") as text:
            feed(text, block.content, repeats)
        for mode in modes:
            for source in (path, None) if mode.file == file else ():
                rows.append(run(mode, block, repeats, source, folder))
                print(rows[-1], flush=True)
        path.unlink()
    return rows


# --- the page


def result(rows: list[dict[str, Any]], arguments: str) -> dict[str, Any]:
    peak = max(row["peak"] for row in rows)
    return {
        "name": "scan_memory",
        "arguments": arguments,
        "title": "vyre-scan on large files",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        "date": today(),
        "machine": machine(),
        "versions": {},
        "tables": [
            {
                "caption": "Time, speed and peak memory",
                "columns": ["search", "from", "GiB", "matches", "seconds", "GB/s", "MiB at most"],
                "rows": [
                    [
                        row["mode"],
                        f"a {row['source']}",
                        f"{row['size'] / GIB:.2f}",
                        str(row["matches"]),
                        f"{row['seconds']:.1f}",
                        f"{row['size'] / row['seconds'] / 1e9:.2f}",
                        f"{row['peak'] / MIB:.0f}",
                    ]
                    for row in rows
                ],
            }
        ],
        "targets": [
            {
                "what": f"less than {MOST_MEMORY // MIB} MiB",
                "measured": f"{peak / MIB:.0f} MiB at most",
                "met": peak < MOST_MEMORY,
            }
        ],
        "samples": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gib", type=float, default=20, help="of text (20)")
    parser.add_argument("--folder", type=Path, help="where so much has room")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        rows = measured(int(args.gib * GIB), MODES, Path(folder))
    save(args.results / "scan_memory.json", result(rows, f"--gib {args.gib:g}" * (args.gib != 20)))


if __name__ == "__main__":
    main()
