"""All proofs of rewrite rules, folds, lowered ops and ranges:  python -m support.rules [--json FILE] [--quick] [--only NAME]

Prints what is proved as a table and ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .report import as_json, measure, merged, table

parser = argparse.ArgumentParser(prog="python -m support.rules", description=__doc__)
parser.add_argument(
    "--json", type=Path, metavar="FILE", help="write the results there, for docs/rules_page.py"
)
parser.add_argument("--quick", action="store_true", help="types of 8 bits alone")
parser.add_argument(
    "--only", default="", metavar="NAME", help="what is about one op or one rule; its rows become new in FILE"
)
arguments = parser.parse_args()

try:
    results = measure(arguments.quick, lambda line: print(line, file=sys.stderr, flush=True), arguments.only)
except ValueError as error:
    parser.error(str(error))
print("\n".join(table(results)))
if arguments.json is not None:
    found = asdict(results)
    if arguments.only:
        found = merged(json.loads(arguments.json.read_text(encoding="utf-8")), results)
    arguments.json.write_text(as_json(found), encoding="utf-8")
sys.exit(bool(results.wrong))
