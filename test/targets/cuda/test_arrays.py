"""Arrays that are on the GPU already: torch, CuPy, PyCUDA; streams, launches in place, graphs."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import parse
from vyre_opt.execution import BadInputs, Scratch

pytestmark = pytest.mark.gpu

SCALE = """vyre 1
program @scale workgroup(256) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  spec @k : f32 = 2.0
  %i = global_id x
  %n = len @x
  %m = len @y
  %a = lt %i, %n : u32
  %b = lt %i, %m : u32
  %ok = and %a, %b : bool
  if %ok {
    %k = spec @k : f32
    %v = load @x[%i] : f32
    %s = mul %k, %v : f32
    store %s, @y[%i] : f32
  }
}
"""
N = 100_000
GRID = -(-N // 256)


@pytest.fixture
def program():
    return parse(SCALE).programs["scale"]


def test_numpy_large_and_small(cuda, program):
    gpu, scratch = cuda(), Scratch()
    for n in (0, 1, 1000, 5_000_000):
        x = np.arange(n, dtype=np.float32)
        before = x.copy()
        (y,) = gpu.dispatch(program, [x, np.full(n, 7, np.float32)], max(1, -(-n // 256)), scratch=scratch)
        assert np.array_equal(y, 2 * x)
        assert np.array_equal(x, before)
    (y,) = gpu.dispatch(program, [np.ones(10, np.float32), np.full(20, 7, np.float32)], 1, specs={"k": 3.0})
    assert y.tolist() == [3.0] * 10 + [7.0] * 10, "elements that are not written keep what the caller gave"


def test_torch_in_torch_out_on_any_stream(cuda, program):
    torch = pytest.importorskip("torch")
    gpu = cuda()
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            x = torch.arange(N, dtype=torch.float32, device="cuda").reshape(100, -1)
            (y,) = gpu.dispatch(program, [x, torch.zeros_like(x)], GRID)
            assert isinstance(y, torch.Tensor)
            assert y.shape == x.shape
            assert torch.equal(y, x * 2)
            assert torch.equal(x, torch.arange(N, dtype=torch.float32, device="cuda").reshape(100, -1))


def test_a_view_that_is_not_aligned_is_copied(cuda, program):
    torch = pytest.importorskip("torch")
    x = torch.arange(N, dtype=torch.float32, device="cuda")[1:]
    (y,) = cuda().dispatch(program, [x, torch.zeros(N - 1, device="cuda")], GRID)
    assert torch.equal(y, x * 2)
    with pytest.raises(BadInputs, match="aligned"):
        cuda().launch(program, [x, torch.zeros(N - 1, device="cuda")], GRID)


def test_bf16_of_torch(cuda):
    torch = pytest.importorskip("torch")
    program = parse(SCALE.replace("f32", "bf16")).programs["scale"]
    x = torch.randn(N, device="cuda", dtype=torch.bfloat16)
    (y,) = cuda().dispatch(program, [x, torch.empty_like(x)], GRID)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, x * 2)


def test_cupy_and_gpuarray_and_dlpack(cuda, program):
    cupy = pytest.importorskip("cupy")
    gpu = cuda()
    x = cupy.arange(N, dtype=cupy.float32)
    (y,) = gpu.dispatch(program, [x, cupy.zeros_like(x)], GRID)
    assert isinstance(y, cupy.ndarray)
    assert cupy.array_equal(y, x * 2)
    with gpu.device:
        from pycuda import gpuarray

        a = gpuarray.to_gpu(np.arange(N, dtype=np.float32))
        (b,) = gpu.dispatch(program, [a, gpuarray.zeros_like(a)], GRID)
        assert isinstance(b, gpuarray.GPUArray)
        assert np.array_equal(b.get(), 2 * np.arange(N, dtype=np.float32))

    class OnlyDlpack:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    (z,) = gpu.dispatch(program, [OnlyDlpack(x), OnlyDlpack(cupy.zeros_like(x))], GRID)
    assert np.array_equal(z.to_host(), 2 * np.arange(N, dtype=np.float32))
    assert cupy.array_equal(cupy.asarray(z), x * 2)


def test_what_does_not_fit_is_refused(cuda, program):
    torch = pytest.importorskip("torch")
    gpu = cuda()
    x = torch.zeros(N, device="cuda")
    with pytest.raises(BadInputs, match="not on the GPU"):
        gpu.dispatch(program, [x, np.zeros(N, np.float32)], GRID)
    with pytest.raises(BadInputs, match="float32"):
        gpu.dispatch(program, [x.int(), x], GRID)
    with pytest.raises(BadInputs, match="is not contiguous; pass a contiguous copy"):
        gpu.launch(program, [x.repeat(2)[::2], x], GRID)
    with pytest.raises(BadInputs, match="overlap"):
        gpu.launch(program, [x, x], GRID)


def test_launch_in_place_and_graph(cuda, program):
    torch = pytest.importorskip("torch")
    from vyre_opt.targets.cuda import LaunchGraph, Timer

    gpu = cuda(bounds="none")
    x, t, y = (torch.ones(N, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    gpu.launch(program, [x, y], GRID, stream=torch.cuda.current_stream())
    assert torch.equal(y, 2 * x)
    graph = LaunchGraph(gpu)
    with graph.record() as stream:
        gpu.launch(program, [x, t], GRID, stream=stream)
        gpu.launch(program, [t, y], GRID, stream=stream)
    x.fill_(5)
    torch.cuda.synchronize()
    with Timer(gpu.device, graph.stream) as timer:
        graph.replay()
    graph.wait()
    assert torch.equal(y, torch.full_like(y, 20))
    assert 0 < timer.seconds() < 1


def test_facts(cuda):
    facts = cuda().facts
    assert facts.target.number >= 70
    assert facts.shared_bytes >= facts.shared_bytes_static >= 48 * 1024
    assert facts.ptx >= facts.target.first_ptx
    assert facts.name in facts.key


def test_workgroup_memory_above_48_kib(cuda):
    gpu = cuda()
    if gpu.facts.shared_bytes < 64 * 1024:
        pytest.skip("this GPU has no more")
    program = parse("""vyre 1
program @t workgroup(1024) {
  buffer @x : u32[1024] read binding(0)
  buffer @y : u32[1024] write binding(1)
  buffer @a : u8[40000] workgroup
  buffer @b : u32[5000] workgroup
  %i = local_id x
  %v = load @x[%i] : u32
  %o = const 3900 : u32
  %j = add %i, %o : u32
  store %v, @b[%j] : u32
  %w = cast %v : u32 -> u8
  store %w, @a[%i] : u8
  barrier workgroup
  %m = const 1023 : u32
  %k = sub %m, %i : u32
  %l = add %k, %o : u32
  %r = load @b[%l] : u32
  store %r, @y[%i] : u32
}
""").programs["t"]
    x = np.arange(1024, dtype=np.uint32)
    (y,) = gpu.dispatch(program, [x, np.zeros_like(x)], 1)
    assert np.array_equal(y, x[::-1])
