"""Translates statements of Python to structured control flow.

What may leave a block early is translated with what follows it:

    if c: return                     if c { } else { rest }
    for ...:                         while not left { if c { left = true } else { rest } }
        if c: break
        rest

`break`, `continue` and `return` set a flag; as long as a flag is known, no op is written for it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from typing import Any

from ..ir.diagnostics import Diagnostic
from ..ir.loops import BOUND_NAMES
from ..ir.ops import AXES
from ..ir.program import MAX_DIMENSIONS, AccessMode, Block, Buffer, Op, Value
from ..ir.scopes import Scope
from ..ir.types import DataType
from . import local_arrays, slices
from .array_types import declaration_text, show_array_type
from .bindings import (
    BREAK,
    CONTINUE,
    RESULT,
    RETURN,
    Binding,
    BufferView,
    LocalArray,
    Static,
    Unbound,
    classes_of,
    leaves,
    named_class,
    rebuild,
    shown_tuple,
)
from .calls import call
from .constants import constant_of, measured_name
from .emitter import type_of, wider_type
from .expressions import CONDITION_OF_LANES, CONDITION_OF_SLICE
from .flow import (
    always_leaves,
    assigned,
    breaks,
    leaves_block,
    leaves_loop,
    returned_values,
    returns,
    updated,
)
from .foreign_words import dotted_name, type_meant
from .further_errors import further_errors
from .inference import AnyType, TypeMismatch, known, unify
from .intrinsics import INTRINSICS, Intrinsic
from .loop_ranges import LoopRange, loop_range
from .named_tuples import named_class_called
from .python_source import Unsupported, text_name
from .remedies import as_where, corrected, free_name, place_of
from .scalars import scalar_type
from .unsupported import LOOP_ELSE, TOO_DEEP, unsupported

__all__ = ["Statements"]

MAX_UNROLLED = 4096


class Statements(slices.SliceExpressions):
    """Translates the statements of one function.  `returns`: whether it gives values."""

    returns = False

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """A function's body."""
        self.env.setdefault(RETURN, Static(False))
        self.block(statements)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements in order; an error in one is reported, and the others are looked at all the same."""
        for index, statement in enumerate(statements):
            try:
                if self.statement(statement, statements[index + 1 :]):
                    return
            except (Unsupported, RecursionError) as error:
                if isinstance(error, RecursionError):
                    error = Unsupported(statement, *TOO_DEEP)
                self.report(error)
                if error.message:
                    for further in further_errors(self, statement, error):
                        self.report(further)
                for name in _stored(statement):
                    self.env[name] = Unbound("")
            if any(isinstance(flag, Static) and flag.value for flag in self._flags()):
                return

    def report(self, error: Unsupported) -> None:
        """Unless it follows from an error that has been reported."""
        if not error.message:
            return
        diagnostic = Diagnostic("error", error.message, self.source.location(error.node), help=error.help)
        for message, loc in error.notes:
            diagnostic.note(message, loc)
        self.diagnostics.append(diagnostic)

    def statement(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Translate a statement, with the `rest` of its block if it may leave that; whether it did."""
        method = getattr(self, f"visit_{type(node).__name__.lower()}", None)
        if method is None:
            raise unsupported(self.source, node)
        self.emitter.loc = self.source.location(node)
        if isinstance(node, (ast.If, ast.For, ast.While)):
            self.emitter.heads.add(self.emitter.loc)
        self._enter_scope()
        return bool(method(node, rest))

    def _enter_scope(self) -> None:
        """Ops from here on are where names stand for what they stand for now, if a debugger asks for that."""
        if self.emitter.scope is not None and self.emitter.pinned is None:
            self.emitter.is_hidden = False
            self.emitter.scope = Scope((self.program.name, *(f.__name__ for f in self.calls)), dict(self.env))

    def _flags(self) -> list[Binding]:
        return [self.env[name] for name in (BREAK, CONTINUE, RETURN) if name in self.env]

    def visit_call(self, node: ast.Call) -> Binding:
        return call(self, node)

    @contextmanager
    def _inner_names(self) -> Iterator[None]:
        """Scope of inner names: their assignments are not seen behind it, also where an error ends it."""
        outer, self.env = self.env, dict(self.env)
        try:
            yield
        finally:
            self.env = outer

    # --- simple statements

    def visit_pass(self, node: ast.Pass, rest: Sequence[ast.stmt]) -> None:
        """Nothing."""

    def visit_expr(self, node: ast.Expr, rest: Sequence[ast.stmt]) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        if isinstance(node.value, ast.Compare) and isinstance(node.value.ops[0], ast.Eq):
            help = f"write {self.source.text(node.value).replace('==', '=', 1)}"
            raise Unsupported(node, "== compares, and nothing uses the result", help)
        binding = self.expression(node.value)
        if not isinstance(node.value, ast.Call):
            if isinstance(binding, Static) and callable(binding.value):
                text = self.source.text(node.value)
                raise Unsupported(node, f"{text} is named here, and not called", f"write {text}()")
            raise Unsupported(
                node, "this computes a value that nothing uses", "assign it, or remove the line"
            )

    def visit_assign(self, node: ast.Assign, rest: Sequence[ast.stmt]) -> None:
        try:
            binding = self._assigned(node.targets, node.value)
        except Unsupported as error:
            if (several := _ids_of_axes(node.value, error.help)) is not None:
                error.help = several
            if (
                isinstance(node.value, ast.Lambda)
                and error.node is node.value
                and isinstance(node.targets[0], ast.Name)
            ):
                arguments, body = ast.unparse(node.value.args), self.source.text(node.value.body)
                error.help = f"write @vyre.func, and below it def {node.targets[0].id}({arguments}): return {body}, above the kernel"
            if isinstance(error.node, ast.List):
                error.help = self._local_for_list(node.targets[0], node.value) or error.help
            self._check_written(node.targets, error)
            raise
        for target in node.targets:
            self.assign(target, binding, node.value)

    def _local_for_list(self, target: ast.expr, value: ast.expr) -> str | None:
        """The remedy for a list that is assigned to a name: an array of the invocation's own, or a tuple; None for another value."""
        if not isinstance(target, ast.Name):
            return None
        if isinstance(value, ast.List) and value.elts:
            return f"write {target.id} = ({', '.join(map(self.source.text, value.elts))},), a tuple; an array whose elements change is vyre.local(f32, {len(value.elts)})"
        if (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Mult)
            and isinstance(value.left, ast.List)
        ):
            first = value.left.elts[0] if value.left.elts else None
            is_int = isinstance(first, ast.Constant) and type(first.value) is int
            return f"write {target.id} = vyre.local({'i32' if is_int else 'f32'}, {self.source.text(value.right)})"
        return f"write {target.id} = vyre.local(f32, 8), of so many elements, and {target.id}[k] = v where one is appended"

    def _check_written(self, targets: Sequence[ast.expr], error: Unsupported) -> None:
        """Report an element of an array that is only read, beside the error of the value that it would get."""
        for target in targets:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                array = self.env.get(target.value.id)
                if isinstance(array, BufferView):
                    try:
                        self.check_access(target, array, "written")
                    except Unsupported as second:
                        self.report(second)

    def _assigned(self, targets: Sequence[ast.expr], node: ast.expr) -> Binding:
        """Binding of an assignment; shared memory is named by its target, in a tuple by the one at its place."""
        names = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else []
        if isinstance(node, ast.Tuple) and len(node.elts) == len(names):
            return tuple(self._assigned([name], part) for name, part in zip(names, node.elts, strict=True))
        return self._shared(targets, node) or self.expression(node)

    def visit_annassign(self, node: ast.AnnAssign, rest: Sequence[ast.stmt]) -> None:
        annotation = self.static(node.annotation, "a type")
        dtype = scalar_type(annotation)
        if dtype is None and annotation is not Any:
            help = "write Any, of typing, where a type checker should take it for no float of Python"
            if (meant := type_meant(annotation)) is not None:
                help = f"write {self.source.text(node.target)}: {meant}, or leave the type out"
            raise Unsupported(node.annotation, "the type of a local is f32, u32 or the like", help)
        if node.value is None:
            raise Unsupported(
                node, "a local has a value from its first line on", f"{self.source.text(node)} = 0"
            )
        value = self.expression(node.value) if dtype is None else self.value(node.value, dtype)
        self.assign(node.target, value, node.value)

    def visit_augassign(self, node: ast.AugAssign, rest: Sequence[ast.stmt]) -> None:
        if isinstance(node.target, ast.Attribute):
            raise self._no_target(node.target)
        if isinstance(node.target, ast.Name):
            old = self.expression(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            if isinstance(old, BufferView):
                self._refuse_lost_array(node.target, Static(None), node.value)
            new = self.binary(node, node.op, old, self.expression(node.value), node.target, node.value)  # type: ignore[arg-type]
            self.assign(node.target, new, node.value)
            return
        view = self.expression(node.target.value)
        if isinstance(view, LocalArray):
            target, added = node.target, node.value
            local_arrays.update(
                self,
                target,
                view,
                lambda read: (
                    self.binary(node, node.op, read(), self.expression(added), target, added),  # type: ignore[arg-type]
                    added,
                ),
            )
            return
        if not isinstance(view, BufferView):
            old = self.visit_subscript(node.target)
            new = self.binary(node, node.op, old, self.expression(node.value), node.target, node.value)  # type: ignore[arg-type]
            self._assign_element(node.target, new, node.value)
            return
        if slices.is_slice_index(node.target.slice):
            row = slices.load(self, node.target, view)
            changed = self.binary(node, node.op, row, self.expression(node.value), node.target, node.value)  # type: ignore[arg-type]
            slices.store(self, node.target, view, changed, node.value)
            return
        self.check_access(node.target, view, "read")
        self.check_access(node.target, view, "written")
        indices = self.indices(node.target.slice, view)
        old = self.load(view, indices)
        new = self.binary(node, node.op, old, self.expression(node.value), node.target, node.value)  # type: ignore[arg-type]
        self._store(view, indices, new, node.value)

    def assign(self, target: ast.expr, binding: Binding, node: ast.expr) -> None:
        """Bind a name, the names of a tuple, or an element of an array."""
        if isinstance(target, ast.Name):
            local_arrays.refuse_second_name(self, binding, node)
            if isinstance(binding, Value) and binding.name.isdigit():
                binding.name = text_name(target.id)
            if isinstance(binding, Static) and binding.value is None:
                text = self.source.text(node)
                if isinstance(node, ast.Constant):
                    help = f"begin with a number: {target.id} = 0.0, or -math.inf for a maximum"
                    raise Unsupported(
                        node, "a kernel has no None: a name is a number from its first line on", help
                    )
                raise Unsupported(node, f"{text} gives no value", f"write {text} in a line of its own")
            self._refuse_lost_array(target, binding, node)
            self.env[target.id] = binding
        elif isinstance(target, ast.Tuple):
            self._unpack(target, binding, node)
        elif isinstance(target, ast.Subscript):
            self._assign_element(target, binding, node)
        elif isinstance(target, ast.Starred):
            raise Unsupported(target, "a kernel does not unpack with *", "write the names")
        else:
            raise self._no_target(target)

    def _refuse_lost_array(self, target: ast.Name, binding: Binding, node: ast.expr) -> None:
        """Raise Unsupported where the name of an array of the caller would become another thing: that changes no element."""
        array = self.env.get(target.id)
        if not isinstance(array, BufferView) or not any(a.arg == target.id for a in self.source.arguments):
            return
        if not isinstance(binding, BufferView) or binding.buffer is not array.buffer:
            help = (
                f"write {corrected(self.source, {target: place_of(self, array, node)})}, or take another name"
            )
            raise Unsupported(
                target, f"{target.id} is an array of the caller, whose elements stay as they are", help
            )

    def _no_target(self, target: ast.expr) -> Unsupported:
        if isinstance(target, ast.Attribute) and named_class(self.expression(target.value)) is not None:
            name = self.source.text(target.value)
            help = f"write {name} = {name}._replace({target.attr}=...)"
            return Unsupported(target, "a field of a NamedTuple is not assigned", help)
        return Unsupported(target, "a kernel assigns names and elements of arrays")

    def _unpack(self, target: ast.Tuple, binding: Binding, node: ast.expr) -> None:
        for name in target.elts:
            if isinstance(name, ast.Starred):
                raise Unsupported(name, "a kernel does not unpack with *", "write the names")
        parts: Any = binding.value if isinstance(binding, Static) else binding
        if not isinstance(parts, tuple) or len(parts) != len(target.elts):
            number = len(parts) if isinstance(parts, tuple) else 1
            count = "one value" if number == 1 else f"{number} values"
            help = (
                f"write {number} names"
                if number > 1
                else f"write {self.source.text(target.elts[0])} = {self.source.text(node)}"
            )
            if isinstance(array := self.env.get(measured_name(node)), BufferView):
                help = f"{array.buffer.name} has {number} dimension{'s' * (number > 1)}"
                help += f", and len({array.buffer.name}) elements" if number == 1 else ""
                help += f"; one of {len(target.elts)} is declared {declaration_text(array.buffer, len(target.elts))}"
            if number == 1 and (several := self._one_for_each(target, node)):
                help = several
            raise Unsupported(target, f"{len(target.elts)} names for {count}", help)
        for name, part in zip(target.elts, parts, strict=True):
            self.assign(name, Static(constant_of(part)) if isinstance(binding, Static) else part, node)

    def _one_for_each(self, target: ast.Tuple, node: ast.expr) -> str | None:
        """The remedy for `i, j = vyre.global_id()`, whose value is along one axis; None for another value."""
        if not isinstance(node, ast.Call) or node.args or node.keywords or len(target.elts) > len(AXES):
            return None
        called = self.expression(node.func)
        intrinsic = called.value if isinstance(called, Static) else None
        if not isinstance(intrinsic, Intrinsic) or not intrinsic.arguments.startswith("axis"):
            return None
        names, name = [*map(self.source.text, target.elts)], self.source.text(node.func)
        axes = range(len(names)) if names == [*AXES[: len(names)]] else reversed(range(len(names)))
        return f"write {', '.join(names)} = {', '.join(f'{name}({axis})' for axis in axes)}"

    def _assign_element(self, target: ast.Subscript, binding: Binding, node: ast.expr) -> None:
        base = self.expression(target.value)
        if isinstance(base, LocalArray):
            local_arrays.store(self, target, base, binding, node)
            return
        if isinstance(base, BufferView) and slices.is_slice_index(target.slice):
            slices.store(self, target, base, binding, node)
            return
        if isinstance(base, BufferView):
            self.check_access(target, base, "written")
            try:
                indices = self.indices(target.slice, base)
            except Unsupported as error:
                if error.message == slices.MASK:
                    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
                    row = f"{self.source.text(target.value)}[{', '.join([*map(self.source.text, parts[:-1]), ':'])}]"
                    mask, new = self.source.text(parts[-1]), self.source.text(node)
                    error.help = f"write {row} = vyre.where({mask}, {new}, {row})"
                raise
            self._store(base, indices, binding, node)
            return
        dtype = type_of(base) if isinstance(base, Value) else None
        if not isinstance(target.value, ast.Name) or not isinstance(dtype, DataType) or not dtype.is_vec:
            if (
                isinstance(base, Value)
                and (wrong := self.number_subscripted(target, base, "Write")) is not None
            ):
                raise wrong
            help = "assign the whole to a name"
            if dtype is not None and slices.slice_type(dtype) is not None:
                name, at, new = map(self.source.text, (target.value, target.slice, node))
                help = "a slice is a value, computed as a whole"
                if isinstance(target.slice, ast.Compare):
                    help += f": write {name} = vyre.where({at}, {new}, {name})"
                else:
                    help += f": write {name} = vyre.where(vyre.arange(len({name})) == {at}, {new}, {name})"
            if isinstance(base, Static):
                name = self.source.text(target.value)
                help = (
                    f"store in an array argument, {name}: ReadWrite[f32], or in {name} = vyre.local(f32, 8)"
                )
                raise Unsupported(
                    target, f"{name} stands outside of the kernel, which cannot change it", help
                )
            raise Unsupported(target, "an element of this cannot be assigned", help)
        index = self.lane(target.slice, self.static(target.slice, "the lane of a vector"), dtype)
        value = self.as_value(binding, node, dtype.element)
        assert isinstance(base, Value)
        self.env[target.value.id] = self.emitter.value("insert", (value, base), dtype, {"index": index})

    def _store(self, view: BufferView, indices: Sequence[Value], binding: Binding, node: ast.expr) -> None:
        if any(slices.slice_type(type_of(index)) is not None for index in indices):
            raise Unsupported(
                node,
                f"elements of {view.buffer.name} are not written at the indices of a slice: two of them may be the same",
                "of neighbours, write a block, y[first : first + 64] = ...; of others, a program with an invocation for each",
            )
        element = view.buffer.dtype
        dtype = element if view.lanes == 1 else DataType.vec(element, view.lanes)
        if isinstance(binding, Value):
            binding = self.emitter.broadcast(binding, dtype)
        try:
            value = self.as_value(binding, node, dtype)
        except Unsupported as error:
            number = binding.value if isinstance(binding, Static) else None
            wider = wider_type(number, element) if element.is_int and isinstance(number, int) else None
            name, access = view.buffer.name, view.buffer.access
            is_argument = any(argument.arg == name for argument in self.source.arguments)
            if wider is not None and access is not None and is_argument and error.help:
                declaration = f"declare {name}: {show_array_type(access, wider, view.buffer.shape)}"
                is_below = isinstance(number, int) and number < 0
                error.help = declaration if is_below else f"{error.help}, or {declaration}"
            raise
        self.emitter.op("store", (value, *indices), attrs={"buffer": view.buffer.name})

    def _shared(self, targets: Sequence[ast.expr], node: ast.expr) -> BufferView | None:
        """`tile = vyre.shared(f32, 256)`; in a function each call has memory of its own, so none waits for another."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        try:
            if isinstance(node.func, ast.Attribute) and isinstance(
                self.owner(node.func), (BufferView, Value)
            ):
                return None  # x.vec(4), x[i].to(f32)
            function = self.expression(node.func)
        except Unsupported:
            return None  # which the call itself reports
        if not isinstance(function, Static) or function.value is not INTRINSICS["shared"]:
            return None
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            raise Unsupported(node, "shared memory needs a name", "assign it: tile = vyre.shared(f32, 256)")
        if len(node.args) not in (2, 3) or node.keywords:
            written = f"{self.source.text(node.func)}(f32, 256)"
            help = f"write {written}, or {written.replace('256', '(16, 16)')} for two dimensions"
            raise Unsupported(node, f"shared memory has a type and a size: {written}", help)
        scope = self.static(node.args[2], "who shares memory") if len(node.args) == 3 else "workgroup"
        if scope not in ("workgroup", "cluster"):
            called, element, *extents = map(self.source.text, (node.func, *node.args))
            help = 'write "workgroup", or leave it out'
            if isinstance(scope, int):
                help = f"write {called}({element}, ({', '.join(extents)})) for two dimensions"
            raise Unsupported(node.args[2], f"a workgroup or a cluster shares memory, not {scope!r}", help)
        dtype = self.element_type(node, node.args[0], node.args[1], "shared memory")
        size = self.static(node.args[1], "the size of shared memory")
        shape = size if isinstance(size, tuple) else (size,)
        if not 1 <= len(shape) <= MAX_DIMENSIONS:
            raise Unsupported(
                node.args[1], f"shared memory has 1 to {MAX_DIMENSIONS} dimensions, not {len(shape)}"
            )
        for extent in shape:
            if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
                along = " along a dimension" * (len(shape) > 1)
                raise Unsupported(
                    node.args[1], f"shared memory has 1 or more elements{along}, not {extent!r}"
                )
        name = text_name(targets[0].id)
        number, fresh = 0, name
        while fresh in self.program.buffers:
            number, fresh = number + 1, f"{name}_{number + 1}"
        buffer = Buffer(fresh, dtype, shape, AccessMode(scope), loc=self.source.location(node))
        self.program.buffers[fresh] = buffer
        return BufferView(buffer)

    def visit_assert(self, node: ast.Assert, rest: Sequence[ast.stmt]) -> None:
        if isinstance(node.msg, ast.JoinedStr):
            help = 'write assert p, "what went wrong", and print the values before it: print(f"i={i}")'
            raise Unsupported(
                node.msg, "the message of an assert is known when the kernel is translated", help
            )
        message = "" if node.msg is None else str(self.static(node.msg, "the message of an assert"))
        message = message or self.source.text(node.test)
        condition = self.condition(node.test)
        if isinstance(condition, Static):
            if not condition.value:
                raise Unsupported(node, f"{self.source.text(node.test)} is false: {message}")
            return
        self.emitter.op("assert", (condition,), attrs={"message": message})

    # --- leaving early

    def visit_return(self, node: ast.Return, rest: Sequence[ast.stmt]) -> bool:
        if self.returns:
            if node.value is None:
                raise Unsupported(node, "a function of kernels returns a value", "write return x")
            self.env[RESULT] = self.expression(node.value)
        elif node.value is not None:
            raise Unsupported(node, "a program returns nothing", self._stored_result(node.value))
        self.env[RETURN] = Static(True)
        return True

    def _stored_result(self, node: ast.expr) -> str:
        """The remedy for a value that a program returns: a store in the array that it writes, if there is only one."""
        arrays = [each for each in self.env.values() if isinstance(each, BufferView)]
        written = [each for each in arrays if each.buffer.access in (AccessMode.WRITE, AccessMode.READ_WRITE)]
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        if len(written) != len(parts) or any(
            isinstance(part, ast.Constant) and part.value is None for part in parts
        ):
            return "store the result in an array argument: y[i] = ..."
        stores = [
            f"{place_of(self, view, part)} = {self.source.text(part)}"
            for view, part in zip(written, parts, strict=True)
        ]
        return f"write {'; '.join(stores)}"

    def visit_break(self, node: ast.Break, rest: Sequence[ast.stmt]) -> bool:
        if BREAK not in self.env:
            raise Unsupported(
                node, "a static loop is unrolled, and has no break", "write a loop over range(...)"
            )
        self.env[BREAK] = Static(True)
        return True

    def visit_continue(self, node: ast.Continue, rest: Sequence[ast.stmt]) -> bool:
        self.env[CONTINUE] = Static(True)
        return True

    def _rest_unless_left(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Translate the rest after a statement that may have set flags, for invocations without one.  Returns whether there was any rest."""
        left: Value | None = None
        for flag in self._flags():
            if isinstance(flag, Static):
                if flag.value:
                    return True
                continue
            assert isinstance(flag, Value)
            left = flag if left is None else self.emitter.value("or", (left, flag), DataType.BOOL)
        if left is None or not rest:
            return False
        stays = self.emitter.value("not", (left,), DataType.BOOL)
        self._branches(node, stays, rest, (), is_guard=True)
        return True

    # --- if

    def visit_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
        try:
            condition = self.condition(node.test)
        except Unsupported as error:
            if error.node is node.test and error.message in (CONDITION_OF_SLICE, CONDITION_OF_LANES):
                choose = "vyre.where" if error.message == CONDITION_OF_SLICE else "vyre.select"
                written = as_where(self.source, node, choose)
                error.help = f"write {written}" if written is not None else error.help
            raise
        if isinstance(condition, Static):
            self.block(node.body if condition.value else node.orelse)
            return self._rest_unless_left(node, rest)
        if not leaves_block(node):
            self._branches(node, condition, node.body, node.orelse)
            return False
        if always_leaves(node.body):
            self._branches(node, condition, node.body, [*node.orelse, *rest])
            return True
        if node.orelse and always_leaves(node.orelse):
            self._branches(node, condition, [*node.body, *rest], node.orelse)
            return True
        self._branches(node, condition, node.body, node.orelse)
        return self._rest_unless_left(node, rest)

    def _branches(
        self,
        node: ast.stmt,
        condition: Value,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        is_guard: bool = False,
    ) -> None:
        """An `if` whose results are the names that its branches assign.  `is_guard`: it holds where no flag is set."""
        before = self.env
        blocks, envs = (Block(), Block()), []
        for block, statements in zip(blocks, (body, orelse), strict=True):
            with self._inner_names(), self.emitter.at(block):
                if is_guard and block is blocks[0]:
                    self.env |= {name: Static(False) for name in (BREAK, CONTINUE, RETURN) if name in before}
                self.block(statements)
                envs.append(self.env)
        self.emitter.loc = loc = self.source.location(node)
        self.emitter.is_hidden = is_guard
        first, second = envs
        results: list[tuple[str, Binding]] = []
        pairs: list[tuple[Value, Value]] = []
        for name in dict.fromkeys((*first, *second)):
            a, b = first.get(name), second.get(name)
            if a is b or (isinstance(a, Static) and a == b and type(a.value) is type(b.value)):
                if a is not None:
                    before[name] = a
                continue
            merged = self._merged(name, node, a, b, blocks, pairs)
            results.append((name, merged))
        if not pairs and not (blocks[0].ops and blocks[1].ops):
            if blocks[1].ops:
                condition = self.emitter.value("not", (condition,), DataType.BOOL)
            if blocks[0].ops or blocks[1].ops:
                self.emitter.op("if", (condition,), regions=blocks[:1] if blocks[0].ops else blocks[1:])
            before.update(results)
            return
        for block, values in zip(blocks, zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
            if values:
                with self.emitter.at(block):
                    self.emitter.loc = loc
                    self.emitter.op("yield", values)
        op = self.emitter.op("if", (condition,), [type_of(x) for x, _ in pairs], regions=blocks)
        remaining = list(op.results)
        for name, merged in results:
            if isinstance(merged, Unbound):
                before[name] = merged
                continue
            parts = [remaining.pop(0) for _ in leaves(merged)]
            for part in parts:
                part.name = _plain_name(name)
            before[name] = rebuild(merged, parts)

    def _merged(
        self,
        name: str,
        node: ast.stmt,
        a: Binding | None,
        b: Binding | None,
        blocks: tuple[Block, Block],
        pairs: list[tuple[Value, Value]],
    ) -> Binding:
        """Merge a name after two branches: its parts are added to `pairs`."""
        shown = _plain_name(name)
        missing = Unbound(
            f"{shown} has a value in one branch of this if only",
            self.source.location(node),
            "assign it before the if, or in both branches",
        )
        if a is None or b is None or isinstance(a, Unbound) or isinstance(b, Unbound):
            silent = any(isinstance(x, Unbound) and not x.reason for x in (a, b))
            return Unbound("") if silent else missing
        if isinstance(a, BufferView) or isinstance(b, BufferView):
            return Unbound(f"{shown} is another array in each branch of this if", self.source.location(node))
        one, other = leaves(a), leaves(b)
        if len(one) != len(other):
            return Unbound(
                f"{shown} is a tuple of another length in each branch of this if", self.source.location(node)
            )
        if classes_of(a) != classes_of(b):
            kinds = " and ".join(map(shown_tuple, (a, b)))
            return Unbound(
                f"{shown} has another type in each branch of this if: {kinds}", self.source.location(node)
            )
        found = []
        for x, y in zip(one, other, strict=True):
            pair = self._one_type(x, y, blocks, node)
            if pair is None:
                types = " and ".join(
                    str(known(type_of(v))) if isinstance(v, Value) else repr(getattr(v, "value", v))
                    for v in (x, y)
                )
                return Unbound(
                    f"{shown} has another type in each branch of this if: {types}",
                    self.source.location(node),
                    f"convert it where it is assigned, {shown} = f32(...), or take another name in one branch",
                    tuple(type_of(v) for v in (x, y) if isinstance(v, Value)),
                )
            found.append(pair)
        pairs += found
        return a

    def _one_type(
        self, x: Any, y: Any, blocks: tuple[Block, Block], node: ast.stmt
    ) -> tuple[Value, Value] | None:
        """Both as values of one type; constants stand in their blocks.  None for what has none."""
        try:
            if isinstance(x, Static) and isinstance(y, Value):
                with self.emitter.at(blocks[0]):
                    return self.emitter.adapted(x, type_of(y), node), y
            with self.emitter.at(blocks[0]):
                first = x if isinstance(x, Value) else self.emitter.constant(x, node)
            with self.emitter.at(blocks[1]):
                second = y if isinstance(y, Value) else self.emitter.adapted(y, type_of(first), node)
            unify(type_of(first), type_of(second))
        except (TypeMismatch, Unsupported):
            return None
        return first, second

    # --- loops

    def visit_while(self, node: ast.While, rest: Sequence[ast.stmt]) -> bool:
        if node.orelse:
            raise Unsupported(node.orelse[0], *LOOP_ELSE)
        with self._loop_of_its_own(node):
            carried = self._carried(node, node.body)
            self._while(node, carried, lambda: self.condition(node.test), node.body, lambda: None)
        return self._rest_unless_left(node, rest)

    def visit_for(self, node: ast.For, rest: Sequence[ast.stmt]) -> bool:
        if node.orelse:
            raise Unsupported(node.orelse[0], *LOOP_ELSE)
        if not self._is_range(node.iter):
            try:
                items = self._static_items(node.iter)
            except Unsupported as error:
                error.help = self._loop_over_slice(node) or error.help
                raise
            self._unrolled(node, items)
            return self._rest_unless_left(node, rest)
        if not isinstance(node.target, ast.Name):
            raise Unsupported(node.target, "the counter of a loop is one name")
        assert isinstance(node.iter, ast.Call)
        with self._loop_of_its_own(node):
            span = loop_range(self, node.iter)
            if leaves_loop(node.body):
                self._counted_while(node, span)
            else:
                self._for(node, span)
        self.env[node.target.id] = Unbound(
            f"{node.target.id} is the counter of a loop, and has no value after it",
            self.source.location(node),
            f"keep it in a name of its own: last = 0 before the loop, and last = {node.target.id} in it",
        )
        return self._rest_unless_left(node, rest)

    @contextmanager
    def _loop_of_its_own(self, node: ast.For | ast.While) -> Iterator[None]:
        """A loop has its own flag for break; names that only it assigns have no value behind it."""
        outer_break = self.env.pop(BREAK, None)
        try:
            yield
        finally:
            self.env.pop(BREAK, None)
            if outer_break is not None:
                self.env[BREAK] = outer_break
            for name in assigned(node.body):
                if name not in self.env:
                    reason = f"{name} gets its value in a loop, which may run no round; give it one before the loop"
                    self.env[name] = Unbound(reason, self.source.location(node))

    def _loop_over_slice(self, node: ast.For) -> str | None:
        """The remedy for a loop over a slice, or over enumerate of one; None for another loop."""
        is_counted = isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Tuple)
        over = node.iter.args[0] if is_counted and len(node.iter.args) == 1 else node.iter  # type: ignore[attr-defined]
        value = self.expression(over)
        if not isinstance(value, Value) or slices.slice_type(type_of(value)) is None:
            return None
        targets = [*map(self.source.text, node.target.elts)] if isinstance(node.target, ast.Tuple) else []
        free = next((name for name in "ijk" if name not in self.env), "at")
        names = targets if len(targets) == 2 else [free, self.source.text(node.target)]
        loop = slices.loop_over(value, names)
        text = self.source.text(over)
        if targets:
            return f"write {loop}" if loop else None
        return f"write vyre.sum({text})" + (f", or {loop}" if loop else ", or another reduction")

    def _loop_over_array(self, node: ast.expr, view: BufferView) -> str | None:
        """The loop over indices of an array for one over its elements, its rows, or the elements of these."""
        loops = [
            each for each in ast.walk(self.source.tree) if isinstance(each, ast.For) and each.iter is node
        ]
        if not loops or not isinstance(loops[0].target, ast.Name):
            return None
        name, array, target = view.buffer.name, self.source.text(node), self.source.text(loops[0].target)
        first = free_name(self, "k")
        head = f"for {first} in range(len({array})):"
        if view.buffer.dimensions == 1:
            return f"write {head} {target} = {name}[{first}]"
        inner = loops[0].body[0]
        is_nested = (
            isinstance(inner, ast.For) and isinstance(inner.iter, ast.Name) and inner.iter.id == target
        )
        if view.buffer.dimensions == 2 and is_nested and len(loops[0].body) == 1:
            assert isinstance(inner, ast.For)
            second = next(n for n in "jlmn" if n != first and n not in self.env)
            within = f"for {second} in range({name}.shape[1]):"
            return f"write {head} and in it {within} {self.source.text(inner.target)} = {name}[{first}, {second}]"
        rest = ", :" * (view.buffer.dimensions - 1)
        return f"write {head} {target} = {name}[{first}{rest}]"

    def _is_range(self, node: ast.expr) -> bool:
        function = self.expression(node.func) if isinstance(node, ast.Call) else None
        return isinstance(function, Static) and function.value is range

    def _static_items(self, node: ast.expr) -> list[Any]:
        """Values of a loop over `static(...)` or a tuple.  Raises Unsupported."""
        binding = self.expression(node)
        if isinstance(binding, tuple):
            return list(binding)
        if not isinstance(binding, Static):
            what = "an array" if isinstance(binding, BufferView) else "this"
            help = self._loop_over_array(node, binding) if isinstance(binding, BufferView) else None
            raise Unsupported(
                node, f"a loop over {what} is not supported", help or "write: for i in range(len(x))"
            )
        try:
            items = [Static(constant_of(item)) for item in islice(binding.value, MAX_UNROLLED + 1)]
        except TypeError:
            raise Unsupported(
                node, f"{self.source.text(node)} is nothing to go through", "write range(...)"
            ) from None
        if len(items) > MAX_UNROLLED:
            raise Unsupported(
                node,
                f"more than {MAX_UNROLLED} rounds are too many to unroll",
                "write range(...) without static",
            )
        return items

    def visit_listcomp(self, node: ast.ListComp) -> Binding:
        """`[x[i + k] for k in range(4)]`: a tuple, of as many as is known now."""
        (generator, *others) = node.generators
        if others or generator.ifs or generator.is_async:
            raise Unsupported(node, "a list is made by one for, without if", "write a for loop")
        items, outer = self._static_items(generator.iter), self.env
        try:
            self.env = dict(outer)  # the names of a comprehension are its own
            return tuple([self._item_of_list(node, generator.target, item) for item in items])
        finally:
            self.env = outer

    def _item_of_list(self, node: ast.ListComp, target: ast.expr, item: Any) -> Binding:
        self.assign(target, item, node)
        return self.expression(node.elt)

    def _unrolled(self, node: ast.For, items: Iterable[Any]) -> None:
        outer = {name: self.env.pop(name) for name in (BREAK, CONTINUE) if name in self.env}
        before = len(self.diagnostics)
        try:
            for item in items:
                self.env[CONTINUE] = Static(False)
                self.assign(node.target, item, node.iter)
                self.block(node.body)
                if isinstance(self.env.get(RETURN), Value):
                    help = "write range(...) without static"
                    raise Unsupported(node, "a static loop is unrolled, and cannot be left", help)
        finally:
            self.env.pop(CONTINUE, None)
            self.env |= outer
            # an error of each round is one
            rounds = {(d.message, str(d.loc)): d for d in reversed(self.diagnostics[before:])}
            self.diagnostics[before:] = reversed(rounds.values())

    def _for(self, node: ast.For, span: LoopRange) -> None:
        assert isinstance(node.target, ast.Name)
        carried = self._carried(node, node.body)
        initial = [value for _, binding in carried for value in leaves(binding)]
        counter = self.emitter.fresh(span.counter_type, text_name(node.target.id))
        args = self._arguments_for(initial)
        block = Block((counter, *args))
        with self._inner_names(), self.emitter.at(block):
            self._bind(carried, args)
            self.env[CONTINUE] = Static(False)
            self.env[node.target.id] = span.item(self, node, counter)
            self.block(node.body)
            self._yield(node, carried, args)
        bounds = zip(BOUND_NAMES, (span.lower, span.upper, span.step), strict=True)
        attrs = {name: bound.value if isinstance(bound, Static) else None for name, bound in bounds}
        self.emitter.loc = self.source.location(node)
        op = self.emitter.op("for", (*span.values, *initial), [type_of(a) for a in args], attrs, (block,))
        self._note_sums(initial, args, op)
        self._bind(carried, list(op.results))

    def _counted_while(self, node: ast.For, span: LoopRange) -> None:
        """A loop over a range that may be left: a while with a counter."""
        assert isinstance(node.target, ast.Name)
        name, counter = node.target.id, f"({node.target.id})"
        self.env[counter] = self._as_bound(span.lower, span.counter_type, node)
        carried = self._carried(node, node.body, extra=[counter])

        def condition() -> Value:
            at = self.as_value(self.env[counter], node.iter)
            return self.emitter.value(
                "lt", (at, self._as_bound(span.upper, type_of(at), node)), DataType.BOOL
            )

        def begin_round() -> None:
            at = self.as_value(self.env[counter], node.iter)
            self.env[name] = span.item(self, node, at)
            # the next counter is computed first, since the body may skip what is behind it
            step = self._as_bound(span.step, type_of(at), node)
            self.env[counter] = self.emitter.value("add", (at, step), type_of(at))

        self._while(node, carried, condition, node.body, begin_round)
        del self.env[counter]

    def _as_bound(self, bound: Static | Value, dtype: AnyType, node: ast.For) -> Value:
        return bound if isinstance(bound, Value) else self.emitter.adapted(bound, dtype, node)

    def _while(
        self,
        node: ast.While | ast.For,
        carried: list[tuple[str, Binding]],
        condition: Any,
        body: Sequence[ast.stmt],
        begin: Any,
    ) -> None:
        initial = [value for _, binding in carried for value in leaves(binding)]
        args, inner = self._arguments_for(initial), self._arguments_for(initial)
        blocks = Block(tuple(args)), Block(tuple(inner))
        with self._inner_names(), self.emitter.at(blocks[0]):
            self._bind(carried, args)
            self._enter_scope()
            self.emitter.op("condition", (self._goes_on(node, condition),))
        with self._inner_names(), self.emitter.at(blocks[1]):
            self._bind(carried, inner)
            self.env[CONTINUE] = Static(False)
            if BREAK in self.env:
                self.env[BREAK] = Static(False)
            if isinstance(self.env.get(RETURN), Value):
                self.env[RETURN] = Static(False)  # else the condition would not have held
            begin()
            self.block(body)
            self._yield(node, carried, inner)
        self.emitter.loc = self.source.location(node)
        self.emitter.is_hidden = isinstance(node, ast.While)  # its line is that of its condition
        op = self.emitter.op("while", initial, [type_of(a) for a in args], regions=blocks)
        self._note_sums(initial, inner, op)
        self._bind(carried, list(op.results))

    def _arguments_for(self, initial: Sequence[Value]) -> list[Value]:
        """The arguments of a loop's block."""
        args = [self.emitter.fresh(type_of(value), value.name) for value in initial]
        is_open = self.emitter.open_beginnings.__contains__
        self.emitter.open_beginnings |= {a for a, value in zip(args, initial, strict=True) if is_open(value)}
        return args

    def _note_sums(self, initial: Sequence[Value], args: Sequence[Value], loop: Op) -> None:
        """Note which results of a loop add up from a literal."""
        ends = loop.regions[-1].terminator
        carried = zip(initial, args, ends.operands if ends else (), loop.results, strict=False)
        for value, arg, end, result in carried:
            if value in self.emitter.open_beginnings and adds_to(end, arg, self.emitter.open_sums):
                self.emitter.open_sums.add(result)

    def _goes_on(self, node: ast.While | ast.For, condition: Any) -> Value:
        """The condition of a loop, asked only where no flag is set."""
        left: Value | None = None
        for flag in (self.env.get(BREAK), self.env.get(RETURN)):
            if isinstance(flag, Value):
                left = flag if left is None else self.emitter.value("or", (left, flag), DataType.BOOL)
        if left is None:
            return self._as_flag(condition(), node)
        block = Block()
        with self.emitter.at(block):
            holds = self._as_flag(condition(), node)
        if all(op.definition.is_pure for op in block.ops):
            self.emitter.block.ops += block.ops
            stays = self.emitter.value("not", (left,), DataType.BOOL)
            return self.emitter.value("and", (stays, holds), DataType.BOOL)
        with self.emitter.at(block):
            self.emitter.op("yield", (holds,))
        ended = Block()
        with self.emitter.at(ended):
            self.emitter.op("yield", (self.emitter.constant(Static(False), node),))
        return self.emitter.op("if", (left,), (DataType.BOOL,), regions=(ended, block)).results[0]

    def _as_flag(self, condition: Static | Value, node: ast.stmt) -> Value:
        return condition if isinstance(condition, Value) else self.emitter.constant(condition, node)

    def _carried(
        self, node: ast.stmt, body: Sequence[ast.stmt], extra: Sequence[str] = ()
    ) -> list[tuple[str, Binding]]:
        """The names that a loop carries from round to round, each with the values that it begins with."""
        names = [name for name in assigned(body) if name in self.env]
        names += [
            n for n in updated(body) if isinstance(self.env.get(n), (Value, LocalArray)) and n not in names
        ]
        if breaks(body):
            self.env[BREAK] = Static(False)
            names.append(BREAK)
        if returns(body):
            names.append(RETURN)
            if self.returns and returned_values(body):  # a return without a value is an error of its own
                self._begin_result(node, body)
                names.append(RESULT)
        carried: list[tuple[str, Binding]] = []
        for name in [*extra, *names]:
            binding = self.env[name]
            if isinstance(binding, Unbound):
                continue
            parts = leaves(binding)
            if any(isinstance(part, BufferView) for part in parts):
                raise Unsupported(node, f"{name} is an array, and a loop cannot make it another one")
            if all(isinstance(part, Value) or _is_constant(part) for part in parts):
                values = [p if isinstance(p, Value) else self._begin(p, name, node) for p in parts]
                carried.append((name, rebuild(binding, values)))
        return carried

    def _begin(self, static_value: Any, name: str, node: ast.stmt) -> Value:
        value = self.emitter.constant(static_value, node)
        value.name = _plain_name(name)
        self.emitter.open_beginnings.add(value)
        return value

    def _begin_result(self, node: ast.stmt, body: Sequence[ast.stmt]) -> None:
        """A function may return in a loop: until then its result is anything."""
        if isinstance(self.env.get(RESULT), (Value, tuple)):
            return
        returned = returned_values(body)[0]
        self.env[RESULT] = self._blank_result(node, returned)

    def _blank_result(self, node: ast.stmt, returned: ast.expr) -> Any:
        """Anything, of the form of what is returned: a tuple that is written out or made of its class, or one value."""
        if isinstance(returned, ast.Tuple):
            return tuple(self.emitter.blank(node) for _ in returned.elts)
        cls: Any = named_class_called(self, returned)
        return (
            self.emitter.blank(node)
            if cls is None
            else cls._make(self.emitter.blank(node) for _ in cls._fields)
        )

    def _bind(self, carried: list[tuple[str, Binding]], values: Sequence[Value]) -> None:
        remaining = list(values)
        for name, binding in carried:
            parts = [remaining.pop(0) for _ in leaves(binding)]
            for part in parts:
                part.name = _plain_name(name)
            self.env[name] = rebuild(binding, parts)

    def _yield(self, node: ast.stmt, carried: list[tuple[str, Binding]], args: Sequence[Value]) -> None:
        """Give the carried names to the next round."""
        values: list[Value] = []
        remaining = list(args)
        for name, binding in carried:
            now, shown = self.env[name], _plain_name(name)
            parts = [now] * len(leaves(binding)) if isinstance(now, Unbound) else leaves(now)
            wanted = [remaining.pop(0) for _ in leaves(binding)]
            if isinstance(now, Unbound) and not now.reason:
                values += wanted
                continue
            if len(parts) != len(wanted):
                raise Unsupported(node, f"{shown} is a tuple of another length at the end of a round")
            if not isinstance(now, Unbound) and classes_of(now) != classes_of(binding):
                message = f"{shown} is {shown_tuple(binding)} when the loop begins, and {shown_tuple(now)} at the end of a round"
                raise Unsupported(node, message)
            for part, arg in zip(parts, wanted, strict=True):
                values.append(self._carried_value(node, shown, part, arg))
        if values:
            self.emitter.loc = self.source.location(node)
            self.emitter.op("yield", values)

    def _carried_value(self, node: ast.stmt, name: str, part: Any, arg: Value) -> Value:
        if isinstance(part, Unbound):
            others = [each for each in part.types if known(each) is not known(type_of(arg))]
            if others and isinstance(known(others[0]), DataType):
                raise self._changed_type(node, name, known(type_of(arg)), known(others[0]))
            raise Unsupported(node, part.reason, part.help)
        try:
            if isinstance(part, Static):
                return self.emitter.adapted(part, type_of(arg), node)
            if isinstance(part, Value):
                unify(type_of(arg), type_of(part))
                return part
        except TypeMismatch as mismatch:
            before, after = (
                known(type_of(arg)),
                known(type_of(part)) if isinstance(part, Value) else mismatch.types[0],
            )
            raise self._changed_type(node, name, before, after) from None
        raise Unsupported(node, f"{name} is no value at the end of a round")

    def _changed_type(self, node: ast.stmt, name: str, before: AnyType, after: AnyType) -> Unsupported:
        """The error for a name whose type in a loop is not the one before it, at the assignment in the loop."""
        message = f"{name} is {before} when the loop begins, and {after} at the end of a round"
        begins, changes = self._assignments(name, node)
        help = f"begin with {after}(...), or convert what is assigned"
        if isinstance(after, DataType) and after.is_vec:
            help = f"begin with a vector: vyre.splat({after.element}(...), {after.lanes})"
        elif isinstance(after, DataType) and after.is_slice and None not in after.extents:
            help = f"begin with a block: vyre.zeros({after.extents}, {after.element})"
        elif isinstance(after, DataType) and after.is_slice:
            help = "begin with a row of that length, such as x[0, :] * 0.0"
        elif (
            isinstance(before, DataType) and isinstance(after, DataType) and before.is_float > after.is_float
        ):
            help = f"convert what is assigned, {name} = {before}({self.source.text(changes.value) if changes else '...'})"
        elif begins is not None:
            help = f"begin with {name} = {after}({self.source.text(begins.value)})"
        error = Unsupported(changes or node, message, help)
        if begins is not None:
            error.notes.append((f"{name} begins here", self.source.location(begins)))
        return error

    def _assignments(self, name: str, loop: ast.stmt) -> tuple[ast.Assign | None, ast.Assign | None]:
        """The last assignment of a name before a loop, and the first in it."""
        every = [
            each
            for each in ast.walk(self.source.tree)
            if isinstance(each, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
        ]
        before = [each for each in every if each.lineno < loop.lineno]
        last = loop.end_lineno or loop.lineno
        inside = [each for each in every if loop.lineno <= each.lineno <= last]
        by_line = attrgetter("lineno")
        return max(before, key=by_line, default=None), min(inside, key=by_line, default=None)


def adds_to(value: Value, start: Value, sums: Collection[Value]) -> bool:
    """Whether a value is a sum or a product of `start`, or of `sums`, on some way through branches."""
    op = value.owner
    if not isinstance(op, Op) or value in sums:
        return value in sums
    if op.name in ("add", "mul"):
        return any(operand is start or adds_to(operand, start, sums) for operand in op.operands)
    if op.name == "if":
        ends = [block.terminator for block in op.regions]
        number = op.results.index(value)
        return any(end is not None and adds_to(end.operands[number], start, sums) for end in ends)
    return op.name == "select" and any(adds_to(operand, start, sums) for operand in op.operands)


def _stored(statement: ast.stmt) -> set[str]:
    """The names that a statement may assign, however deep it nests."""
    inner = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return {name.id for name in inner if isinstance(name.ctx, ast.Store)}


def _is_constant(part: Any) -> bool:
    return isinstance(part, Static) and isinstance(part.value, (bool, int, float))


def _plain_name(name: str) -> str:
    """A name for the text: flags have their word."""
    return text_name(name.strip("()"))


def _ids_of_axes(node: ast.expr, help: str | None) -> str | None:
    """The remedy for `cuda.grid(2)`, ids along as many axes; None for another call."""
    number = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
    if (
        not isinstance(number, ast.Constant)
        or type(number.value) is not int
        or number.value not in (2, 3)
        or not isinstance(node, ast.Call)
    ):
        return None
    if dotted_name(node.func).rpartition(".")[2] not in ("grid", "gridsize"):
        return None
    word = "global_id" if "global_id" in (help or "") else "global_size"
    return f"write {', '.join(f'vyre.{word}({axis})' for axis in range(number.value))}"
