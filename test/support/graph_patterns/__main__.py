"""The table of docs/explanation/reliability.md: what the interpreter finds, by kind of mistake."""

from __future__ import annotations

from collections import Counter

from . import KINDS, cases, complaint, outcome

COLUMNS = ("programs", "runs", "reached", "found", "false alarms", "wrong")
"""`runs`: programs on graphs.  `wrong`: runs that `complaint` objects to."""


def main() -> None:
    counts = {kind: Counter[str]() for kind in ("", *KINDS)}
    programs: dict[str, set[str]] = {kind: set() for kind in counts}
    for case in cases():
        seen, count = outcome(case), counts[case.variant.kind]
        programs[case.variant.kind].add(str(case.text))
        reached = bool(case.verdict.kinds)
        count["runs"] += 1
        count["reached"] += reached
        count["found"] += reached and bool(seen.error)
        count["false alarms"] += not reached and bool(seen.error)
        count["wrong"] += bool(complaint(case, seen))
    for kind, count in counts.items():
        count["programs"] = len(programs[kind])
    print("| Mistake |", " | ".join(COLUMNS), "|")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for kind, count in (*counts.items(), ("all", sum(counts.values(), Counter()))):
        print(f"| {kind or 'none'} |", " | ".join(str(count[column]) for column in COLUMNS), "|")


if __name__ == "__main__":
    main()
