"""`python -m vyre_opt` is vyre-opt."""

import sys

from vyre_opt.cli.opt import main

if __name__ == "__main__":
    sys.exit(main(name="python -m vyre_opt"))
