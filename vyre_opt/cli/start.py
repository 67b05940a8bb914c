"""Where the installed commands begin: until a tool is loaded, Ctrl-C ends it as it ends `cat`, without a traceback."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # `run_tool` takes it back

__all__ = ["vyre_cache", "vyre_lsp", "vyre_opt", "vyre_reduce", "vyre_run", "vyre_scan"]


def vyre_opt() -> int:
    from .opt import main

    return main()


def vyre_run() -> int:
    from .run import main

    return main()


def vyre_cache() -> int:
    from .cache import main

    return main()


def vyre_scan() -> int:
    from .scan import main

    return main()


def vyre_lsp() -> int:
    from .lsp import main

    return main()


def vyre_reduce() -> int:
    from .reduce import main

    return main()
