"""The array functions, `run` and `compile` on arrays of torch, CuPy and PyCUDA: same results, same library."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt import BadInputs, ProgramError, kernels

ROOT = Path(__file__).resolve().parents[3]
rng = np.random.default_rng(11)
X = rng.standard_normal((37, 300)).astype(np.float32)
NUMBERS = rng.integers(0, 1 << 20, 3_000_000, np.uint32)  # long enough for the look-back
CORES = [rng.standard_normal(s).astype(np.float32) for s in ((30, 1, 4, 16), (40, 16, 4, 16), (50, 16, 4, 1))]
INDICES = rng.integers(0, 30 * 40 * 50, (8, 25))
MATRICES = [rng.integers(0, 9, s, np.int32) << 15 for s in ((50, 40), (40, 70))]
DATA = bytes(rng.integers(0, 256, 100_000, np.uint8))
TEXT = np.frombuffer(base64.b64encode(DATA), np.uint8).copy()

CALLS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda put: kernels.softmax(put(X)),
    "softmax of f16": lambda put: kernels.softmax(put(X.astype(np.float16))),
    "softmax_step": lambda put: kernels.softmax_step(put(NUMBERS[:1000].astype(np.int64))),
    "prefix_scan": lambda put: kernels.prefix_scan(put(NUMBERS.view(np.int32))),
    "matvec_fixed": lambda put: kernels.matvec_fixed(put(MATRICES[0]), put(MATRICES[1][:, 0].copy())),
    "tt_contract_step": lambda put: kernels.tt_contract_step(put(X[0]), put(X.T.copy())),
    "tt_chain": lambda put: kernels.tt_chain(put(MATRICES[0][:, 0].copy()), [put(m) for m in MATRICES]),
    "tt_embedding": lambda put: kernels.tt_embedding([put(c) for c in CORES], put(INDICES)),
    "base64_decode": lambda put: kernels.base64_decode(put(TEXT)),
    "hex_decode": lambda put: kernels.hex_decode(put(np.frombuffer(DATA.hex().encode(), np.uint8).copy())),
}


def check(actual: np.ndarray, expected: np.ndarray, name: str) -> None:
    assert actual.shape == expected.shape, name
    assert actual.dtype == expected.dtype, name
    if expected.dtype.kind == "f":
        tolerance = 2e-3 if expected.dtype == np.float16 else 1e-4
        assert np.allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, 1e-5), name
    else:
        assert np.array_equal(actual, expected), name


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    return {name: call(lambda array: array) for name, call in CALLS.items()}


# --- torch in main memory: no GPU needed


@pytest.mark.parametrize("name", [name for name in CALLS if name != "prefix_scan"])
def test_torch_in_main_memory(name: str, expected: dict[str, np.ndarray]) -> None:
    """Tensors in, tensors out, whatever computes it."""
    torch = pytest.importorskip("torch")
    result = CALLS[name](torch.from_numpy)
    assert isinstance(result, torch.Tensor)
    check(result.numpy(), expected[name], name)


def test_torch_bf16_in_main_memory() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X).to(torch.bfloat16).requires_grad_()
    y = kernels.softmax(x.T)
    assert (y.dtype, y.shape) == (torch.bfloat16, (300, 37))
    assert torch.allclose(y.float(), torch.softmax(x.T.detach().float(), -1), 1e-2)
    with pytest.raises(BadInputs, match="x cannot be read as a NumPy array"):
        kernels.softmax(torch.zeros(3, device="meta"))
    doubled = vyre_opt.run(DOUBLE.replace("f32", "bf16"), [x.detach()], 44, lengths={"y": x.numel()})["y"]
    assert torch.equal(doubled, (2 * x.detach()).reshape(-1))


DOUBLE = """vyre 1
program @double workgroup(256) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %ok = lt %i, %n : u32
  if %ok {
    %v = load @x[%i] : f32
    %s = add %v, %v : f32
    store %s, @y[%i] : f32
  }
}
"""


# --- on a GPU


class Late:
    """Puts arrays on the GPU behind work that is still running on the stream: they are zeros until then."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.slow = torch.randn(4096, 4096, device="cuda")
        self.uploads: list[tuple[Any, np.ndarray]] = []
        torch.cuda.synchronize()

    def __call__(self, array: np.ndarray) -> Any:
        there = self.torch.from_numpy(array).cuda()
        late = self.torch.zeros_like(there)
        for _ in range(5):
            self.slow @ self.slow
        late.copy_(there)
        self.uploads.append((late, array))
        return late


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_torch(name: str, expected: dict[str, np.ndarray]) -> None:
    """On the default stream, and on one of torch's own; arrays are never modified."""
    torch = pytest.importorskip("torch")
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        put = Late(torch)
        with torch.cuda.stream(stream):
            result = CALLS[name](put)
            assert result.is_cuda
            check(result.cpu().numpy(), expected[name], name)
            assert all(np.array_equal(tensor.cpu().numpy(), array) for tensor, array in put.uploads)


@pytest.mark.gpu
def test_torch_types_and_views() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X).cuda()
    for dtype, tolerance in ((torch.bfloat16, 2e-2), (torch.float16, 2e-3), (torch.float32, 1e-5)):
        y = kernels.softmax(x.to(dtype))
        assert y.dtype is dtype
        assert torch.allclose(y.float(), torch.softmax(x.to(dtype).float(), -1), tolerance, 1e-6)
    assert torch.allclose(kernels.softmax(x.T), torch.softmax(x.T, -1), 1e-5, 1e-6)
    odd = x.reshape(-1)[1:]  # not 16-byte aligned
    assert torch.allclose(kernels.softmax(odd), torch.softmax(odd, -1), 1e-4, 1e-7)
    assert kernels.softmax(x[:0]).shape == (0, 300)
    cores = [torch.from_numpy(core).cuda().to(torch.bfloat16) for core in CORES]
    for kind in (torch.int64, torch.int32, torch.uint8):
        index = torch.tensor([[1, 2], [3, 250]], device="cuda").to(kind)
        rows = kernels.tt_embedding(cores, index)
        assert (rows.dtype, rows.shape) == (torch.bfloat16, (2, 2, 64))
        wide = kernels.tt_embedding([core.float().cpu() for core in cores], index.cpu())
        assert torch.allclose(rows.float().cpu(), wide, 2e-2, 1e-1)


@pytest.mark.gpu
def test_torch_mistakes() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X).cuda()
    cores = [torch.from_numpy(core).cuda() for core in CORES]
    for wrong in (-1, 60_000, 1 << 40):
        rows = kernels.tt_embedding(cores, torch.tensor([5, wrong], device="cuda"))
        with pytest.raises(ProgramError, match="an index is out of range: the table has 60000 rows"):
            vyre_opt.synchronize()
        assert rows[0].any()
        assert not rows[1].any()
        many = torch.arange(20_000, device="cuda") * 3  # so many that they are grouped by slice
        right = kernels.tt_embedding(cores, many)
        many[7:9] = wrong
        rows = kernels.tt_embedding(cores, many)
        with pytest.raises(ProgramError, match="an index is out of range: the table has 60000 rows"):
            vyre_opt.synchronize()
        right[7:9] = 0
        assert torch.equal(rows, right)
    assert kernels.tt_embedding(cores, torch.tensor([5], device="cuda")).shape == (
        1,
        64,
    )  # the GPU still works
    with pytest.raises(BadInputs, match="indices is not on the GPU"):
        kernels.tt_embedding(cores, torch.tensor([5]))
    with pytest.raises(BadInputs, match="x is on the GPU, where cpu does not run"):
        kernels.softmax(x, dispatcher="cpu")
    with pytest.raises(BadInputs, match="x holds f32, f16, bf16, not float64"):
        kernels.softmax(x.double())
    with pytest.raises(BadInputs, match="pass a dense one"):
        kernels.softmax(x.to_sparse())


@pytest.mark.gpu
def test_torch_on_another_gpu(expected: dict[str, np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    for name, call in CALLS.items():
        result = call(lambda array: torch.from_numpy(array).to("cuda:1"))
        assert result.device.index == 1
        check(result.cpu().numpy(), expected[name], name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_cupy(name: str, expected: dict[str, np.ndarray]) -> None:
    cupy = pytest.importorskip("cupy")
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            result = CALLS[name](cupy.asarray)
            assert isinstance(result, cupy.ndarray)
            check(result.get(stream=stream), expected[name], name)


@pytest.mark.gpu
def test_two_libraries_on_two_streams(cuda: Any) -> None:
    """What another stream is still making of an input is waited for, the first input's or a later one's."""
    cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
    program = vyre_opt.parse(DOUBLE).programs["double"]
    ones = np.ones(2000, np.float32)
    put = Late(torch)
    with torch.cuda.stream(torch.cuda.Stream()):
        (out,) = cuda().dispatch(program, [cupy.asarray(ones[:500]), put(3 * ones)], 4)
        assert out.tolist() == [2.0] * 500 + [3.0] * 1500
        (out,) = cuda().dispatch(program, [put(3 * ones[:500]), cupy.asarray(ones)], 4)
        assert out.tolist() == [6.0] * 500 + [1.0] * 1500


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS)
def test_gpuarray(name: str, cuda: Any, expected: dict[str, np.ndarray]) -> None:
    with cuda().device:
        from pycuda import gpuarray

        result = CALLS[name](gpuarray.to_gpu)
        assert isinstance(result, gpuarray.GPUArray)
        check(result.get(), expected[name], name)
        assert kernels.softmax(gpuarray.to_gpu(X)[:0]).shape == (0, 300)


@pytest.mark.gpu
def test_arrays_of_nobody(expected: dict[str, np.ndarray]) -> None:
    """What only speaks DLPack gets arrays of ours, and those are taken again."""
    torch = pytest.importorskip("torch")

    class OnlyDlpack:
        def __init__(self, array: np.ndarray) -> None:
            self.tensor = torch.from_numpy(array).cuda()
            torch.cuda.synchronize()

        def __dlpack__(self, stream: int | None = None) -> Any:
            return self.tensor.__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    for name, call in CALLS.items():
        result = call(OnlyDlpack)
        check(result.to_host(), expected[name], name)
    assert np.allclose(kernels.softmax(kernels.softmax(OnlyDlpack(X))).to_host().sum(), 37, 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("encoding", ["base64", "hex", "raw"])
def test_decode_scan(encoding: str) -> None:
    torch = pytest.importorskip("torch")
    text = {"base64": TEXT.tobytes(), "hex": DATA.hex().encode(), "raw": DATA}[encoding]
    patterns = [DATA[500:504], DATA[-3:], b"\0\1"]
    there = torch.from_numpy(np.frombuffer(text, np.uint8).copy()).cuda()
    matches = kernels.decode_scan(there, patterns, encoding)
    assert matches == kernels.decode_scan(text, patterns, encoding)
    assert (503, 0) in matches
    assert (len(DATA) - 1, 1) in matches


@pytest.mark.gpu
def test_compile_and_run() -> None:
    """Outputs by name, on the GPU; an array given for one is not written."""
    torch = pytest.importorskip("torch")
    double = vyre_opt.compile(DOUBLE, target="cuda")
    x = torch.from_numpy(X).cuda()
    for _ in range(3):
        y = double([x], 44, lengths={"y": x.numel()})["y"]
        assert torch.equal(y, 2 * x.reshape(-1))
    template = torch.full((2, x.numel()), 5.0, device="cuda")
    y = double({"x": x, "y": template}, 44)["y"]
    assert torch.equal(y[0], 2 * x.reshape(-1))
    assert (y[1] == 5).all()
    assert (template == 5).all()
    assert np.array_equal(double([X], 44, lengths={"y": X.size})["y"], 2 * X.reshape(-1))
    assert f".target {vyre_opt.dispatcher('cuda').facts.target.name}" in double.ptx()


@pytest.mark.gpu
def test_the_page_about_python() -> None:
    """The examples of docs/reference/python.md that need torch and a GPU hold what they say."""
    pytest.importorskip("torch")
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    on_gpu = [block for block in blocks if "cuda" in block and ">>>" not in block]
    assert on_gpu
    for block in on_gpu:
        exec(compile(block, "docs/reference/python.md", "exec"), {})
