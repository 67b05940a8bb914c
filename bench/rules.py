"""Public rule sets on real files:  python bench/rules.py --gitleaks FILE --trufflehog FOLDER --detect-secrets FOLDER ROOT...

The rules of gitleaks (config/gitleaks.toml), of TruffleHog (the expressions of pkg/detectors) and of detect-secrets (its
plugins), from checkouts that are named, in files below ROOT, as many as have --mib together, and in generated mail in
which secrets are planted.  Scanner searches batches of files; beside it are `re`, a rule after the other in the files that
have one of its keywords, as gitleaks does; a block database of Hyperscan of the rules that it takes, which gives ends and
confirms nothing; and ripgrep with the rules that it takes, from a file.  Matches of Scanner and `re` are compared span by span,
rule by rule: where keywords are, in all files, and without keywords in as many as have --oracle-mib.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine, save, today
from search_peers import is_installed

from vyre_scan import PatternError, Scanner, scan_blobs
from vyre_scan.patterns.pattern_list import read_patterns
from vyre_scan.patterns.rule_syntax import parsed
from vyre_scan.search.cached_patterns import cached_tables
from vyre_scan.search.segments import matches_in
from vyre_scan.tool.rules import read_rules

RESULT = Path(__file__).parent / "results" / "rules.json"
MIB = 1 << 20
MOST_FILE = 4 * MIB
BATCH = 8 * MIB
GAP = b"\n\0\n"
GOAL = 3.0

Spans = set[tuple[int, int, int, int]]
"""File, rule, start and end of each match."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`source`: in the syntax of `re` for bytes.  `keywords`: small letters; a file with none of them is not searched."""

    name: str
    written: str
    source: bytes
    keywords: tuple[bytes, ...]


# --- rules


def rule(name: str, written: str, keywords: Sequence[str]) -> Rule | None:
    """None for an expression that `re` does not take."""
    try:
        source = parsed(written.encode(), 0, name, is_text=True)[0]
        re.compile(source)
    except (PatternError, re.error):
        return None
    return Rule(name, written, source, tuple(word.lower().encode() for word in keywords))


def gitleaks(path: Path) -> Iterator[Rule | None]:
    for one in read_rules(str(path)).rules:
        yield rule(one.name, one.regex, [word.decode() for word in one.keywords])


_GO = re.compile(
    r"regexp\.MustCompile\(\s*(?:detectors\.PrefixRegex\(\[\]string\{([^}]*)\}\)\s*\+\s*)?`([^`]*)`\s*\)"
)
_WORDS = re.compile(r"Keywords\(\) \[\]string \{\s*return \[\]string\{([^}]*)\}", re.DOTALL)


def trufflehog(folder: Path) -> Iterator[Rule | None]:
    """Expressions that are written as one, with the keywords of their detector."""
    for path in sorted(folder.glob("pkg/detectors/**/*.go")):
        if path.name.endswith("_test.go"):
            continue
        text = path.read_text(errors="replace")
        keywords = [word for found in _WORDS.findall(text)[:1] for word in re.findall(r'"([^"]+)"', found)]
        for number, (words, written) in enumerate(_GO.findall(text)):
            prefix = "|".join(re.findall(r'"([^"]+)"', words))
            if prefix:
                written = rf"(?i:{prefix})(?:.|[\n\r]){{0,40}}?{written}"
            if keywords:
                yield rule(f"{path.stem}-{number}", written, keywords)


def detect_secrets(folder: Path) -> Iterator[Rule | None]:
    """Expressions of plugins whose text is constant; there are no keywords."""
    for path in sorted(folder.glob("detect_secrets/plugins/*.py")):
        for number, call in enumerate(ast.walk(ast.parse(path.read_text()))):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "re.compile" and call.args):
                continue
            try:
                written = ast.literal_eval(call.args[0])
            except ValueError:
                continue
            flags = {ast.unparse(one.value) for one in call.keywords} | set(map(ast.unparse, call.args[1:]))
            yield rule(f"{path.stem}-{number}", "(?i)" * ("re.IGNORECASE" in flags) + written, [])


# --- files


def read_files(roots: Sequence[Path], size: int) -> list[bytes]:
    """The contents of files below the roots, drawn at random, until they have `size` bytes."""
    paths = [
        Path(folder, name) for root in roots for folder, _, names in os.walk(root) for name in sorted(names)
    ]
    random.Random(1).shuffle(paths)
    contents, total = list[bytes](), 0
    for path in paths:
        if path.is_symlink() or not path.is_file() or not 0 < path.stat().st_size <= MOST_FILE:
            continue
        contents.append(path.read_bytes())
        total += len(contents[-1])
        if total >= size:
            break
    return contents


def planted_mail(size: int) -> tuple[bytes, int]:
    """Mail of examples/find_secrets, and how many more or fewer secrets are found in its base64 than are there."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from find_secrets.corpus import write_corpus

    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder), size, 1)
        mail = corpus.path("mail.mbox").read_bytes()
        expressions = corpus.path("forms.txt").read_text().splitlines()
        in_blobs = [
            one for one in corpus.planted if one.file == "mail.mbox" and one.place in ("base64", "attachment")
        ]
    scanner = Scanner([*expressions], regex=True)
    found = {(m.start, m.pattern) for m in scan_blobs(scanner, mail)}
    return mail, len(found) - len(in_blobs)


# --- ways


def batches(contents: Sequence[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The number of the first file, and files that are searched together."""
    first, size = 0, 0
    for number, content in enumerate(contents):
        size += len(content)
        if size >= BATCH or number == len(contents) - 1:
            yield first, [*contents[first : number + 1]]
            first, size = number + 1, 0


def by_scanner(scanner: Scanner, contents: Sequence[bytes]) -> Spans:
    spans: Spans = set()
    for first, some in batches(contents):
        data = np.frombuffer(GAP.join(some), np.uint8)
        sizes = np.array([len(content) for content in some])
        begins = np.cumsum(sizes + len(GAP)) - sizes - len(GAP)
        starts, ends, rules = matches_in(scanner, data, begins, begins + sizes)
        files = np.searchsorted(begins, starts, side="right") - 1
        places = starts - begins[files], ends - begins[files]
        spans |= {
            *zip((files + first).tolist(), rules.tolist(), *(one.tolist() for one in places), strict=True)
        }
    return spans


def by_re(rules: Sequence[Rule], contents: Sequence[bytes], minds_keywords: bool) -> Spans:
    compiled = [re.compile(one.source) for one in rules]
    spans: Spans = set()
    for number, content in enumerate(contents):
        lowered = content.lower()
        for k, one in enumerate(rules):
            if minds_keywords and one.keywords and not any(word in lowered for word in one.keywords):
                continue
            spans.update((number, k, *match.span()) for match in compiled[k].finditer(content))
    return spans


def with_keywords(spans: Spans, rules: Sequence[Rule], contents: Sequence[bytes]) -> Spans:
    lowered = {number: contents[number].lower() for number in {span[0] for span in spans}}
    return {
        span
        for span in spans
        if not rules[span[1]].keywords or any(word in lowered[span[0]] for word in rules[span[1]].keywords)
    }


def hyperscan(rules: Sequence[Rule]) -> tuple[Callable[[Sequence[bytes]], int], int, float]:
    """A search, how many rules the database has, and the seconds to make it."""
    import hyperscan as hs

    begun = time.perf_counter()
    taken = []
    for one in rules:
        try:
            hs.Database(mode=hs.HS_MODE_BLOCK).compile(expressions=[one.source], ids=[0], flags=[0])
            taken.append(one)
        except hs.error:
            continue
    begun = time.perf_counter()
    database = hs.Database(mode=hs.HS_MODE_BLOCK)
    database.compile(
        expressions=[one.source for one in taken], ids=[*range(len(taken))], flags=[0] * len(taken)
    )
    seconds = time.perf_counter() - begun

    def search(contents: Sequence[bytes]) -> int:
        hits = 0

        def on_match(number: int, start: int, end: int, flags: int, context: Any) -> None:
            nonlocal hits
            hits += 1

        for content in contents:
            database.scan(content, match_event_handler=on_match)
        return hits

    return search, len(taken), seconds


def ripgrep(rg: str, rules: Sequence[Rule], folder: Path, threads: int) -> tuple[Callable[[], int], int]:
    """A search through the files of a folder, and how many rules there are of those that it takes."""
    taken = []
    for one in rules:
        ran = subprocess.run([rg, "-q", "-e", one.written, os.devnull], capture_output=True, check=False)
        if ran.returncode != 2:
            taken.append(one.written)
    patterns = folder.with_name(f"{folder.name}.rules")
    patterns.write_text("\n".join(taken) + "\n")
    command = [rg, f"-j{threads}", "-uuu", "-a", "-o", "-f", str(patterns), str(folder)]

    def search() -> int:
        return subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout.count(b"\n")

    return search, len(taken)


def timed(run: Callable[[], Any], repeats: int = 2) -> tuple[float, Any]:
    """The least of some times, and the result."""
    times, result = [], None
    for _ in range(repeats):
        begun = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - begun)
    return min(times), result


# --- the page


def measure(
    name: str, rules: list[Rule], contents: list[bytes], oracle: list[bytes], rg: str | None
) -> dict[str, Any]:
    size = sum(map(len, contents))
    sources = [re.compile(one.source) for one in rules]
    read = read_patterns(sources, regex=True, caseless=False)
    build, _ = timed(lambda: cached_tables(read, False, None), 1)
    scanner = Scanner(sources, threads=1)
    cached, _ = timed(lambda: Scanner(sources, threads=1), 3)
    row: dict[str, Any] = {"set": name, "rules": len(rules), "build": build, "cached": cached, "ways": {}}
    by_scanner(scanner, contents[:50])
    for threads in (1, 2):
        seconds, spans = timed(partial(by_scanner, scanner.with_threads(threads), contents))
        row["ways"][f"Scanner, {threads} thread{'s' * (threads > 1)}"] = size / seconds / 1e6
    seconds, expected = timed(lambda: by_re(rules, contents, True), 1)
    row["ways"]["re, rule by rule with keywords"] = size / seconds / 1e6
    row["matches"] = len(expected)
    row["differ"] = len(with_keywords(spans, rules, contents) ^ expected)
    row["differ_without_keywords"] = len(by_scanner(scanner, oracle) ^ by_re(rules, oracle, False))
    if is_installed("hyperscan"):
        search, taken, seconds = hyperscan(rules)
        row["ways"][f"Hyperscan, {taken} rules, 1 thread"] = size / timed(lambda: search(contents))[0] / 1e6
        row["hyperscan_build"] = seconds
    if rg is not None:
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top, "files")
            folder.mkdir()
            for number, content in enumerate(contents):
                (folder / f"{number:06}").write_bytes(content)
            for threads in (1, 2):
                run, taken = ripgrep(rg, rules, folder, threads)
                row["ways"][f"ripgrep, {taken} rules, {threads} thread{'s' * (threads > 1)}"] = (
                    size / timed(run)[0] / 1e6
                )
    return row


def result(rows: list[dict[str, Any]], size: int, arguments: str, missed: int) -> dict[str, Any]:
    targets = [
        {
            "what": f"{row['set']}: {GOAL} times the best peer, 1 thread",
            "measured": f"{ratio(row):.2f}",
            "met": ratio(row) >= GOAL,
        }
        for row in rows
    ]
    differ = sum(row["differ"] + row["differ_without_keywords"] for row in rows)
    targets.append(
        {"what": "the matches of `re`, rule by rule", "measured": f"{differ} differ", "met": not differ}
    )
    targets.append(
        {"what": "all planted secrets found in blobs", "measured": f"{missed} differ", "met": not missed}
    )
    return {
        "name": "rules",
        "arguments": arguments,
        "title": "Public rule sets on real files",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()) + f" Here they are {size / MIB:.0f} MiB.",
        "date": today(),
        "machine": machine(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("hyperscan",) if is_installed(name)
        },
        "tables": [
            {
                "caption": "MB of files a second",
                "columns": ["rules", "way", "MB/s"],
                "rows": [
                    [f"{row['set']}, {row['rules']}", way, f"{speed:.1f}"]
                    for row in rows
                    for way, speed in row["ways"].items()
                ],
            },
            {
                "caption": "Seconds to build, and matches",
                "columns": ["rules", "cold", "from the cache", "Hyperscan", "matches", "that differ from `re`"],
                "rows": [
                    [
                        row["set"], f"{row['build']:.2f}", f"{row['cached']:.3f}", f"{row.get('hyperscan_build', 0):.2f}",
                        str(row["matches"]), str(row["differ"] + row["differ_without_keywords"]),
                    ]
                    for row in rows
                ],
            },
        ],
        "targets": targets,
        "samples": rows,
    }  # fmt: skip


def ratio(row: dict[str, Any]) -> float:
    """The speed of Scanner over that of the best peer, by one thread."""
    peers = [
        speed
        for way, speed in row["ways"].items()
        if not way.startswith("Scanner") and "2 threads" not in way
    ]
    return float(row["ways"]["Scanner, 1 thread"] / max(peers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("roots", nargs="+", type=Path)
    for name in ("gitleaks", "trufflehog", "detect-secrets"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--mail-mib", type=int, default=8)
    parser.add_argument("--oracle-mib", type=int, default=16)
    parser.add_argument("--rg", default=shutil.which("rg"))
    parser.add_argument("--results", type=Path, default=RESULT)
    options = parser.parse_args()
    mail, missed = planted_mail(options.mail_mib * MIB)
    contents = [mail, *read_files(options.roots, options.mib * MIB)]
    oracle = read_files(options.roots, options.oracle_mib * MIB)
    rows = []
    for name, path, read in (
        ("gitleaks", options.gitleaks, gitleaks),
        ("TruffleHog", options.trufflehog, trufflehog),
        ("detect-secrets", options.detect_secrets, detect_secrets),
    ):
        if path is not None:
            rules = [one for one in read(path) if one is not None]
            rows.append(measure(name, rules, contents, oracle, options.rg))
            print(rows[-1], file=sys.stderr, flush=True)
            arguments = f"--mib {options.mib} --mail-mib {options.mail_mib} --oracle-mib {options.oracle_mib}"
            save(options.results, result(rows, sum(map(len, contents)), arguments, missed))


if __name__ == "__main__":
    main()
