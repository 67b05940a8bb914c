"""vyre_opt.torch: operators with gradients, under autograd and torch.compile, against torch's own in f64."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre_opt
from vyre_opt import BadInputs, kernels

torch = pytest.importorskip("torch")

import vyre_opt.torch as vyre_torch  # noqa: E402  # imports torch
from vyre_opt.torch import TTEmbedding  # noqa: E402

# torch.compile uses what Python 3.12 deprecates
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
TEXT = base64.b64encode(b"a text whose base64 is padded..")

CORES = {
    "two cores": ((5, 1, 4, 3), (7, 3, 2, 1)),
    "three cores": ((3, 1, 2, 4), (5, 4, 3, 2), (4, 2, 2, 1)),
    "four cores": ((2, 1, 2, 2), (3, 2, 1, 3), (2, 3, 2, 2), (5, 2, 3, 1)),
}


def embedding_reference(indices: Any, *cores: Any) -> Any:
    table = cores[0][:, 0]
    for core in cores[1:]:
        table = torch.einsum("iar,jrqs->ijaqs", table, core)
        table = table.reshape(-1, table.shape[2] * table.shape[3], table.shape[4])
    return table[..., 0][indices]


REFERENCES: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "prefix_scan": lambda x: x.flatten().cumsum(0).reshape(x.shape),
    "tt_chain": lambda acc, *cores: reduce(torch.matmul, cores, acc.flatten()),
    **dict.fromkeys(CORES, embedding_reference),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": kernels.softmax,
    "prefix_scan": kernels.prefix_scan,
    "tt_chain": lambda acc, *cores: kernels.tt_chain(acc, cores),
    **{name: lambda indices, *cores: kernels.tt_embedding(cores, indices) for name in CORES},
}
"""By what is computed; each takes its tensors one after the other, as the reference does."""


def tensors_of(name: str, device: str = "cpu", dtype: Any = None) -> list[Any]:
    """Arguments for `FUNCTIONS[name]`; those in floats require a gradient."""
    draw = torch.Generator().manual_seed(5)

    def floats(*shape: int) -> Any:
        drawn = torch.randn(shape, generator=draw, dtype=torch.float64)
        return drawn.to(device, dtype or torch.float32).requires_grad_()

    if name == "tt_chain":
        return [floats(2, 2), floats(4, 6), floats(6, 5), floats(5, 3)]
    if name not in CORES:
        return [floats(3, 5, 7)]
    rows = int(np.prod([shape[0] for shape in CORES[name]]))
    # some indices twice: their gradients add up
    indices = torch.randint(rows, (4, 6), generator=draw).repeat(1, 2).to(device)
    return [indices, *[floats(*shape) for shape in CORES[name]]]


def as_f64(tensor: Any) -> Any:
    copy = tensor.detach().cpu()
    return copy.double().requires_grad_(tensor.requires_grad) if copy.is_floating_point() else copy


def gradients(result: Any, tensors: list[Any]) -> list[Any]:
    """Of a weighted sum of a result, with the same weights in each call."""
    weights = torch.linspace(-1, 2, result.numel(), dtype=torch.float64).reshape(result.shape)
    loss = (result * weights.to(result)).sum()
    return list(torch.autograd.grad(loss, [tensor for tensor in tensors if tensor.requires_grad]))


def check(name: str, function: Callable[..., Any], tensors: list[Any], tolerance: float = 1e-5) -> None:
    """The result of a function and its gradients, beside the reference on f64."""
    exact = [as_f64(tensor) for tensor in tensors]
    result, expected = function(*tensors), REFERENCES[name](*exact)
    assert result.dtype == tensors[-1].dtype
    torch.testing.assert_close(result.cpu().double(), expected, rtol=tolerance, atol=tolerance)
    for actual, wanted in zip(gradients(result, tensors), gradients(expected, exact), strict=True):
        assert actual.dtype == tensors[-1].dtype
        torch.testing.assert_close(actual.cpu().double(), wanted, rtol=tolerance, atol=10 * tolerance)


# --- gradients


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_has_right_gradients(name: str) -> None:
    """What the others are compared with, against differences."""
    tensors = tensors_of(name, dtype=torch.float64)
    assert torch.autograd.gradcheck(REFERENCES[name], tensors)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", REFERENCES)
def test_result_and_gradients(name: str, device: str) -> None:
    check(name, FUNCTIONS[name], tensors_of(name, device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["softmax", "three cores"])
def test_bf16(name: str, device: str) -> None:
    check(name, FUNCTIONS[name], tensors_of(name, device, torch.bfloat16), 3e-2)


@pytest.mark.parametrize("name", ["tt_chain", "three cores"])
def test_gradients_of_some_of_the_cores(name: str) -> None:
    """Those that require none get none, and the others are the same."""
    tensors = tensors_of(name)
    for tensor in tensors[:-2]:
        tensor.requires_grad_(False)
    check(name, FUNCTIONS[name], tensors)
    FUNCTIONS[name](*tensors).sum().backward()
    assert [tensor.grad is not None for tensor in tensors] == [tensor.requires_grad for tensor in tensors]


@pytest.mark.parametrize("name", REFERENCES)
def test_gradients_of_gradients(name: str) -> None:
    results = []
    for function, tensors in (
        (FUNCTIONS[name], tensors_of(name)),
        (REFERENCES[name], [as_f64(tensor) for tensor in tensors_of(name)]),
    ):
        inputs = [tensor for tensor in tensors if tensor.requires_grad]
        loss = (function(*tensors) ** 2).sum()
        first = torch.autograd.grad(loss, inputs, create_graph=True)
        results.append(torch.autograd.grad(sum((g**2).sum() for g in first), inputs))
    for actual, wanted in zip(*results, strict=True):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (4, 1)])
@pytest.mark.parametrize("name", ["softmax", "prefix_scan"])
def test_shapes_at_the_edge(name: str, shape: tuple[int, ...]) -> None:
    """The shape of the result is that of the argument, and so is that of the gradient."""
    x = torch.full(shape, 0.5, requires_grad=True)
    y = getattr(torch.ops.vyre, name)(x)
    expected = torch.softmax(x, -1) if name == "softmax" else x.flatten().cumsum(0).reshape(x.shape)
    torch.testing.assert_close(y, expected)
    y.sum().backward()
    (wanted,) = torch.autograd.grad(expected.sum(), [x])
    torch.testing.assert_close(x.grad, wanted)


def test_arguments_that_are_not_contiguous() -> None:
    x = torch.randn(6, 4, requires_grad=True)
    y = kernels.softmax(x.T)
    torch.testing.assert_close(y, torch.softmax(x.T, -1))
    torch.testing.assert_close(
        *[torch.autograd.grad((z * x.T).sum(), [x])[0] for z in (y, torch.softmax(x.T, -1))]
    )


# --- torch's own checks, and torch.compile

ARGUMENTS: dict[str, Callable[[str], tuple[Any, ...]]] = {
    "softmax": lambda device: (*tensors_of("softmax", device),),
    "prefix_scan": lambda device: (*tensors_of("prefix_scan", device),),
    "tt_chain": lambda device: (tensors_of("tt_chain", device)[0], tensors_of("tt_chain", device)[1:]),
    "tt_embedding": lambda device: (
        tensors_of("three cores", device)[1:],
        tensors_of("three cores", device)[0],
    ),
    "base64_decode": lambda device: (torch.tensor(list(TEXT), dtype=torch.uint8, device=device),),
}


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # of the check itself
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_opcheck(name: str, device: str) -> None:
    """Schema, fake kernel, autograd, and tracing with dynamic shapes, as torch checks them."""
    passed = torch.library.opcheck(getattr(torch.ops.vyre, name).default, ARGUMENTS[name](device))
    assert set(passed.values()) == {"SUCCESS"}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", REFERENCES)
def test_compile_without_a_break(name: str, backend: str, device: str) -> None:
    """The functions of `vyre_opt.kernels` become operators in the graph."""
    torch._dynamo.reset()
    function = FUNCTIONS[name]
    compiled = torch.compile(lambda *tensors: function(*tensors) * 1, backend=backend, fullgraph=True)
    check(name, compiled, tensors_of(name, device))


def test_compile_of_an_operator() -> None:
    torch._dynamo.reset()
    graphs = []

    def keep(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    compiled = torch.compile(lambda x: torch.ops.vyre.softmax(2 * x) + 1, backend=keep, fullgraph=True)
    x = torch.randn(3, 5)
    torch.testing.assert_close(compiled(x), torch.softmax(2 * x, -1) + 1)
    assert len(graphs) == 1
    assert "vyre.softmax" in graphs[0].code


def test_compile_of_a_length_that_depends_on_data(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    compiled = torch.compile(
        lambda text: kernels.base64_decode(text) + 1, backend="aot_eager", fullgraph=True
    )
    for plain in (b"abc", b"abcd", b"abcde"):
        text = torch.tensor(list(base64.b64encode(plain)), dtype=torch.uint8)
        assert (compiled(text) - 1).tolist() == list(plain)


def test_tensors_of_a_tracer() -> None:
    """They have shapes and no data, also where an array of the same shape was planned before."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    x = torch.randn(3, 5)
    kernels.softmax(x)
    with FakeTensorMode() as mode:
        y = kernels.softmax(mode.from_tensor(x))
    assert type(y) is not torch.Tensor
    assert y.shape == x.shape


def test_a_type_that_a_kernel_lacks_is_refused_while_tracing() -> None:
    torch._dynamo.reset()
    with pytest.raises(BadInputs, match=r"x holds f32, f16, bf16, not float64"):
        torch.ops.vyre.softmax(torch.zeros(3, dtype=torch.float64))
    compiled = torch.compile(torch.ops.vyre.softmax, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"x holds torch.float32, .*, not torch.float64"):
        compiled(torch.zeros(3, dtype=torch.float64))


# --- kernels without a gradient


def test_no_gradient_is_an_error_and_no_silent_detachment() -> None:
    acc, core = torch.randn(4, requires_grad=True), torch.randn(4, 6)
    message = r"tt_contract_step has no gradient .* x\.detach\(\) .* torch\.ops\.vyre\.softmax"
    with pytest.raises(BadInputs, match=message):
        kernels.tt_contract_step(acc, core)
    with torch.no_grad():  # planned here: the plan must not serve the call after it
        plain = kernels.tt_contract_step(acc, core)
    with pytest.raises(BadInputs, match=message):
        kernels.tt_contract_step(acc, core)
    torch.testing.assert_close(kernels.tt_contract_step(acc.detach(), core), plain)


@pytest.mark.parametrize("option", ["dispatcher", "out"])
def test_options_that_an_operator_lacks(option: str) -> None:
    x = torch.randn(3, 5, requires_grad=True)
    options: dict[str, Any] = {option: "cpu" if option == "dispatcher" else torch.empty(3, 5)}
    with pytest.raises(BadInputs, match=r"softmax with a gradient is torch\.ops\.vyre\.softmax"):
        kernels.softmax(x, **options)
    assert not kernels.softmax(x.detach(), **options).requires_grad


def test_a_plan_without_gradients_serves_no_call_with_them() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    with torch.no_grad():
        assert not kernels.softmax(x).requires_grad
    assert kernels.softmax(x).requires_grad
    assert not kernels.softmax(x.detach()).requires_grad


# --- TTEmbedding


def test_embedding_module() -> None:
    torch.manual_seed(0)
    module = TTEmbedding((5, 6, 7), (2, 3, 4), (4, 5))
    assert (module.num_embeddings, module.embedding_dim) == (210, 24)
    assert [tuple(core.shape) for core in module.cores] == [(5, 1, 2, 4), (6, 4, 3, 5), (7, 5, 4, 1)]
    table = module.table()
    indices = torch.tensor([[0, 209, 7], [7, 100, 42]])
    torch.testing.assert_close(module(indices), table[indices])
    torch.testing.assert_close(module(torch.tensor(9)), table[9])
    torch.testing.assert_close(table, embedding_reference(torch.arange(210), *module.cores))
    assert repr(module) == "TTEmbedding(\n  210, 24, ranks=[4, 5]\n  " + repr(module).split("\n  ", 2)[2]
    copy = TTEmbedding((5, 6, 7), (2, 3, 4), (4, 5))
    copy.load_state_dict(module.state_dict())
    torch.testing.assert_close(copy.table(), table)


def test_the_first_table_of_an_embedding_has_variance_1() -> None:
    torch.manual_seed(0)
    assert 0.8 < float(TTEmbedding((40, 50), (8, 8), (16,)).table().detach().std()) < 1.2


def test_embedding_errors() -> None:
    with pytest.raises(BadInputs, match="2 to 4 of p, as many of q, and one rank less"):
        TTEmbedding((5, 6), (2, 3), (4, 5))
    with pytest.raises(BadInputs, match="index 30 of a table of 30 rows"):
        TTEmbedding((5, 6), (2, 3), (4,))(torch.tensor([30]))


# --- a program of the user

SCALE = """vyre 1

program @scale workgroup(64) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : f32
    %twice = add %v, %v : f32
    store %twice, @y[%i] : f32
  }
}
"""
PAIRS = """vyre 1

program @pairs workgroup(64) grid(1) {
  buffer @lambda : f32[64] read binding(0)
  buffer @both   : vec<2 x f32>[64] write binding(1)
  buffer @ids    : u32[64] write binding(2)
  %i = global_id x
  %v = load @lambda[%i] : f32
  %two = splat %v : vec<2 x f32>
  store %two, @both[%i] : vec<2 x f32>
  store %i, @ids[%i] : u32
}
"""


@pytest.fixture(scope="module")
def double() -> Any:
    return vyre_torch.register(
        "vyretest::double",
        vyre_opt.compile(SCALE),
        grid=lambda x: -(-x.numel() // 64),
        lengths={"y": lambda x: x.numel()},
    )


def test_a_program_as_an_operator(double: Any) -> None:
    x = torch.randn(100)
    torch.testing.assert_close(double(x), 2 * x)
    torch.testing.assert_close(torch.ops.vyretest.double(x), 2 * x)
    assert set(torch.library.opcheck(double, (x,)).values()) == {"SUCCESS"}
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.ops.vyretest.double(x) + 1, backend="aot_eager", fullgraph=True)
    for size in (100, 130, 170):  # the second size makes the shape dynamic
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), 2 * x + 1)


def test_a_program_gets_a_gradient(double: Any) -> None:
    x = torch.randn(100, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        double(x).sum().backward()
    double.register_autograd(lambda ctx, g: 2 * g)
    double(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((100,), 2.0))


def test_a_program_with_several_outputs_and_vectors() -> None:
    """A name that is a keyword of Python does no harm."""
    pairs = vyre_torch.register("vyretest::pairs", vyre_opt.compile(PAIRS))
    x = torch.randn(64)
    both, numbers = pairs(x)
    torch.testing.assert_close(both, torch.stack([x, x], 1))
    assert numbers.dtype == torch.uint32
    assert numbers.tolist() == list(range(64))
    assert set(torch.library.opcheck(pairs, (x,)).values()) == {"SUCCESS"}


def test_outputs_of_several_dimensions() -> None:
    """What a tracer is told of them is what a call gives: torch.compile needs the shapes before anything runs."""
    text = (
        SCALE.replace("vyre 1", "vyre 2")
        .replace("@scale", "@rows")
        .replace("f32[?] write", "f32[?, 4] write")
    )
    text = text.replace("store %twice, @y[%i]", "%zero = const 0 : u32 store %twice, @y[%i, %zero]")
    rows = vyre_torch.register(
        "vyretest::rows", vyre_opt.compile(text), grid=1, lengths={"y": lambda x: (x.numel(), 4)}
    )
    x = torch.randn(9)
    assert tuple(rows(x).shape) == (9, 4)
    torch.testing.assert_close(rows(x)[:, 0], 2 * x)
    assert set(torch.library.opcheck(rows, (x,)).values()) == {"SUCCESS"}


def test_a_pipeline_as_an_operator() -> None:
    heat = vyre_opt.compile(
        SCALE
        + """
pipeline @main {
  buffer @a : f32[?] live_in live_out
  buffer @b : f32[?]
  launch @scale grid(ceil_div(len(@a), 64)) (@a, @b)
  launch @scale grid(ceil_div(len(@b), 64)) (@b, @a)
}
"""
    )
    operator = vyre_torch.register("vyretest::four", heat, lengths={"b": lambda a: a.numel()})
    a = torch.randn(100)
    before = a.clone()
    torch.testing.assert_close(operator(a), 4 * a)
    assert torch.equal(a, before)
    assert set(torch.library.opcheck(operator, (a,)).values()) == {"SUCCESS"}


def test_an_output_without_a_length_is_refused() -> None:
    with pytest.raises(BadInputs, match=r"buffer @y has an open size: pass lengths=\{'y': n\}"):
        vyre_torch.register("vyretest::open", vyre_opt.compile(SCALE), grid=1)


def test_torch_is_imported_only_when_asked_for() -> None:
    code = (
        "import sys, numpy, vyre_opt; from vyre_opt import kernels\n"
        "kernels.softmax(numpy.zeros((2, 3), numpy.float32)); assert 'torch' not in sys.modules\n"
        "import vyre_opt.torch, torch; assert torch.ops.vyre.softmax"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
