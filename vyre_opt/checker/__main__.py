"""`python -m vyre_opt.checker WRITTEN OPTIMISED CERTIFICATE`: a certificate, checked against two texts in the generic form."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .certificate import check

__all__ = ["main"]


def main() -> int:
    """Print the report; 1 if anything is refused, or a file is not readable."""
    parser = argparse.ArgumentParser(prog="python -m vyre_opt.checker", description=__doc__)
    for name in ("written", "optimised", "certificate"):
        parser.add_argument(name, type=Path)
    paths = parser.parse_args()
    try:
        texts = [path.read_text(encoding="utf-8") for path in vars(paths).values()]
    except (OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report = check(*texts)
    print(report.summary(), end="")
    return int(report.is_refused)


if __name__ == "__main__":
    sys.exit(main())
