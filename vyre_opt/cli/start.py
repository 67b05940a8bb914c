"""Start of the installed commands: until a tool is loaded, Ctrl-C ends it as it ends `cat`, without a traceback."""

import gc
import os
import signal

gc.disable()  # as `run_tool` does, which is called when all is imported
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # `run_tool` takes it back

__all__ = ["vyre_cache", "vyre_lsp", "vyre_opt", "vyre_pack", "vyre_reduce", "vyre_run", "one_blas_thread"]


def one_blas_thread() -> None:
    """Have NumPy start no threads of its own, which the tools do not use.

    Where the system gives none, OpenBLAS interrupts the process as Ctrl-C does.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def vyre_opt() -> int:
    one_blas_thread()
    from .opt import main

    return main()


def vyre_run() -> int:
    one_blas_thread()
    from .run import main

    return main()


def vyre_cache() -> int:
    one_blas_thread()
    from .cache import main

    return main()


def vyre_pack() -> int:
    from .pack import main

    return main()


def vyre_lsp() -> int:
    one_blas_thread()
    from .lsp import main

    return main()


def vyre_reduce() -> int:  # whose test may be anything, and has the environment of its caller
    from .reduce import main

    return main()
