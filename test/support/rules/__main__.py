"""All proofs of rewrite rules, folds, lowered ops and ranges:  python -m support.rules [--json FILE] [--quick]

Prints what is proved as a table and ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .report import measure, table

parser = argparse.ArgumentParser(prog="python -m support.rules", description=__doc__)
parser.add_argument(
    "--json", type=Path, metavar="FILE", help="write the results there, for docs/rules_page.py"
)
parser.add_argument("--quick", action="store_true", help="types of 8 bits alone")
arguments = parser.parse_args()

results = measure(arguments.quick, lambda line: print(line, file=sys.stderr, flush=True))
print("\n".join(table(results)))
if arguments.json is not None:
    arguments.json.write_text(results.as_json(), encoding="utf-8")
sys.exit(bool(results.wrong))
