"""Runs one command and prints what it cost:  python -I -S launch.py COMMAND ...

The peak memory that the system reports for a child begins at the size of the process
that started it, so this one imports next to nothing.  Prints seconds of wall time,
seconds of processor time, the peak in the system's unit, and the exit code.
"""

import os
import sys
import time

discard = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
started = time.perf_counter()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=discard)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - started
print(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
