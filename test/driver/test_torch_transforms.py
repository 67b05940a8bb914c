"""torch.vmap and the other transforms of torch.func, over operators and kernels: what they give equals a loop over the batch."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import BadInputs, kernels

torch = pytest.importorskip("torch")

import vyre_opt.torch as vyre_torch  # noqa: E402  # imports torch

# of torch's own, when a first Function runs under a transform
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
BATCH = 3


class Case(NamedTuple):
    """A function of tensors, and the tensors of an item.  `is_differentiable`: in those that are floats."""

    function: Callable[..., Any]
    make: Callable[[Any], list[Any]]
    is_differentiable: bool = False


def floats(*shape: int) -> Callable[[Any], Any]:
    return lambda draw: torch.randn(shape, generator=draw)


def numbers(below: int, *shape: int, dtype: Any = None) -> Callable[[Any], Any]:
    return lambda draw: torch.randint(below, shape, generator=draw).to(dtype or torch.int64)


def texts(encode: Callable[[bytes], bytes]) -> Callable[[Any], Any]:
    def make(draw: Any) -> Any:
        plain = torch.randint(256, (31,), generator=draw)
        return torch.tensor(list(encode(bytes(plain.tolist()))), dtype=torch.uint8)

    return make


def case(function: Callable[..., Any], *tensors: Callable[[Any], Any], differentiable: bool = False) -> Case:
    return Case(function, lambda draw: [make(draw) for make in tensors], differentiable)


OPS = torch.ops.vyre
CORES = (floats(3, 1, 2, 4), floats(5, 4, 3, 2), floats(4, 2, 2, 1))
CHAIN = (floats(4), floats(4, 6), floats(6, 5))
INT32 = torch.int32
CASES: dict[str, Case] = {
    "ops.softmax": case(OPS.softmax, floats(4, 7), differentiable=True),
    "ops.softmax of one number": case(OPS.softmax, floats(), differentiable=True),
    "ops.prefix_scan": case(OPS.prefix_scan, floats(4, 7), differentiable=True),
    "ops.tt_chain": case(lambda acc, *cores: OPS.tt_chain(acc, cores), *CHAIN, differentiable=True),
    "ops.tt_embedding": case(
        lambda indices, *cores: OPS.tt_embedding(cores, indices),
        numbers(60, 2, 3),
        *CORES,
        differentiable=True,
    ),
    "ops.base64_decode": case(OPS.base64_decode, texts(base64.b64encode)),
    "softmax": case(kernels.softmax, floats(4, 7), differentiable=True),
    "softmax by ref": case(lambda x: kernels.softmax(x, dispatcher="ref"), floats(4, 7)),
    "prefix_scan": case(kernels.prefix_scan, floats(4, 7), differentiable=True),
    "tt_chain": case(lambda acc, *cores: kernels.tt_chain(acc, cores), *CHAIN, differentiable=True),
    "tt_embedding": case(
        lambda indices, *cores: kernels.tt_embedding(cores, indices),
        numbers(60, 2),
        *CORES,
        differentiable=True,
    ),
    "tt_embedding by ref": case(
        lambda indices, *cores: kernels.tt_embedding(cores, indices, dispatcher="ref"), numbers(60, 2), *CORES
    ),
    "base64_decode": case(kernels.base64_decode, texts(base64.b64encode)),
    "hex_decode": case(kernels.hex_decode, texts(lambda plain: plain.hex().encode())),
    "matmul": case(
        lambda a, b, bias: kernels.matmul(a, b, bias, "relu"), floats(2, 5, 6), floats(6, 4), floats(4)
    ),
    "tt_contract_step": case(kernels.tt_contract_step, floats(6), floats(6, 5)),
    "matvec_fixed": case(kernels.matvec_fixed, numbers(9, 4, 6, dtype=INT32), numbers(9, 6, dtype=INT32)),
    "softmax_step": case(kernels.softmax_step, numbers(9, 12, dtype=torch.uint32)),
    "TTChain": case(kernels.TTChain([torch.arange(24.0).reshape(4, 6), torch.ones(6, 2)]), floats(4)),
    "TTTable": case(
        kernels.TTTable([torch.arange(24.0).reshape(3, 1, 2, 4), torch.ones(5, 4, 3, 1)]), numbers(15, 2, 3)
    ),
}
DIFFERENTIABLE = [name for name, each in CASES.items() if each.is_differentiable]


def drawn(name: str, seed: int, *extents: int) -> list[Any]:
    """The tensors of a case, each with the extents of batches before its own."""
    draw = torch.Generator().manual_seed(seed)
    if not extents:
        return CASES[name].make(draw)
    items = [drawn(name, 1000 * seed + k, *extents[1:]) for k in range(extents[0])]
    return [torch.stack(tensors) for tensors in zip(*items, strict=True)]


def looped(function: Callable[..., Any], tensors: list[Any], dims: tuple[int | None, ...]) -> Any:
    size = next(t.shape[dim] for t, dim in zip(tensors, dims, strict=True) if dim is not None)
    items = [
        [t if dim is None else t.select(dim, k) for t, dim in zip(tensors, dims, strict=True)]
        for k in range(size)
    ]
    return torch.stack([function(*item) for item in items])


def batched_axes(count: int) -> list[tuple[int, ...]]:
    """Which of the tensors are a batch: all, and each alone."""
    return [tuple(range(count)), *((k,) for k in range(count) if count > 1)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_vmap_is_a_loop(name: str, device: str) -> None:
    """Bit by bit, wherever the batch is among the axes; once more by the plan of a call without a transform."""
    if device == "cuda" and ("by ref" in name or name.startswith("TT")):
        pytest.skip("of main memory")
    function = CASES[name].function
    items, batch = drawn(name, 1), drawn(name, 2, BATCH)
    for which in batched_axes(len(items)):
        for axis in (0, -1):
            tensors = [
                b.movedim(0, axis) if k in which else x
                for k, (x, b) in enumerate(zip(items, batch, strict=True))
            ]
            tensors = [tensor.to(device) for tensor in tensors]
            dims = tuple(axis if k in which else None for k in range(len(items)))
            expected = looped(function, tensors, dims)
            got = torch.vmap(function, in_dims=dims)(*tensors)
            assert got.dtype == expected.dtype
            assert torch.equal(got, expected), (which, axis)
            last = torch.vmap(function, in_dims=dims, out_dims=-1)(*tensors)
            assert torch.equal(last, expected.movedim(0, -1))


@pytest.mark.parametrize("name", quick(CASES, keep=6))
def test_nested_vmap(name: str) -> None:
    function = CASES[name].function
    tensors = drawn(name, 3, 2, BATCH)
    expected = torch.stack([looped(function, [t[k] for t in tensors], (0,) * len(tensors)) for k in range(2)])
    assert torch.equal(torch.vmap(torch.vmap(function))(*tensors), expected)
    swapped = [tensor.movedim(1, 0) for tensor in tensors]
    inner_is_first = torch.vmap(torch.vmap(function), in_dims=1)(*swapped)
    assert torch.equal(inner_is_first, expected)


def loss_of(name: str) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """A number of the tensors of a case, and which of them are floats."""
    function = CASES[name].function
    places = [k for k, tensor in enumerate(drawn(name, 1)) if tensor.is_floating_point()]

    def loss(*tensors: Any) -> Any:
        result = function(*tensors)
        return (result.sin() * torch.linspace(1, 2, result.numel()).reshape(result.shape)).sum()

    return loss, tuple(places)


def gradients_by_autograd(loss: Callable[..., Any], places: tuple[int, ...], tensors: list[Any]) -> list[Any]:
    leaves = [t.clone().requires_grad_() if k in places else t for k, t in enumerate(tensors)]
    return list(torch.autograd.grad(loss(*leaves), [leaves[k] for k in places]))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_vmap_of_grad(name: str) -> None:
    loss, places = loss_of(name)
    tensors = drawn(name, 4, BATCH)
    got = torch.vmap(torch.func.grad(loss, argnums=places))(*tensors)
    for k in range(BATCH):
        wanted = gradients_by_autograd(loss, places, [tensor[k] for tensor in tensors])
        for actual, expected in zip(got, wanted, strict=True):
            torch.testing.assert_close(actual[k], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_grad_of_vmap(name: str) -> None:
    """By torch.func and by autograd, of a batch in some of the arguments."""
    loss, places = loss_of(name)
    items, batch = drawn(name, 5), drawn(name, 6, BATCH)
    for which in batched_axes(len(items)):
        tensors = [b if k in which else x for k, (x, b) in enumerate(zip(items, batch, strict=True))]
        dims = tuple(0 if k in which else None for k in range(len(items)))

        def total(*tensors: Any, dims: Any = dims) -> Any:
            return torch.vmap(loss, in_dims=dims)(*tensors).sum()

        def total_of_loop(*tensors: Any, dims: Any = dims) -> Any:
            return looped(loss, list(tensors), dims).sum()

        wanted = gradients_by_autograd(total_of_loop, places, tensors)
        for got in (
            torch.func.grad(total, argnums=places)(*tensors),
            gradients_by_autograd(total, places, tensors),
        ):
            for actual, expected in zip(got, wanted, strict=True):
                torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_gradients(name: str) -> None:
    """grad of grad, of an item, beside autograd twice."""
    loss, places = loss_of(name)
    tensors = drawn(name, 7)
    place = places[0]

    def slope(x: Any) -> Any:
        (g,) = (torch.func.grad(loss, argnums=(place,))(*tensors[:place], x, *tensors[place + 1 :]),)
        return (g[0] ** 2).sum()

    x = tensors[place].clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(*tensors[:place], x, *tensors[place + 1 :]), [x], create_graph=True)
    (wanted,) = torch.autograd.grad((first**2).sum(), [x])
    torch.testing.assert_close(torch.func.grad(slope)(tensors[place]), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_forward_derivatives(name: str) -> None:
    """Columns of jacfwd, which is vmap of jvp, are those of jacrev, which is vmap of vjp; and the Hessian is that of
    jacrev twice."""
    loss, places = loss_of(name)
    tensors = drawn(name, 9)
    function = CASES[name].function
    for actual, expected in zip(
        torch.func.jacfwd(function, argnums=places)(*tensors),
        torch.func.jacrev(function, argnums=places)(*tensors),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
        assert expected.abs().sum() > 0 or name == "ops.softmax of one number"
    twice = torch.func.jacrev(torch.func.jacrev(loss, argnums=places[-1]), argnums=places[-1])(*tensors)
    hessian = torch.func.hessian(loss, argnums=places[-1])(*tensors)
    torch.testing.assert_close(hessian, twice, rtol=1e-4, atol=1e-4)


def test_dual_tensors() -> None:
    """Tangents without torch.func."""
    x, tangent = torch.randn(2, 5), torch.randn(2, 5)
    wanted = torch.func.jvp(lambda x: torch.softmax(x, -1), (x,), (tangent,))[1]
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(OPS.softmax(dual)).tangent, wanted)


def test_softmax_and_embedding_of_a_batch_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("softmax", "tt_embedding"):
        kernel = getattr(kernels, name)
        monkeypatch.setattr(
            kernels, name, lambda *arguments, kernel=kernel: calls.append(1) or kernel(*arguments)
        )
    torch.vmap(torch.vmap(OPS.softmax))(torch.randn(3, 4, 5))
    indices, *cores = drawn("ops.tt_embedding", 8, BATCH)
    torch.vmap(lambda numbers: OPS.tt_embedding([core[0] for core in cores], numbers))(indices)
    assert len(calls) == 2


def test_a_plan_without_a_transform_serves_no_call_under_one() -> None:
    x = torch.randn(BATCH, 4, 6)
    for item in x:
        kernels.softmax_step(item.abs().to(torch.uint32))
    counts = (x.abs() * 9).to(torch.uint32)
    expected = torch.stack([kernels.softmax_step(item) for item in counts])
    assert torch.equal(torch.vmap(kernels.softmax_step)(counts), expected)


@pytest.mark.parametrize(
    ("function", "tensors", "message"),
    [
        (
            kernels.prefix_scan,
            [torch.zeros(0, 4)],
            "over an axis of length 0: there is no item to call it on",
        ),
        (
            kernels.base64_decode,
            [torch.tensor([list(b"YWI="), list(b"YWJj")], dtype=torch.uint8)],
            r"have one shape, and these have \(2,\), \(3,\): call it on each",
        ),
        (
            lambda x: kernels.softmax(x, out=torch.empty(4)),
            [torch.zeros(2, 4)],
            "softmax under torch.vmap makes its result: leave out= out",
        ),
        (
            lambda text: kernels.decode_scan(text, [b"a"]),
            [torch.zeros(2, 4, dtype=torch.uint8)],
            r"text has no memory under torch\.vmap or another transform of torch\.func",
        ),
        (
            lambda a: torch.func.jvp(lambda a: kernels.matmul(a, torch.ones(3, 2)), (a,), (a,))[1],
            [torch.zeros(2, 4, 3)],
            "no derivative, forward or backward",
        ),
        (
            torch.func.grad(lambda a: kernels.matmul(a, torch.ones(3, 2)).sum()),
            [torch.zeros(2, 4, 3)],
            "matmul has no gradient and is no operator of torch",
        ),
    ],
)
def test_what_a_batch_cannot_be(function: Any, tensors: list[Any], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        torch.vmap(function)(*tensors)


def test_no_gradient_is_an_error_of_a_batch_too() -> None:
    a = torch.ones(2, 4, 3, requires_grad=True)
    with pytest.raises(BadInputs, match="matmul has no gradient and is no operator of torch"):
        torch.vmap(lambda item: kernels.matmul(item, torch.ones(3, 2)))(a)
    detached = torch.vmap(lambda item: kernels.matmul(item.detach(), torch.ones(3, 2)))
    assert torch.equal(detached(a), torch.full((2, 4, 2), 3.0))


def test_a_factor_without_a_gradient() -> None:
    """What is detached may go through any kernel, at every level."""
    x = torch.randn(BATCH, 4, 2)
    slopes = torch.func.grad(lambda x: (x * kernels.matmul(x.detach(), torch.eye(2))).sum())
    assert torch.equal(slopes(x), x)
    assert torch.equal(torch.vmap(slopes)(x), x)


def test_a_program_as_an_operator() -> None:
    """Of two outputs."""
    text = """vyre 1
program @sums workgroup(4) grid(1) {
  buffer @x : f32[4] read binding(0)
  buffer @y : f32[4] read binding(1)
  buffer @both : f32[4] write binding(2)
  buffer @twice : f32[4] write binding(3)
  %i = local_id x
  %a = load @x[%i] : f32
  %b = load @y[%i] : f32
  %sum = add %a, %b : f32
  %two = add %a, %a : f32
  store %sum, @both[%i] : f32
  store %two, @twice[%i] : f32
}
"""
    sums = vyre_torch.register("vyretest::sums", vyre_opt.compile(text))
    x, y = torch.randn(4, 5), torch.randn(4)
    both, twice = torch.vmap(sums, in_dims=(1, None), out_dims=1)(x, y)
    assert torch.equal(both, x + y[:, None])
    assert torch.equal(twice, 2 * x)
