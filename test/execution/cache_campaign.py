"""Many processes on one store, some killed in the middle of a write: no wrong answer, no crash.

    python test/execution/cache_campaign.py --seconds 60 --processes 8 --folder DIR

Each process writes and reads entries whose payload follows from their key, under a limit small
enough that entries are evicted all the time; an accomplice damages files, removes them, and kills
processes, for which others start.  Every payload that a store gives is compared.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from blake3 import blake3

from vyre_opt.execution.cache.inventory import check
from vyre_opt.execution.cache.store import Store

LIMIT = 4 << 20
KEYS = 400


def payload_of(key: bytes) -> bytes:
    """From 0 bytes to 64 KiB, fixed by the key."""
    return blake3(key).digest(length=int.from_bytes(key[:2], "little"))


def work(folder: Path, seed: int, seconds: float) -> None:
    """Exit code 1 after the first wrong payload; prints hits and misses at the end."""
    store, rng, counts = Store(folder, LIMIT), random.Random(seed), Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        key = blake3(str(rng.randrange(KEYS)).encode()).digest()
        got = store.get(key, "cpu")
        if got is None:
            counts["written" if store.put(key, "cpu", payload_of(key)) else "refused"] += 1
        elif got != payload_of(key):
            sys.exit(f"WRONG payload under {key.hex()}")
        else:
            counts["hits"] += 1
    print(*(f"{name}={count}" for name, count in sorted(counts.items())))


def damage(folder: Path, rng: random.Random) -> str:
    """Flip a bit of a file, cut it, overwrite it, or remove it."""
    files = [Path(entry.path) for entry in Store(folder).entries()]
    if not files:
        return "nothing"
    path = rng.choice(files)
    way = rng.choice(("flipped", "cut", "replaced", "removed"))
    try:
        if way == "removed":
            path.unlink()
        elif way == "replaced":
            path.write_bytes(rng.choice(files).read_bytes())
        else:
            with open(path, "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                if way == "cut":
                    file.truncate(rng.randrange(size))
                else:
                    file.seek(at := rng.randrange(size))
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    except (OSError, ValueError, IndexError):
        return "gone"
    return way


def start(folder: Path, seed: int, seconds: float) -> subprocess.Popen:
    command = [
        sys.executable,
        __file__,
        "--work",
        str(seed),
        "--folder",
        str(folder),
        "--seconds",
        str(seconds),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def campaign(folder: Path, seconds: float, processes: int, seed: int = 1) -> Counter:
    """Counts of what happened; raises AssertionError for a process that failed of itself."""
    rng, counts = random.Random(seed), Counter()
    end = time.monotonic() + seconds
    running = [start(folder, seed + n, seconds) for n in range(processes)]
    started = len(running)
    while time.monotonic() < end:
        time.sleep(0.01)
        counts[damage(folder, rng)] += 1
        if rng.random() < 0.02:
            victim = rng.randrange(processes)
            running[victim].send_signal(signal.SIGKILL)
            _finish(running[victim], counts)
            started += 1
            running[victim] = start(folder, seed + started, max(end - time.monotonic(), 0.1))
    for process in running:
        _finish(process, counts)
    _, damaged = check(Store(folder, LIMIT))
    counts["damaged at the end"] = len(damaged)
    counts["bytes at the end"] = sum(entry.size for entry in Store(folder, LIMIT).entries())
    return counts


def _finish(process: subprocess.Popen, counts: Counter) -> None:
    output, errors = process.communicate(timeout=60)
    if process.returncode == -signal.SIGKILL:
        counts["killed"] += 1
        return
    assert process.returncode == 0, errors
    assert errors == "", errors
    for word in output.split():
        name, _, count = word.partition("=")
        counts[name] += int(count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        work(args.folder, args.work, args.seconds)
        return
    for name, count in sorted(campaign(args.folder, args.seconds, args.processes).items()):
        print(f"{count:10}  {name}")


if __name__ == "__main__":
    main()
