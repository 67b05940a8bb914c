"""The commands of the debugger, as those of pdb where there is one that does the same."""

from __future__ import annotations

import cmd
import os
import sys
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from ..ir.diagnostics import render
from ..ir.pipeline import Pipeline
from ..ir.program import Module, Op
from ..syntax.printer import op_line
from .conditions import Condition
from .op_places import scope_at
from .session import (
    Breakpoint,
    First,
    Goal,
    Proceed,
    Quit,
    Reach,
    Session,
    Step,
    Stop,
    Until,
    Watchpoint,
    checked_ids,
    is_in,
    linear,
    name_of,
)
from .view import Expression, ExpressionError, View, show

__all__ = ["Prompt"]

SHOWN_LINES = 5
"""Lines shown on each side of the present one."""


_ALIASES = {
    "s": "step", "n": "next", "r": "return", "si": "stepi", "c": "continue", "rs": "back", "rstep": "back", "rc": "rcontinue",
    "b": "break", "cl": "clear", "p": "print", "w": "where", "bt": "where", "l": "list", "a": "args", "q": "quit", "exit": "quit",
}  # fmt: skip


_ELSEWHERE = {
    "info locals": "locals", "info args": "args", "info variables": "locals", "info frame": "where", "info stack": "where",
    "info line": "list", "info threads": "lanes EXPRESSION", "info cuda": "where", "info display": "who", "info": "locals",
    "cuda thread": "local {}", "cuda lane": "local {}", "cuda block": "workgroup {}", "thread": "local {}", "block": "workgroup {}",
    "backtrace": "where", "frame": "where", "up": "where", "down": "where", "finish": "return", "nexti": "stepi", "ni": "stepi",
    "run": "restart", "start": "restart", "reverse-step": "back", "reverse-next": "back", "reverse-continue": "rcontinue",
    "delete": "clear {}", "disable": "clear {}", "advance": "until {}", "unt": "until {}", "jump": "until {}", "longlist": "list",
    "ll": "list", "pp": "print {}", "display": "print {}", "inspect": "print {}", "output": "print {}", "whatis": "print {}", "ptype": "print {}",
    "x": "print {}", "set var": "", "set variable": "", "!": "",
}  # fmt: skip
"""Commands of gdb, cuda-gdb and pdb, with those that do it here; {}: their argument, "": none does."""


def _here(line: str) -> str:
    """Message for a command of another debugger, which names the one here; "" for other lines."""
    words = line.split()
    for count in (2, 1):
        command = _ELSEWHERE.get(" ".join(words[:count]))
        if command is not None and len(words) >= count:
            here = command.format(" ".join(words[count:]).strip("()")).strip()
            return (
                f"{' '.join(words)} is {here} here"
                if here
                else "values stay as the program computes them: change its text"
            )
    return ""


class _Refused(Exception):
    """A command that cannot be done; the text says why."""


class Prompt(cmd.Cmd):
    """Reads commands from `stdin` at each stop of a session, and writes to `stdout`.

    `module`: what runs, whose lines breakpoints are at.  `nan`: see `Session`.  An end of the input ends the run quietly, as `quit` does.
    """

    prompt = "(vyre) "

    def __init__(
        self,
        module: Module,
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
        nan: bool = False,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        # a notebook asks by `input` too, and its sys.stdin is empty
        self.use_rawinput = stdin is None and (sys.stdin.isatty() or "ipykernel" in sys.modules)
        self._echoes = not self.use_rawinput and not self.stdin.isatty()
        self.module = module
        self.session = Session(self.stop, self.say, nan=nan)
        self._goal: Goal | None = None
        self._numbers = 0
        ops = (op for program in module.programs.values() for op in program.walk())
        if any(op.name == "breakpoint" for op in ops):
            self.session.goal = Proceed()

    # --- stops

    def stop(self, stop: Stop) -> Goal:
        """Show where it stopped, and run commands until one goes on.  Raises Quit."""
        self.at, self.view, self._goal = stop, stop.view, None
        if stop.reason:
            self.say(stop.reason)
        if stop.fault is not None:
            self.say(render(stop.fault.diagnostic))
        self.show_place()
        self.cmdloop()
        if self._goal is None and not stop.is_end:
            raise Quit
        return self._goal or Proceed()

    def say(self, text: str) -> None:
        """Write lines; paths of files below the working folder are relative to it."""
        self.stdout.write(text.replace(f"{os.getcwd()}{os.sep}", "") + "\n")

    def show_place(self) -> None:
        """The line, its function, its invocation, and in a pipeline the stage."""
        view, session = self.view, self.session
        if view.op is None:
            self.say("> the end of the run; what buffers hold can be printed")
            return
        machine, op = view.machine, view.op
        assert machine is not None
        line = "" if op.loc is None else f"{op.loc.source.name}({op.loc.line})"
        by = f"  {name_of(machine, view.invocation)}" if view.invocation is not None else ""
        step = session.step
        stage = "" if step is None or step.launch is None else f"  launch {session.launch}"
        state = "  after it" if view.is_after else ""
        self.say(f"> {line}{self.functions()[-1]}{by}{stage}{state}")
        self.say(f"-> {_text(op)}")

    def functions(self) -> list[str]:
        """The functions around the op, from the outermost in."""
        op, machine = self.view.op, self.view.machine
        assert op is not None
        assert machine is not None
        scope = scope_at(op)
        if scope is not None:
            return [f"{name}()" for name in scope.calls]
        for func in machine.funcs.values():
            if any(inner is op for inner in func.body.walk()):
                return [f"@{machine.program.name}", f"@{func.name}"]
        return [f"@{machine.program.name}"]

    # --- how commands run

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except (_Refused, ExpressionError) as refused:
            self.say(f"*** {refused}")
            return False

    def precmd(self, line: str) -> str:
        line = line.encode(errors="surrogateescape").decode(errors="replace")  # what is not UTF-8
        if self._echoes and line != "EOF":
            self.say(line)
        return line

    def parseline(self, line: str) -> tuple[str | None, str | None, str]:
        name, arg, line = super().parseline(line)
        return _ALIASES.get(name or "", name), arg, line

    def default(self, line: str) -> None:
        """Evaluate a line that is no command as an expression."""
        try:
            self.do_print(line)
        except ExpressionError as error:
            raise _Refused(_here(line) or f"{error}, and help lists the commands") from None

    def go(self, goal: Goal) -> bool:
        self._goal = goal
        return True

    def here(self) -> tuple[View, Op, int]:
        """The view, its op and the invocation.  Raises _Refused at the end of the run."""
        view = self.view
        if view.op is None or view.invocation is None or view.frame is None:
            raise _Refused("the run is over here; back goes into it")
        return view, view.op, view.invocation

    # --- forward

    def _step(self, calls: int | None, by_op: bool = False) -> bool:
        session, view = self.session, self.view
        if self.at.fault is not None:
            return self.do_continue("")
        if view.op is None or view.invocation is None:
            raise _Refused("the run is over here; back goes into it, and continue leaves")
        place = session.places(view.machine).of[view.op]  # type: ignore[arg-type]
        depth = None if calls is None else session.calls + place.calls + calls
        return self.go(Step(session.launch, view.invocation, place.statement, place.number, depth, by_op))

    def do_step(self, arg: str) -> bool:
        """step, s: to the next line of this invocation, in a function that it calls too."""
        return self._step(None)

    def do_next(self, arg: str) -> bool:
        """next, n: to the next line of this invocation, not in functions that it calls."""
        return self._step(0)

    def do_return(self, arg: str) -> bool:
        """return, r: until the function that this is in is left."""
        return self._step(-1)

    def do_stepi(self, arg: str) -> bool:
        """stepi, si: to the next op of this invocation, which may be on the same line."""
        return self._step(None, by_op=True)

    def do_continue(self, arg: str) -> bool:
        """continue, c: to the next breakpoint, or to the end; from there it leaves."""
        return self.go(Proceed())

    def do_until(self, arg: str) -> bool:
        """until COND: to the first line before which COND holds for an invocation, such as: until isnan(v)."""
        if not arg:
            raise _Refused("until which condition? such as: until isnan(v)")
        return self.go(Until(Condition(arg)))

    # --- back

    def do_back(self, arg: str) -> None:
        """back, rs: to the line of this invocation before this one."""
        self.session.back()

    def do_backi(self, arg: str) -> None:
        """backi: to the op of this invocation before this one."""
        self.session.back(by_op=True)

    def do_rcontinue(self, arg: str) -> None:
        """rcontinue, rc: back to the last stop at a breakpoint or a watchpoint before this one."""
        self.session.back_to_stop()

    def do_restart(self, arg: str) -> None:
        """restart: from the start, with the same breakpoints."""
        self.session.rewind(First())

    # --- where to stop

    def _breakpoint(self, arg: str, is_temporary: bool) -> None:
        if not arg:
            for each in self._stops():
                self.say(str(each))
            return
        place, _, condition = arg.partition(" if ")
        try:
            added = self.add_breakpoint(place.strip(), condition.strip(), is_temporary)
        except ValueError as error:
            raise _Refused(str(error)) from None
        self.say(str(added))

    def add_breakpoint(self, place: str, condition: str = "", is_temporary: bool = False) -> Breakpoint:
        """A breakpoint at `LINE` or `FILE:LINE`.  Raises ValueError for a line where no op begins, ExpressionError."""
        source, _, number = place.rpartition(":")
        if not (number.isascii() and number.isdigit()):
            raise ValueError(
                f"a breakpoint is at a line, as in: break 12, break file.py:12 if i == 3; not at {place!r}"
            )
        line = int(number)
        lines = self._lines()
        matching = [name for name in lines if not source or name == source or name.endswith(f"/{source}")]
        if not matching:
            raise ValueError(f"nothing of this run is in {source}; it is in {', '.join(lines)}")
        name = next((each for each in matching if line in lines[each]), matching[0])
        if line not in lines[name]:
            later = [n for n in sorted(lines[name]) if n > line]
            hint = f"; {f'the next that computes is line {later[0]}' if later else f'the last that computes is line {max(lines[name])}'}"
            raise ValueError(f"line {line} of {name} computes nothing{hint}")
        self._numbers += 1
        checked = Condition(condition) if condition else None
        added = Breakpoint(self._numbers, name, line, checked, is_temporary)
        self.session.breakpoints.append(added)
        return added

    def _lines(self) -> dict[str, set[int]]:
        """The lines where ops are, by the names of files; that of the present op first."""
        lines: dict[str, set[int]] = {}
        op = self.view.op if hasattr(self, "view") else None
        if op is not None and op.loc is not None:
            lines[op.loc.source.name] = set()
        bodies = [item.body for item in self.module.order if not isinstance(item, Pipeline)]
        for each in (op for body in bodies for op in body.walk()):
            if each.loc is not None and not each.definition.is_terminator:
                lines.setdefault(each.loc.source.name, set()).add(each.loc.line)
        return lines

    def _stops(self) -> list[Breakpoint | Watchpoint]:
        return [*self.session.breakpoints, *self.session.watchpoints]

    def do_break(self, arg: str) -> None:
        """break, b LINE [if COND]: stop before a line; FILE:LINE for another file.  Without a line: lists breakpoints."""
        self._breakpoint(arg, is_temporary=False)

    def do_tbreak(self, arg: str) -> None:
        """tbreak LINE [if COND]: stop before a line, once."""
        self._breakpoint(arg, is_temporary=True)

    def do_clear(self, arg: str) -> None:
        """clear, cl [NUMBER]: removes a breakpoint or a watchpoint, or all."""
        session = self.session
        chosen = [each for each in self._stops() if not arg or str(each.number) == arg]
        if not chosen:
            raise _Refused(f"there is no breakpoint {arg}")
        session.breakpoints = [each for each in session.breakpoints if each not in chosen]
        session.watchpoints = [each for each in session.watchpoints if each not in chosen]

    def do_watch(self, arg: str) -> None:
        """watch BUFFER[I]: stop after each write of an element, whoever writes it."""
        watched = self._element(arg, self._numbers + 1)
        for other in self.session.watchpoints:
            if (other.key, other.scalar) == (watched.key, watched.scalar):
                raise _Refused(f"it is watched already: {other}")
        self._numbers += 1
        self.session.watchpoints.append(watched)
        self.say(str(watched))

    def do_who(self, arg: str) -> None:
        """who BUFFER[I]: who wrote an element last before this, from which line, and what it was."""
        self.session.last_write(self._element(arg, 0))

    def _element(self, text: str, number: int) -> Watchpoint:
        """The element that `y[5]` names.  Raises _Refused."""
        name, bracket, rest = text.strip().partition("[")
        if not bracket or not rest.endswith("]"):
            raise _Refused("which element? such as: y[5], y[i], y[2, 3]")
        view = self.view
        index = Expression(rest[:-1]).value(view)
        found = self._storage(name.strip().removeprefix("@"))
        if found is None and name.strip() in view.names():
            see = f"until {name.strip()}[0] != 0"
            raise _Refused(
                f"{name} is of each invocation, and no buffer; see when it changes by a condition: {see}"
            )
        if found is None:
            raise _Refused(f"there is no buffer {name}; there are {', '.join(view.buffers())}")
        indices = tuple(int(n) for n in (index if isinstance(index, tuple) else (index,)))
        if len(indices) != len(found.shape) or any(
            not 0 <= at < extent for at, extent in zip(indices, found.shape, strict=True)
        ):
            shape = ", ".join(map(str, found.shape))
            raise _Refused(f"{text} is outside of {name}, whose shape is ({shape})")
        scalar = int(np.ravel_multi_index(indices, found.shape)) * found.buffer.dtype.lanes
        if found.rows is not None:
            scalar += view._section(found) * found.scalars
        shown = f"{name.strip()}[{', '.join(map(str, indices))}]"
        return Watchpoint(number, shown, self.session.key(found, view.frame), scalar)

    def _storage(self, name: str) -> Any:
        view = self.view
        own = view.machine.storages if view.machine is not None and view.op is not None else {}
        return own.get(name) or view.storages.get(name)

    # --- what to see

    def do_print(self, arg: str) -> None:
        """print, p EXPR: a value by its name, an element x[i], a slice x[3:8], or what NumPy makes of them."""
        self.say(show(Expression(arg).value(self.view)))

    def do_lanes(self, arg: str) -> None:
        """lanes EXPR: its values in all invocations of the workgroup, -- in those that are not here."""
        view, _, invocation = self.here()
        frame, machine = view.frame, view.machine
        assert frame is not None
        assert machine is not None
        array = np.asanyarray(Expression(arg).value(view, of_all=True))
        if array.ndim == 0 or len(array) == 1:
            array = np.broadcast_to(array.reshape(1, *array.shape[1:]), (frame.size, *array.shape[1:]))
        if len(array) != frame.size:
            raise _Refused(f"{arg} is not a value of each invocation")
        first = invocation // machine.program.lanes * machine.program.lanes
        here = np.flatnonzero(
            (frame.invocations >= first) & (frame.invocations < first + machine.program.lanes)
        )
        shown = np.ma.masked_array(
            np.zeros((machine.program.lanes, *array.shape[1:]), array.dtype), mask=True
        )
        shown[frame.invocations[here] - first] = array[here]
        self.say(show(shown, threshold=1024))

    def do_where(self, arg: str) -> None:
        """where, w: this line and the stage that launched it, the op, and the functions around it."""
        self.show_place()
        if self.view.op is not None:
            for line in (
                *self.session.stage(),
                f"  in {' > '.join(self.functions())}",
                f"  {op_line(self.view.op)}",
            ):
                self.say(line)

    def do_list(self, arg: str) -> None:
        """list, l [LINE]: the lines around this one."""
        op = self.view.op
        if op is None or op.loc is None:
            raise _Refused("there is no line here")
        source, at = op.loc.source, op.loc.line
        center = int(arg) if arg.isdigit() else at
        stops = {b.line for b in self.session.breakpoints if b.source == source.name}
        last = source.first_line + source.text.count("\n")
        for line in range(max(source.first_line, center - SHOWN_LINES), min(last, center + SHOWN_LINES) + 1):
            mark = "->" if line == at else "B " if line in stops else "  "
            self.say(f"{line:4} {mark} {source.line_text(line)}".rstrip())

    def _show_names(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self.say(f"{name} = {show(Expression(name).value(self.view))}")
            except ExpressionError:
                continue  # not computed yet

    def do_args(self, arg: str) -> None:
        """args, a: the buffers and the runtime scalars of the program."""
        machine, op = self.view.machine, self.view.op
        params = () if machine is None or op is None else machine.program.params
        sign = "@" if op is not None and scope_at(op) is None else ""
        self._show_names([*(f"{sign}{name}" for name in self.view.buffers()), *params])

    def do_locals(self, arg: str) -> None:
        """locals: the names that have values here."""
        buffers = {*self.view.buffers()}
        self._show_names(name for name in self.view.names() if name not in buffers)

    # --- other invocations

    def do_local(self, arg: str) -> None:
        """local N[,N,N]: look at another invocation of the workgroup."""
        view, _, invocation = self.here()
        machine = view.machine
        assert machine is not None
        local = linear(self._ids(arg, "local"), machine.program.workgroup)
        if local is None or local < 0:
            raise _Refused(f"workgroups have {'x'.join(map(str, machine.program.workgroup))} invocations")
        self._look_at(invocation // machine.program.lanes * machine.program.lanes + local)

    def do_workgroup(self, arg: str) -> None:
        """workgroup N[,N,N]: look at the same invocation of another workgroup."""
        view, op, invocation = self.here()
        machine, frame = view.machine, view.frame
        assert machine is not None
        assert frame is not None
        ids = self._ids(arg, "workgroup")
        row, lanes = linear(ids, machine.call.grid), machine.program.lanes
        if row is None or row < 0:
            raise _Refused(f"the grid is {'x'.join(map(str, machine.call.grid))}")
        batch = frame.batch
        if batch.first <= row < batch.first + batch.rows:
            self._look_at(row * lanes + invocation % lanes)
            return
        # another workgroup runs first from here on
        self.session.workgroup, self.session.local = ids, invocation % lanes
        self.session.focus = row * lanes + invocation % lanes
        self.session.rewind(Reach(op))

    def _look_at(self, invocation: int) -> None:
        view = self.view
        assert view.frame is not None
        assert view.machine is not None
        self.view = view.by(invocation)
        self.session.focus = invocation
        if not is_in(view.frame, invocation):
            self.say(f"{name_of(view.machine, invocation)} is not in this branch; step goes to its next line")
        self.show_place()

    def _ids(self, arg: str, what: str) -> Any:
        parts = [part.strip() for part in arg.strip("() ").split(",")]
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise _Refused(f"{what} which? such as: {what} 3, {what} 1,2")
        numbers = tuple(map(int, parts))
        return checked_ids(numbers if len(numbers) > 1 else numbers[0], what)

    # --- the rest

    def do_quit(self, arg: str) -> bool:
        """quit, q: leave the run; what it has computed is dropped, unless it is over."""
        return True

    def do_EOF(self, arg: str) -> bool:  # noqa: N802  cmd asks for this name
        """The end of the input, which leaves as quit does."""
        self.say("")
        return True

    def get_names(self) -> list[str]:
        return [name for name in super().get_names() if name != "do_EOF"]

    def help_help(self) -> None:
        self.say("help [COMMAND]: what a command does.")


def _text(op: Op) -> str:
    """The line of an op."""
    return op.name if op.loc is None else op.loc.source.line_text(op.loc.line).strip()
