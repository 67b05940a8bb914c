"""The command-line tools for shell scripts: commands of their names that run in forks of one process.

Starting Python and importing takes ten times as long as what most commands of the documents do.

    with serving(folder) as commands:           # commands: a folder for the front of PATH
        subprocess.run(["sh", "-c", "vyre-opt a.vyre | head -3"], env={..., "PATH": f"{commands}:..."})

A command sends its arguments, folder, environment and streams through a socket, and ends as the tool does.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from vyre_opt.cli import start

from .tools import become, modules

__all__ = ["serving"]

COMMAND = """#!{python} -IS
import _socket, marshal, os, sys

if "PYTHONPATH" in os.environ:  # what it has may be installed later than the server began
    os.execv({tool!r}, [{tool!r}, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([b" "], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(marshal.dumps(({name!r}, sys.argv[1:], os.getcwd(), dict(os.environ))))
server.shutdown(_socket.SHUT_WR)
code = int(server.recv(16))
if code < 0:
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""Imports next to nothing, which takes 15 ms."""

TOOLS = {name.replace("_", "-"): name for name in start.__all__}


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """Serve the tools in an empty folder; gives the folder with their commands."""
    commands, address = folder / "commands", folder / "socket"
    commands.mkdir()
    for name in TOOLS:
        tool = str(Path(sys.executable).parent / name)
        text = COMMAND.format(python=sys.executable, name=name, tool=tool, address=str(address))
        (commands / name).write_text(text, encoding="utf-8")
        (commands / name).chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        command = [sys.executable, "-m", __name__, str(listener.fileno())]
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        server = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, pass_fds=[listener.fileno()]
        )
    try:
        yield commands
    finally:
        server.kill()
        server.wait()


def _main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in modules():
        import_module(module)
    gc.freeze()  # forks share what they would copy to count references
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Run a tool in a fork of this one, send what it ended with, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    name, args, folder, environment = marshal.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    if (child := os.fork()) == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        become(getattr(start, TOOLS[name]), [name, *args], environment)
    for stream in streams:
        os.close(stream)
    _, status = os.waitpid(child, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


if __name__ == "__main__":
    _main()
