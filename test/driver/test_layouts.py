"""Arrays of every layout: each callable x target x library x layout gives what contiguous NumPy arrays give on the CPU.

A layout is a shape, strides and an offset over flat memory, which each library makes a view of.  A plain run has a drawn
share of the cells, with a GPU in main memory; `--campaign` has all of them, and tests marked `gpu` those of real libraries.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Numba, aligned, numpy
from numpy.lib.stride_tricks import as_strided
from support.quick import quick

import vyre_opt as vyre
from vyre_opt import BadInputs, OutputAlloc, Scanner, kernels
from vyre_opt.execution import dispatcher as dispatcher_module
from vyre_opt.execution.array_backend import NOT_CONTIGUOUS
from vyre_opt.execution.dispatcher import shared_dispatcher
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32
from vyre_opt.targets.cuda import device, libcuda

ELEMENTS = 400


@dataclass(frozen=True)
class Layout:
    """A view of flat memory; strides and `offset` are in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def is_contiguous(self) -> bool:
        return bool(self.over(np.empty(ELEMENTS, np.uint8)).flags.c_contiguous)

    def over(self, flat: np.ndarray) -> np.ndarray:
        return as_strided(flat[self.offset :], self.shape, [s * flat.itemsize for s in self.strides])


LAYOUTS = {
    "contiguous": Layout((6, 8), (8, 1)),
    "offset": Layout((6, 8), (8, 1), 3),
    "of a matrix": Layout((6, 8), (20, 1), 5),
    "Fortran order": Layout((6, 8), (1, 6)),
    "every other": Layout((6, 8), (48, 2), 1),
    "a column": Layout((6, 1), (9, 7), 2),
    "backwards": Layout((6, 8), (-8, -1), 47),
    "rows backwards": Layout((6, 8), (-10, 1), 60),
    "the same row": Layout((6, 8), (0, 1), 4),
    "the same number": Layout((6, 8), (0, 0), 9),
    "empty": Layout((0, 8), (8, 1)),
    "empty rows": Layout((6, 0), (0, 3), 7),
    "one dimension": Layout((40,), (3,), 1),
    "no dimension": Layout((), (), 11),
    "three dimensions": Layout((2, 3, 8), (8, 16, 1)),
    "four dimensions": Layout((2, 3, 2, 3), (1, 70, -2, 9), 2),
}

# --- libraries


class Dlpack:
    """A foreign array on the stand-in of a GPU with nothing but DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, stream: int | None = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def in_main_memory(flat: np.ndarray, layout: Layout) -> np.ndarray:
    return layout.over(flat.copy())


def by_stand_in(kind: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray, Layout], Any]:
    return lambda flat, layout: kind(layout.over(aligned(flat)))


def by_torch(device: str) -> Callable[[np.ndarray, Layout], Any]:
    def view(flat: np.ndarray, layout: Layout) -> Any:
        torch = pytest.importorskip("torch")
        tensor = torch.from_numpy(flat.copy()).to(device)
        return tensor.as_strided(layout.shape, layout.strides, layout.offset)

    return view


def by_cupy(flat: np.ndarray, layout: Layout) -> Any:
    cupy = pytest.importorskip("cupy")
    there = cupy.asarray(flat)
    strides = [stride * flat.itemsize for stride in layout.strides]
    return cupy.lib.stride_tricks.as_strided(there[layout.offset :], layout.shape, tuple(strides))


def by_pycuda(flat: np.ndarray, layout: Layout) -> Any:
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    with shared_dispatcher("cuda").device:  # type: ignore[attr-defined]
        there = gpuarray.to_gpu(flat)
    strides = tuple(stride * flat.itemsize for stride in layout.strides)
    start = int(there.gpudata) + layout.offset * flat.itemsize
    return gpuarray.GPUArray(layout.shape, flat.dtype, base=there, gpudata=start, strides=strides)


def by_interface(flat: np.ndarray, layout: Layout) -> Any:
    view = by_cupy(flat, layout)
    return type("Foreign", (), {"__cuda_array_interface__": view.__cuda_array_interface__, "view": view})()


def by_dlpack(flat: np.ndarray, layout: Layout) -> Any:
    view = by_cupy(flat, layout)
    methods = {
        "__dlpack__": lambda self, stream=None: view.__dlpack__(stream=stream),
        "__dlpack_device__": lambda self: view.__dlpack_device__(),
    }
    return type("OnlyDlpack", (), {**methods, "shape": view.shape, "view": view})()


HOST = {"numpy": in_main_memory, "torch": by_torch("cpu")}
STAND_INS = {
    name: by_stand_in(kind) for name, kind in (("cupy", CupyArray), ("interface", Numba), ("dlpack", Dlpack))
}
ON_GPU = {
    "torch": by_torch("cuda"),
    "cupy": by_cupy,
    "pycuda": by_pycuda,
    "interface": by_interface,
    "dlpack": by_dlpack,
}


def to_host(result: Any) -> Any:
    """A result of any library as a NumPy array."""
    vyre.synchronize()
    result = getattr(result, "view", result) if type(result).__name__ in ("Foreign", "OnlyDlpack") else result
    base = getattr(result, "base", None)
    if type(result).__module__.startswith("pycuda") and base is not None:
        # it copies no array with a stride of 0
        start = (int(result.gpudata) - int(base.gpudata)) // base.dtype.itemsize
        return np.lib.stride_tricks.as_strided(base.get()[start:], result.shape, result.strides)
    for name in ("to_host", "get", "cpu"):
        if hasattr(result, name) and not isinstance(result, np.ndarray):
            return np.asarray(getattr(result, name)())
    return np.asarray(numpy(result) if isinstance(result, (Numba, Dlpack)) else result)


# --- callables: `call(target, view)`, where `view(flat, layout)` makes an array of the library


@vyre.program(workgroup=32)
def double(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = 2 * x[i]


@vyre.program(workgroup=32)
def sum_rows(x: Read[f32[:, :]], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        for k in range(x.shape[1]):
            y[i] += x[i, k]


@vyre.program(workgroup=32)
def add_twice(x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        for _ in range(2):
            y[i] += x[i]


@vyre.pipeline
def twice(x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    double[vyre.ceil_div(len(x), 32)](x, t)
    double[vyre.ceil_div(len(x), 32)](t, y)


TEXT = double.text()
PIPELINE = f"""{TEXT}
pipeline @main {{
  buffer @x : f32[?] read
  buffer @y : f32[?] write
  launch @double grid(ceil_div(len(@x), 32)) (@x, @y)
}}
"""
FLOATS = np.random.default_rng(3).integers(-40, 40, ELEMENTS).astype(np.float32) / 8
OCTETS = np.frombuffer(b"abca" * (ELEMENTS // 4), np.uint8)
NUMBERS = np.random.default_rng(4).integers(0, 12, ELEMENTS)
View = Callable[[np.ndarray, Layout], Any]
Call = Callable[[View, Layout], Any]


def flat_layout(count: int) -> Layout:
    return Layout((count,), (1,))


def count_of(layout: Layout) -> int:
    return int(np.prod(layout.shape))


def in_place(kernel: Any, elements: Callable[[Layout], int] = count_of) -> Callable[[str], Call]:
    def made(target: str) -> Call:
        chosen = kernel.options(target=shared_dispatcher(target))

        def call(view: View, layout: Layout) -> Any:
            y = view(np.zeros(ELEMENTS, np.float32), flat_layout(elements(layout)))
            (chosen if kernel is twice else chosen[2])(view(FLOATS, layout), y)
            return y

        return call

    return made


def of_kernel(function: Callable[..., Any], flat: np.ndarray) -> Callable[[str], Call]:
    return lambda target: lambda view, layout: function(view(flat, layout), dispatcher=target)


def of_executable(text: str, is_template: bool = False) -> Callable[[str], Call]:
    def made(target: str) -> Call:
        executable = vyre.compile(text, target=target)
        grid = {"grid": 2} if text is TEXT else {}

        def call(view: View, layout: Layout) -> Any:
            inputs = {"x": view(FLOATS, layout)}
            if is_template:
                return executable({**inputs, "y": view(FLOATS, layout)}, **grid)["y"]
            return executable(inputs, lengths={"y": count_of(layout)}, **grid)["y"]

        return call

    return made


def dispatched(target: str) -> Call:
    program = double.program()

    def call(view: View, layout: Layout) -> Any:
        inputs = [view(FLOATS, layout), OutputAlloc(count_of(layout))]
        return shared_dispatcher(target).dispatch(program, inputs, 2)[0]

    return call


def multiplied(target: str) -> Call:
    def call(view: View, layout: Layout) -> Any:
        swapped = (*range(len(layout.shape) - 2), -1, -2)
        shape, strides = ([extents[k] for k in swapped] for extents in (layout.shape, layout.strides))
        right = Layout(tuple(shape), tuple(strides), layout.offset)
        return kernels.matmul(view(FLOATS, layout), view(FLOATS, right), dispatcher=target)

    return call


def looked_up(target: str) -> Call:
    layouts = Layout((3, 1, 2, 4), (1, 0, 3, 6)), Layout((4, 4, 2, 1), (9, 2, 1, 5))

    def call(view: View, layout: Layout) -> Any:
        cores = [view(FLOATS, core) for core in layouts]
        return kernels.tt_embedding(cores, view(NUMBERS, layout), dispatcher=target)

    return call


def scanned(target: str) -> Call:
    scanner = Scanner([b"ab", b"bc"], target=target)
    return lambda view, layout: np.array(list(scanner.scan(view(OCTETS, layout))))


CALLS: dict[str, Callable[[str], Call]] = {
    "softmax": of_kernel(kernels.softmax, FLOATS),
    "prefix_scan": of_kernel(kernels.prefix_scan, FLOATS),
    "softmax_step": of_kernel(kernels.softmax_step, NUMBERS),
    "matmul": multiplied,
    "tt_embedding": looked_up,
    "program": in_place(double),
    "program of rows": in_place(sum_rows, lambda layout: layout.shape[0]),
    "pipeline": in_place(twice),
    "compiled program": of_executable(TEXT),
    "compiled pipeline": of_executable(PIPELINE),
    "outputs like arrays": of_executable(TEXT, is_template=True),
    "dispatch": dispatched,
    "Scanner": scanned,
}


def fits(name: str, target: str, library: str, layout: Layout) -> bool:
    if name == "matmul" and (len(layout.shape) < 2 or not layout.shape[-1]):
        return False
    if name == "program of rows" and len(layout.shape) != 2:
        return False
    if library == "torch" and min((*layout.strides, 0)) < 0:  # which it does not have
        return False
    if name == "Scanner":
        return target != "ref" and bool(layout.shape)
    takes_numpy = target != "cuda" or name not in ("program", "program of rows")
    return takes_numpy if library == "numpy" else name != "dispatch" or target == "cuda"


def check(name: str, target: str, view: View, layout: Layout) -> None:
    """Twice, with a contiguous array before and between: no plan of one is taken for the other."""
    strides = np.cumprod((1, *layout.shape[:0:-1]))[::-1].tolist() if layout.shape else ()
    plain = Layout(layout.shape, tuple(strides))
    wanted, call = CALLS[name]("cpu"), CALLS[name](target)
    for each in (plain, layout, plain, layout):
        expected = np.asarray(wanted(lambda flat, own: own.over(flat).copy(), each))
        result = to_host(call(view, each))
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, 1e-4, 1e-6)


@pytest.fixture
def cuda(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The GPU in main memory, by its name too."""
    monkeypatch.setitem(dispatcher_module._shared, "cuda", gpu)
    monkeypatch.setitem(dispatcher_module._shared, ("cuda", ("bounds", "none"), ("device", 0)), gpu)
    monkeypatch.setitem(device._devices, 0, gpu.gpu)
    monkeypatch.setattr(libcuda, "is_pinned", lambda pointer: True)
    return gpu


CELLS = [
    (name, target, library, layout)
    for (target, library), name, layout in product(
        [*product(("ref", "cpu"), HOST), ("cuda", "numpy"), *product(("cuda",), STAND_INS)], CALLS, LAYOUTS
    )
    if fits(name, target, library, LAYOUTS[layout])
]
random.Random(1).shuffle(CELLS)


@pytest.mark.parametrize(
    ("name", "target", "library", "layout"), quick(CELLS, group=lambda cell: cell[:2]), ids=str
)
def test_any_layout_is_read(cuda: Any, name: str, target: str, library: str, layout: str) -> None:
    view = (STAND_INS if target == "cuda" and library in STAND_INS else HOST)[library]
    check(name, target, view, LAYOUTS[layout])


@pytest.mark.parametrize(
    ("name", "target", "library"),
    quick(
        sorted({cell[:3] for cell in CELLS if cell[0] in ("program", "pipeline")}),
        group=lambda cell: cell[1:],
    ),
)
def test_what_is_written_is_contiguous(cuda: Any, name: str, target: str, library: str) -> None:
    check_written(name, target, (STAND_INS if target == "cuda" and library in STAND_INS else HOST)[library])


def check_written(name: str, target: str, view: View) -> None:
    """One message on all targets, and nothing has run."""
    written = {"program": double, "pipeline": twice}[name].options(target=shared_dispatcher(target))
    for layout in LAYOUTS.values():
        if not layout.is_contiguous and min(layout.strides) >= 0:
            y = view(FLOATS, layout)
            with pytest.raises(BadInputs) as caught:
                (written[2] if name == "program" else written)(view(FLOATS, flat_layout(4)), y)
            assert f"y is written, but the array {NOT_CONTIGUOUS}" in str(caught.value)
            assert np.array_equal(to_host(y), layout.over(FLOATS))


@pytest.mark.parametrize("library", ["numpy", "torch", "cupy"])
@pytest.mark.parametrize("layout", quick(LAYOUTS, keep=5))
def test_a_result_goes_to_any_layout(cuda: Any, library: str, layout: str) -> None:
    if fits("softmax", "cpu", library, LAYOUTS[layout]):
        check_out((HOST | STAND_INS)[library], LAYOUTS[layout])


def check_out(view: View, layout: Layout) -> None:
    """As NumPy has it: `out` is written where it is, or copied to."""
    for _ in range(2):
        x, out = view(FLOATS, layout), view(np.zeros(ELEMENTS, np.float32), layout)
        if 0 in layout.strides and 0 not in layout.shape:
            with pytest.raises(BadInputs, match="out has elements that share memory"):
                kernels.softmax(x, out=out)
            continue
        assert kernels.softmax(x, out=out) is out
        np.testing.assert_allclose(to_host(out), kernels.softmax(layout.over(FLOATS).copy()), 1e-4, 1e-6)


def test_a_result_goes_to_an_array_of_ours(cuda: Any) -> None:
    x = by_stand_in(Numba)(FLOATS, LAYOUTS["Fortran order"])
    out = kernels.softmax(x).reshape((6, 8))
    for scale in (2, 3):
        x.array[...] = scale * LAYOUTS["Fortran order"].over(FLOATS)
        assert kernels.softmax(x, out=out) is out
        np.testing.assert_allclose(to_host(out), kernels.softmax(np.ascontiguousarray(x.array)), 1e-5)


@pytest.mark.parametrize(("target", "library"), sorted({cell[1:3] for cell in CELLS} - {("cuda", "numpy")}))
def test_what_is_read_is_what_was_there_before(cuda: Any, target: str, library: str) -> None:
    """An array that shares memory with the one that is written is copied first, whatever its strides; none is aligned."""
    make = (STAND_INS if target == "cuda" and library in STAND_INS else HOST)[library]
    by = shared_dispatcher(target)
    kernels = [
        (double.options(target=by)[7], 2, 0),
        (add_twice.options(target=by, passes=None)[7], 2, 1),
        (twice.options(target=by), 4, 0),
    ]
    written = Layout((200,), (1,), 3)
    read = [flat_layout(200), Layout((200,), (2,), 1), written, Layout((200,), (0,), 7)]
    for (kernel, of_x, of_y), layout in [*product(kernels, read)] * 2:
        memory = aligned(FLOATS)
        x, y = layout.over(memory), written.over(memory)
        expected = of_x * x + of_y * y
        kernel(as_library(make, x), as_library(make, y))
        assert np.array_equal(y, expected)


def as_library(make: View, array: np.ndarray) -> Any:
    """An array of a library in the memory of NumPy's."""
    if make is HOST["numpy"]:
        return array
    if make is HOST["torch"]:
        return pytest.importorskip("torch").from_numpy(array)
    return type(make(FLOATS, flat_layout(1)))(array)


# --- numbers


@vyre.program(workgroup=32)
def scaled(a: f32, n: u32, x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < n:
        y[i] = a * x[i]


@vyre.pipeline
def scaled_once(a: f32, n: u32, x: Read[f32], y: Write[f32]) -> None:
    scaled[2](a, n, x, y)


SCALARS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.array,
    "numpy scalar": lambda value: np.array(value)[()],
    "torch": lambda value: pytest.importorskip("torch").tensor(value),
    "cupy": lambda value: StandInScalar(aligned(np.array(value))),
}
SCALARS_ON_GPU: dict[str, Callable[[Any], Any]] = {
    "torch": lambda value: pytest.importorskip("torch").tensor(value, device="cuda"),
    "cupy": lambda value: pytest.importorskip("cupy").array(value),
    "pycuda": lambda value: by_pycuda(np.array([value]), Layout((), ())),
}


class StandInScalar(CupyArray):
    def item(self) -> Any:
        return self.array.item()


def check_scalars(make: Callable[[Any], Any], target: str, view: View) -> None:
    """The number in an array of no dimensions is taken for a runtime scalar, and refused, as the number itself."""

    def calls(kind: str) -> tuple[Any, Callable[[Any, Any], Any]]:
        if kind in ("kernel", "pipeline"):
            chosen = (scaled if kind == "kernel" else scaled_once).options(target=shared_dispatcher(target))

            def in_place(a: Any, n: Any) -> Any:
                y = view(np.zeros(40, np.float32), flat_layout(40))
                (chosen[2] if kind == "kernel" else chosen)(a, n, view(FLOATS, flat_layout(40)), y)
                return y

            return chosen, in_place
        executable = vyre.compile(
            (scaled if kind == "program" else scaled_once).text(), target=target, entry=ENTRIES[kind]
        )
        grid = {"grid": 2} if kind == "program" else {}

        def by_name(a: Any, n: Any) -> Any:
            y = view(np.zeros(40, np.float32), flat_layout(40))
            inputs = {"x": view(FLOATS, flat_layout(40)), "y": y}
            return executable(inputs, params={"a": a, "n": n}, **grid)["y"]

        return executable, by_name

    for kind in ("kernel", "pipeline", "program", "compiled pipeline"):
        _, call = calls(kind)
        for a, n in ((0.5, 7), (-3.0, 40)):
            expected = np.where(np.arange(40) < n, np.float32(a) * FLOATS[:40], 0)
            for passed in ((make(a), make(n)), (a, make(n)), (make(a), n)):
                assert np.array_equal(to_host(call(*passed)), expected)
        for wrong in ((1.0, -1), (1.0, 1.5), (True, 1), (1.0, True)):
            with pytest.raises(BadInputs) as said:
                call(*wrong)
            with pytest.raises(BadInputs) as caught:
                call(*map(make, wrong))
            assert str(caught.value) == str(said.value)
        with pytest.raises(BadInputs, match="is not a number"):
            call(1.0, np.array([1]))


ENTRIES = {"program": "scaled", "compiled pipeline": "scaled_once"}


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("target", ["ref", "cpu", "cuda"])
def test_a_number_may_be_an_array_of_no_dimensions(cuda: Any, scalar: str, target: str) -> None:
    check_scalars(SCALARS[scalar], target, STAND_INS["cupy"] if target == "cuda" else in_main_memory)


# --- on a GPU


@pytest.fixture
def device_of_all() -> Any:
    """The context in which PyCUDA makes its arrays, and in which those of caught errors are freed."""
    with shared_dispatcher("cuda").device:
        gc.disable()
        yield
        gc.enable()
        gc.collect()


@pytest.mark.gpu
@pytest.mark.parametrize("library", ON_GPU)
@pytest.mark.parametrize("name", CALLS)
def test_any_layout_is_read_on_a_gpu(device_of_all: None, name: str, library: str) -> None:
    for layout in LAYOUTS.values():
        if fits(name, "cuda", library, layout):
            check(name, "cuda", ON_GPU[library], layout)


@pytest.mark.gpu
@pytest.mark.parametrize("library", ON_GPU)
def test_what_is_written_is_contiguous_on_a_gpu(device_of_all: None, library: str) -> None:
    for name in ("program", "pipeline"):
        check_written(name, "cuda", ON_GPU[library])


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_result_goes_to_any_layout_on_a_gpu(library: str) -> None:
    for layout in LAYOUTS.values():
        if fits("softmax", "cuda", library, layout):
            check_out(ON_GPU[library], layout)


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_what_is_read_is_what_was_there_before_on_a_gpu(library: str) -> None:
    for part in (slice(0, 200), slice(1, None, 2), slice(3, 203)):
        for kernel, factor in ((double[7], 2), (twice, 4)):
            for _ in range(3):
                memory = ON_GPU[library](FLOATS, flat_layout(ELEMENTS))
                kernel(memory[part], memory[3:203])
                assert np.array_equal(to_host(memory)[3:203], factor * FLOATS[part])


@pytest.mark.gpu
@pytest.mark.parametrize("scalar", SCALARS_ON_GPU)
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_number_may_be_an_array_of_no_dimensions_on_a_gpu(
    device_of_all: None, scalar: str, library: str
) -> None:
    check_scalars(SCALARS_ON_GPU[scalar], "cuda", ON_GPU[library])
    check_scalars(SCALARS_ON_GPU[scalar], "cpu", in_main_memory)


@pytest.mark.gpu
def test_a_call_with_a_strided_tensor_is_recorded() -> None:
    """In a graph of torch: the copy is a node of it, and sees what the tensor holds at each replay."""
    torch = pytest.importorskip("torch")
    memory, y = torch.zeros(400, device="cuda"), torch.zeros(200, device="cuda")
    x, graph = memory[::2], torch.cuda.CUDAGraph()
    for _ in range(3):
        double[7](x, y)
    with torch.cuda.graph(graph):
        double[7](x, y)
    for value in (3.0, 5.0):
        memory.fill_(value)
        graph.replay()
        assert (y == 2 * value).all()


# --- streams, graphs, threads and large arrays of a GPU


PLAIN = LAYOUTS["contiguous"]
ENQUEUED = [name for name in CALLS if name != "Scanner"]
"""Those whose calls wait for nothing.  A scan gives lists of the host."""

BUSY_CYCLES = 20_000_000
"""Some milliseconds of a GPU."""


def expected_of(name: str, scale: float) -> np.ndarray:
    wanted = CALLS[name]("cpu")
    return np.asarray(wanted(lambda flat, own: own.over(scaled_by(flat, scale)).copy(), PLAIN))


def scaled_by(flat: np.ndarray, scale: float) -> np.ndarray:
    return (flat * scale).astype(flat.dtype) if flat is FLOATS else flat


def late_view(stream: Any, scale: float) -> View:
    """Makes tensors that a stream fills late, behind other work."""
    torch = pytest.importorskip("torch")

    def view(flat: np.ndarray, layout: Layout) -> Any:
        with torch.cuda.stream(stream):
            there = torch.from_numpy(scaled_by(flat, scale)).cuda()
            late = torch.zeros_like(there)
            torch.cuda._sleep(BUSY_CYCLES)
            late.copy_(there, non_blocking=True)
            return late.as_strided(layout.shape, layout.strides, layout.offset)

    return view


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENQUEUED)
def test_a_call_follows_the_work_of_its_stream(name: str) -> None:
    torch = pytest.importorskip("torch")
    call = CALLS[name]("cuda")
    for scale, stream in (
        (1, torch.cuda.Stream()),
        (2, torch.cuda.default_stream()),
        (3, torch.cuda.Stream()),
    ):
        for _ in range(3):
            with torch.cuda.stream(stream):
                result = call(late_view(stream, scale), PLAIN)
                result = result.clone()  # on that stream too
            stream.synchronize()
            np.testing.assert_allclose(result.cpu().numpy(), expected_of(name, scale), 1e-4, 1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ENQUEUED)
def test_a_call_is_recorded_and_replayed(name: str) -> None:
    """What was recorded computes from what its arrays hold at each replay."""
    torch = pytest.importorskip("torch")
    call, kept = CALLS[name]("cuda"), dict[Any, Any]()
    zeros = torch.zeros(ELEMENTS, device="cuda")

    def view(flat: np.ndarray, layout: Layout) -> Any:
        """Of the same memory at each call."""
        if flat is not FLOATS and flat is not NUMBERS:
            return zeros.as_strided(layout.shape, layout.strides, layout.offset)
        if id(flat) not in kept:
            kept[id(flat)] = torch.from_numpy(flat.copy()).cuda()
        return kept[id(flat)].as_strided(layout.shape, layout.strides, layout.offset)

    for _ in range(3):
        call(view, PLAIN)
    torch.cuda.synchronize()
    zeros.zero_()
    graph = torch.cuda.CUDAGraph()
    if name == "softmax_step":  # of i64
        with torch.cuda.graph(graph):
            zeros.zero_()  # torch warns of an empty graph
            with pytest.raises(BadInputs, match="a graph is being recorded"):
                call(view, PLAIN)
        return
    with torch.cuda.graph(graph):
        result = call(view, PLAIN)
    for scale in (1, 2, -1):
        for each in kept.values():
            if each.dtype == torch.float32:
                each.copy_(torch.from_numpy(scaled_by(FLOATS, scale)))
        zeros.zero_()
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_allclose(result.cpu().numpy(), expected_of(name, scale), 1e-4, 1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("library", ["torch", "cupy", "numpy"])
def test_threads_call_at_the_same_time(library: str) -> None:
    """Each callable from four threads, with streams of their own where the library has them."""
    make = {**HOST, **ON_GPU}[library]

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(40):
            name, scale = draw.choice(ENQUEUED), draw.choice((1, 2, 3))
            if fits(name, "cuda", library, PLAIN):
                result = CALLS[name]("cuda")(lambda flat, own, s=scale: make(scaled_by(flat, s), own), PLAIN)
                np.testing.assert_allclose(to_host(result), expected_of(name, scale), 1e-4, 1e-6)

    def on_a_stream(seed: int) -> None:
        if library == "torch":
            torch = pytest.importorskip("torch")
            with torch.cuda.stream(torch.cuda.Stream()):
                work(seed)
        elif library == "cupy":
            cupy = pytest.importorskip("cupy")
            with cupy.cuda.Stream(non_blocking=True):
                work(seed)
        else:
            work(seed)

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(on_a_stream, seed) for seed in range(4)]:
            each.result()


@pytest.mark.gpu
def test_an_array_beyond_four_gibibytes() -> None:
    torch = pytest.importorskip("torch")
    count = (1 << 30) + 300
    x = torch.zeros(count, device="cuda")
    at = torch.tensor([0, 1, 5, (1 << 29) + 7, (1 << 30) - 1, 1 << 30, count - 1], device="cuda")
    x[at] = torch.arange(1, len(at) + 1, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    for kernel, factor in ((double[-(-count // 32)], 2), (twice, 4)):
        for _ in range(3):
            kernel(x, y)
        assert torch.equal(y[at], factor * x[at])
        assert int(torch.count_nonzero(y)) == len(at)
    executable = vyre.compile(PIPELINE, target="cuda")
    result = executable({"x": x}, lengths={"y": count})["y"]
    assert torch.equal(result[at], 2 * x[at])
