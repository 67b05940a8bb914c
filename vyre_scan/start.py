"""Entry point of the installed command."""

from vyre_opt.cli.start import one_blas_thread

__all__ = ["main"]


def main() -> int:
    one_blas_thread()
    from .tool.command import main

    return main()
