"""A command as an interestingness test: it is run with a file that has the candidate; exit code 0 means interesting."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import ToolError

__all__ = ["PLACEHOLDER", "CommandTest", "argv_of"]

PLACEHOLDER = "{}"
"""The path stands in its place; without one it comes last."""
_LAST_LINES = 5
_TAIL_BYTES = 1 << 16
"""Most bytes kept of the output of a test, which may be endless."""


def argv_of(test: str, arguments: Sequence[str]) -> list[str]:
    """The argument vector of a command, as a shell splits it, then `arguments`.  Raises ValueError."""
    argv = [*shlex.split(test), *arguments]
    if not argv:
        raise ValueError("the command is empty")
    if not any(PLACEHOLDER in word for word in argv):
        argv.append(PLACEHOLDER)
    if os.sep not in argv[0] and shutil.which(argv[0]) is None and os.path.exists(argv[0]):
        argv[0] = os.path.join(os.curdir, argv[0])  # as people say it of a script in this folder
    return argv


class CommandTest:
    """Runs `argv` for each text, which is in a file of the given name in a folder of its own.

    The command has no stdin, and its output is discarded.  After `timeout` seconds it is ended with all that it
    started, and the text is not interesting.  Close it to remove the folder of the files.
    """

    def __init__(self, argv: Sequence[str], name: str, jobs: int, timeout: float) -> None:
        self.argv, self.name, self.jobs, self.timeout = argv, name, jobs, timeout
        self._folder = tempfile.TemporaryDirectory(prefix="vyre-reduce-", ignore_cleanup_errors=True)
        self._count = 0

    def close(self) -> None:
        self._folder.cleanup()

    def start(self, text: str) -> CommandTrial:
        return CommandTrial(self, text, subprocess.DEVNULL)

    def refusal(self, text: str) -> str:
        """Why a text is not interesting, with the end of what the command printed; "" if it is."""
        trial = CommandTrial(self, text, subprocess.PIPE)
        try:
            code, printed = trial.end()
        except BaseException:
            trial.cancel()
            raise
        if code == 0:
            return ""
        what = (
            f"the test takes more than {self.timeout:g} s"
            if code is None
            else f"the test ends by {signal.Signals(-code).name}"
            if code < 0
            else f"the test ends with exit code {code}, and not 0"
        )
        lines = printed.decode(errors="replace").splitlines()[-_LAST_LINES:]
        return "".join([what, *(f"\n  {line}" for line in lines)])

    def path(self) -> Path:
        """Return the path of a new file."""
        self._count += 1
        folder = Path(self._folder.name, str(self._count))
        folder.mkdir()
        return folder / self.name


class CommandTrial:
    """One run of the command, as the leader of a process group."""

    def __init__(self, test: CommandTest, text: str, output: int) -> None:
        self.path = test.path()
        self.path.write_bytes(text.encode("utf-8", "surrogateescape"))
        argv = [word.replace(PLACEHOLDER, str(self.path)) for word in test.argv]
        self.until = time.monotonic() + test.timeout
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            hint = "; make it executable by chmod +x" if isinstance(error, PermissionError) else ""
            raise ToolError(f"cannot run {argv[0]}: {error.strerror}{hint}") from None

    def end(self) -> tuple[int | None, bytes]:
        """Wait for the end; the exit code, None if there was no time left, and the end of what was printed."""
        try:
            printed = self._tail()
            self.process.wait(self._seconds_left())
        except subprocess.TimeoutExpired:
            self.cancel()
            return None, b""
        self._close()
        return self.process.returncode, printed

    def _tail(self) -> bytes:
        """The end of what is printed to a pipe, while there is time."""
        pipe, printed = self.process.stdout, b""
        while pipe and (left := self._seconds_left()) and select.select([pipe], [], [], left)[0]:
            piece = os.read(pipe.fileno(), _TAIL_BYTES)
            if not piece:
                break
            printed = (printed + piece)[-_TAIL_BYTES:]
        return printed

    def _seconds_left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def result(self) -> bool:
        code, _ = self.end()
        return code == 0

    def cancel(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.process.wait()
        self._close()

    def _close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.path.parent, ignore_errors=True)
