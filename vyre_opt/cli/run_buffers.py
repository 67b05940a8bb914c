"""Reads the buffers of a run from files, and writes outputs to files."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..driver import recording_folder
from ..driver.binding import CallSyntax, check_names
from ..driver.compile import compile_module
from ..driver.pipeline import PipelineExecutable
from ..driver.program import ProgramExecutable
from ..execution.arrays import storage_type
from ..execution.cache.store import LIMIT_VARIABLE
from ..execution.dispatcher import Dispatcher, OutputAlloc
from ..execution.limits import compiling
from ..execution.params import NO_PARAMS
from ..execution.shapes import argument_shape, array_of
from ..ir.program import Buffer, Module
from .errors import ToolError, write_stdout_bytes
from .text_files import read_bytes, write_file

if TYPE_CHECKING:
    from ..passes.bisect import BisectLimit

__all__ = [
    "SHELL",
    "AnyExecutable",
    "arguments",
    "compile_entry",
    "disable_cache",
    "read_inputs",
    "rebind",
    "record_faults",
    "write",
]

Pairs = Sequence[tuple[str, str]]
AnyExecutable = ProgramExecutable | PipelineExecutable

SHELL = CallSyntax(
    entry="--entry",
    input="--in {name}",
    give_input="--in {name}=FILE",
    length="--len {name}={value}",
    give_length="--len {name}={value}, or its contents with --in",
    length_alone="--len {name}={value}",
    grid="--grid={value}",
    any_grid="X[,Y,Z]",
    give_spec="--spec {name}=VALUE",
    give_param="--param {name}=VALUE",
    shape=",",
)


def disable_cache() -> None:
    """Have this process keep no compiled program on disk, and read none, from now on."""
    os.environ[LIMIT_VARIABLE] = "0"


def record_faults(folder: str) -> None:
    """Keep calls of this process that fault, from now on."""
    os.environ[recording_folder.VARIABLE] = folder


def compile_entry(
    module: Module,
    entry: str | None,
    target: str | Dispatcher,
    specs: Pairs,
    passes: str = "",
    bisect: BisectLimit | None = None,
    debug_info: bool = False,
) -> AnyExecutable:
    """The program or pipeline that --entry names, with messages in terms of the command line.

    Raises BadInputs, DiagnosticError.
    """
    with compiling():
        return compile_module(module, entry, target, dict(specs), passes, SHELL, bisect, debug_info)


def read_inputs(executable: AnyExecutable, inputs: Pairs) -> dict[str, np.ndarray]:
    """The arrays of the files of --in by the names of buffers, in the shapes that the files give them.

    Raises ToolError and BadInputs for a name that is no buffer, and a file that does not fit it.
    """
    signature = executable.signature
    files = check_names(signature, _once(inputs, "--in"), signature.parameters, SHELL.input, signature.noun)
    buffers = {b.name: b for b in signature.parameters}
    return {name: _read(buffers[name], path) for name, path in files.items()}


def arguments(
    executable: AnyExecutable,
    files: Mapping[str, np.ndarray],
    outputs: Pairs,
    lengths: Pairs,
    params: Mapping[str, int] = NO_PARAMS,
) -> list[Any]:
    """An array for each buffer, in order: from a file, or zeros; `OutputAlloc` for one inside a pipeline.

    `files`: from `read_inputs`.  `params`: the words of the runtime scalars.
    The arrays have the shapes of their buffers, and one dimension more for the lanes of vectors.
    Raises ToolError and BadInputs for a name that is no buffer, and for what is missing.
    """
    signature = executable.signature
    check_names(signature, _once(outputs, "--out"), signature.outputs, "--out {name}", "output")
    several = {b.name for b in signature.buffers if b.dimensions > 1}
    counts = {
        name: _extents(name, text) if name.removeprefix("@") in several else _count(name, text)
        for name, text in _once(lengths, "--len").items()
    }
    buffers = {b.name: b for b in signature.parameters}
    arrays = {}
    for name, array in files.items():
        lanes = buffers[name].dtype.lanes
        if name in several:
            arrays[name] = _shaped(buffers[name], array, counts.get(name))
            continue
        arrays[name] = array.reshape(-1, lanes) if lanes > 1 else array.reshape(-1)
    bound = executable.arguments(arrays, counts, params)
    return [_zeros(b, a) if b.name in buffers else a for b, a in zip(signature.buffers, bound, strict=True)]


def rebind(
    executable: AnyExecutable, previous: AnyExecutable, arguments: Sequence[Any], params: Mapping[str, int]
) -> list[Any]:
    """The `arguments` of `previous` for the same entry under other passes, which may have removed buffers."""
    arrays: dict[str, Any] = {}
    counts: dict[str, Any] = {}
    for buffer, argument in zip(previous.signature.buffers, arguments, strict=True):
        if not isinstance(argument, OutputAlloc):
            arrays[buffer.name] = argument
        elif buffer.count is None:
            counts[buffer.name] = argument.shape or argument.count
    return executable.arguments(arrays, counts, params)


def write(array: np.ndarray, path: str) -> None:
    """Write an output: as .npy by that suffix, else as raw little-endian elements."""
    if path.endswith(".npy"):
        memory = io.BytesIO()
        np.save(memory, array, allow_pickle=False)
        content = memory.getvalue()
    else:
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    if path == "-":
        write_stdout_bytes(content)
    else:
        write_file(content, path)


def _once(pairs: Pairs, option: str) -> dict[str, str]:
    """The pairs as a dict.  Raises ToolError for a name that is there twice."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise ToolError(f"{option} {name}: given twice")
        values[name] = value
    return values


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        parts = re.findall(r"\d+", text)
        meant = ",".join(parts) if re.fullmatch(r"\W*\d+(\s*[x*/;:)\]( ,]+\s*\d+)*\W*", text) else "1024"
        raise ToolError(
            f"--len {name}: {text!r} is not a count of elements\nhelp: write --len {name}={meant}"
        )
    return int(text)


def _extents(name: str, text: str) -> tuple[int, ...]:
    """The extents that `--len x=8,64` gives."""
    if not re.fullmatch(r"[\d,]*", text):
        _count(name, text)
    return tuple(_count(name, part) for part in text.split(","))


def _shaped(buffer: Buffer, array: np.ndarray, extents: Any) -> np.ndarray:
    """The contents of a file for a buffer of several dimensions; one without a shape takes that of --len, or of the
    declaration.  Raises BadInputs."""
    if array.ndim > 1:
        return array
    if isinstance(extents, tuple) and prod(extents) * buffer.dtype.lanes == array.size:
        shape = extents
    else:
        shape = argument_shape(buffer, array.tobytes(), SHELL.input.format(name=buffer.name))
    return array.reshape(array_of(buffer, shape))


def _zeros(buffer: Buffer, argument: Any) -> Any:
    """Zeros for an `OutputAlloc`: then elements that nothing writes are the same on every target."""
    if not isinstance(argument, OutputAlloc):
        return argument
    try:
        return np.zeros(array_of(buffer, argument.shape or (argument.count,)), _stored(buffer))
    except (MemoryError, ValueError):
        raise ToolError(f"not enough memory for @{buffer.name}, {argument.count} elements") from None


def _stored(buffer: Buffer) -> np.dtype:
    dtype = storage_type(buffer.dtype)
    if dtype is None:
        raise ToolError(f"buffer @{buffer.name}: no file format here holds {buffer.dtype}")
    return dtype


def _read(buffer: Buffer, path: str) -> np.ndarray:
    """The contents of a buffer, C-contiguous, in the shape of the file, flat if it gives none.  Raises ToolError."""
    stored = _stored(buffer)
    array_of_format = _ARRAYS.get(os.path.splitext(path)[1].lower())
    if array_of_format and stored.itemsize > 1:  # bytes may be those of any file
        converted = f"{array_of_format.format(repr(path))}.astype({stored.name!r})"
        raise ToolError(
            f"--in {buffer.name}: {path} is no .npy file, and its bytes are no elements of {buffer.dtype}; save one, and pass {path}.npy: "
            f"numpy.save({path + '.npy'!r}, {converted})"
        )
    raw = read_bytes(path)
    lanes = buffer.dtype.lanes
    if path.endswith(".npy"):
        try:
            loaded = _npy(raw)
        except ValueError as error:
            raise ToolError(f"--in {buffer.name}: {path} is not a .npy file of numbers: {error}") from None
        if loaded.dtype.newbyteorder("=") != stored:
            converted = f"numpy.save({path!r}, numpy.load({path!r}).astype({stored.name!r}))"
            is_number = buffer.dtype.element.is_float == (
                stored.kind == "f"
            )  # not the bits of one, as of bf16
            raise ToolError(
                f"--in {buffer.name}: {path} holds {loaded.dtype}, @{buffer.name} is {buffer.dtype}{_stored_as(buffer, stored)}"
                + (f"; convert it: {converted}" if is_number else "")
            )
        # not `ascontiguousarray`, which makes an array of no dimensions one of one
        array = np.asarray(loaded, dtype=stored, order="C")
        if array.size % lanes:
            raise ToolError(
                f"--in {buffer.name}: {path} has {array.size} scalars, which no count of {buffer.dtype} has"
            )
    else:
        size = stored.itemsize * lanes
        if len(raw) % size:
            raise ToolError(
                f"--in {buffer.name}: {path} has {len(raw)} bytes, not a multiple of {buffer.dtype}'s {size}"
            )
        # any byte but zero is true; a bool array that holds other bytes than 0 and 1 is undefined in NumPy
        is_bool = stored == np.bool_
        array = np.frombuffer(raw, np.uint8) != 0 if is_bool else np.frombuffer(raw, stored.newbyteorder("<"))
        array = array.astype(stored, copy=False)
    return array


_ARRAYS = {
    ".csv": "numpy.loadtxt({}, delimiter=',')", ".tsv": "numpy.loadtxt({}, delimiter='\\t')", ".txt": "numpy.loadtxt({})",
    ".json": "numpy.array(json.load(open({})))", ".npz": "numpy.load({})['arr_0']", ".png": "numpy.asarray(PIL.Image.open({}))",
    ".jpg": "numpy.asarray(PIL.Image.open({}))", ".jpeg": "numpy.asarray(PIL.Image.open({}))", ".pt": "torch.load({}).numpy()",
    ".pth": "torch.load({}).numpy()", ".safetensors": "safetensors.numpy.load_file({})['weight']", ".mat": "scipy.io.loadmat({})['x']",
    ".parquet": "pandas.read_parquet({}).to_numpy()", ".h5": "h5py.File({})['x'][...]", ".hdf5": "h5py.File({})['x'][...]",
}  # fmt: skip
"""Arrays of files of other formats, by their suffixes, whose bytes are no elements."""

MOST_SAID = 200  # characters of a shape in a message

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _npy(raw: bytes) -> np.ndarray:
    """The array of a .npy file.  Raises ValueError.  (np.load also takes archives and pickles by what they hold.)"""
    if not raw.startswith(np.lib.format.MAGIC_PREFIX):
        raise ValueError("it does not begin as one")
    version = (raw[6], raw[7]) if len(raw) >= 8 else (0, 0)
    if version not in _HEADERS:
        raise ValueError(f"its version is {version[0]}.{version[1]}")
    file = io.BytesIO(raw)
    file.seek(8)
    try:
        shape, _, dtype = _HEADERS[version](file)
    # a header is a text of Python, and NumPy's reading of one may raise nearly anything
    except Exception:
        raise ValueError("its header is damaged") from None
    # before anything is allocated
    if dtype.hasobject or dtype.kind not in "biuf":
        raise ValueError(f"it holds {dtype}")
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError("its header is damaged")
    if prod(shape) * dtype.itemsize != len(raw) - file.tell():
        said = f"{shape} {dtype}"
        said = said if len(said) < MOST_SAID else "its shape"
        raise ValueError(f"it has {len(raw) - file.tell()} bytes of data, not those of {said}")
    file.seek(0)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _stored_as(buffer: Buffer, stored: np.dtype) -> str:
    return "" if buffer.dtype.element.name == str(stored) else f", stored as {stored}"
