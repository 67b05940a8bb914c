"""Packs that are loaded: their functions by name, which are called as those that they were made of.

kernel        pack["scale"][grid](x, y)        in place, on the caller's arrays
pipeline      pack["both"](x, y)
executable    pack["scale"]({"x": x}, grid)    as what `vyre_opt.compile` returns
on arrays     pack["softmax"](x)               a new array
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ..driver.executable import Executable
from ..driver.in_place import InPlace, Scalar
from ..execution.arguments import encoder_of, in_order
from ..ir.diagnostics import Source
from ..ir.tracebacks import CallerError, CallTypeError, hide_own_frames
from ..pack_files.format import Pack, read_pack
from .decoding import decoding, texts
from .executables import PackedCallable
from .ir_data import Decoder, decoded_source
from .pack_target import check_version, gpus_of
from .targets import PackTargets

__all__ = ["LoadedPack", "PackedFunction", "PackedKernel", "load_pack"]


def load_pack(path: Any, trusted: str | Iterable[str] | None = None) -> LoadedPack:
    """See `vyre_opt.packs.load`."""
    pack = read_pack(path)
    if trusted is not None:
        from ..pack_files.trust import check_trust

        check_trust(pack, trusted)
    return LoadedPack(pack)


class LoadedPack(Mapping[str, Any]):
    """The functions of a pack by name.  `digest`: of the pack, which `trusted=` takes."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self.digest = pack.digest
        self._names = [name.partition("/")[2] for name in pack.names("function")]
        self._functions: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<pack {self._pack.name}: {', '.join(self._names)}>"

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Any:
        """Raises PackError for a part that is damaged, and for a machine that the pack has no code for; KeyError for another name."""
        function = self._functions.get(name)
        if function is None:
            if name not in self._names:
                raise KeyError(f"{self._pack.name} has no function {name}; it has {', '.join(self._names)}")
            function = self._functions[name] = self._function(name)
        return function

    def _function(self, name: str) -> Any:
        part = f"functions/{name}"
        row = self._pack.read_json(part)
        with decoding(self._pack, part):
            if row["name"] != name or row["kind"] not in ("arrays", "program", "pipeline"):
                raise ValueError(f"it is of {row['name']}, a {row['kind']}")
            if not gpus_of(self._pack, name):
                self._targets.cpu.plan_of(name)  # that there is no code for this machine is said now
            if row["kind"] == "arrays":
                from .array_functions import PackedArrayFunction

                return PackedArrayFunction(row, self._targets)
            executable = PackedCallable(row, self._targets)
            if row["arguments"] is None:
                return executable
            return (PackedKernel if row["kind"] == "program" else PackedFunction)(row, executable)

    @cached_property
    def _targets(self) -> PackTargets:
        check_version(self._pack)
        return PackTargets(self._pack, Decoder(self._source_of))

    def _source_of(self, key: str) -> Source:
        name = f"sources/{key}"
        text = self._pack.read(name)
        with decoding(self._pack, name):
            return decoded_source(self._pack.about_part(name), text)


class _Called:
    """Signature by which arguments of calls by name are put in order."""

    def __init__(self, name: str, arguments: list[str], defaults: Mapping[str, Any]) -> None:
        from inspect import Parameter, Signature

        self.__name__ = name
        kind, empty = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        parameters = [Parameter(each, kind, default=defaults.get(each, empty)) for each in arguments]
        self.__signature__ = Signature(parameters)

    def __call__(self) -> None:
        raise AssertionError("only its signature is asked for")


class _InPlace(InPlace):
    """Calls in place of the executable for where the arrays are."""

    def __init__(
        self, executable: PackedCallable, positions: Sequence[int], scalars: Sequence[Scalar]
    ) -> None:
        super().__init__(lambda target: executable.of(()), None, positions, scalars)
        self._packed = executable

    def executable(self, arrays: Sequence[Any]) -> Executable:
        return self._packed.of(arrays)


class PackedFunction:
    """A pipeline of a pack that was a function of Python: a call runs it in place on the caller's arrays."""

    def __init__(self, row: Mapping[str, Any], executable: PackedCallable) -> None:
        self.executable = executable
        self._name, self._arguments = executable.name, texts(row["arguments"])
        signature = executable.signature
        places = {name: number for number, name in enumerate(self._arguments)}
        scalars = [(n, places[n], encoder_of(self._name, p)) for n, p in sorted(signature.params.items())]
        positions = [places[buffer.name] for buffer in signature.parameters]
        self.in_place = _InPlace(executable, positions, scalars)
        self._defaults = dict[str, Any](row["defaults"])

    def __repr__(self) -> str:
        return f"<packed {self.executable.signature.owner} {self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._run(args, kwargs, None)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any) -> None:
        try:
            if kwargs or len(args) != len(self._arguments):
                args = in_order(self._called, args, kwargs)
            self.in_place(args, grid)
        except CallerError as error:
            hide_own_frames(error)
            raise

    @cached_property
    def _called(self) -> Callable[..., Any]:
        return _Called(self._name, self._arguments, self._defaults)


class PackedKernel(PackedFunction):
    """A kernel of a pack: `kernel[grid](arguments)`, or `kernel(arguments)` for one that fixes its grid."""

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        is_whole = type(grid) is int or (type(grid) is tuple and {*map(type, grid)} == {int})
        if not is_whole:
            from ..execution.inputs import check_grid

            grid = check_grid(self.executable.program, grid)

        def launch(*args: Any, **kwargs: Any) -> None:
            self._run(args, kwargs, grid)

        return launch

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        grid = self.executable.program.grid
        if grid is None:
            raise CallTypeError(f"say how many workgroups run: {self._name}[grid](...)")
        self._run(args, kwargs, grid)
