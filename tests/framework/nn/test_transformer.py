"""Transformer layers against PyTorch: results, gradients, text, state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError

SIZE, HEADS, WIDE = 8, 2, 12
Call = Callable[[Any, Any, list[Any], dict[str, Any]], Any]


def layer(kind: str, **options: Any) -> Callable[[Any], Any]:
    """Return what makes a layer of either library."""
    options = {"dim_feedforward": WIDE, "dropout": 0.0, **options}
    return lambda lib: getattr(lib, kind)(SIZE, HEADS, **options)


def stack(kind: str, **options: Any) -> Callable[[Any], Any]:
    """Return what makes two layers and a norm of either library."""
    return lambda lib: getattr(lib, kind)(
        layer(f"{kind}Layer", **options)(lib), 2, lib.LayerNorm(SIZE)
    )


def mask(queries: int, keys: int) -> np.ndarray:
    return np.triu(np.ones((queries, keys), bool), 1)


PADDING = np.array([[False, False, False, True], [False, False, True, True]])
CASES: dict[str, tuple[Callable[[Any], Any], int, dict[str, Any]]] = {
    "encoder layer": (
        layer("TransformerEncoderLayer", batch_first=True),
        1,
        {"src_mask": mask(4, 4), "src_key_padding_mask": PADDING},
    ),
    "encoder layer, norm first": (
        layer("TransformerEncoderLayer", norm_first=True, activation="gelu"),
        1,
        {"src_mask": mask(4, 4), "is_causal": True},
    ),
    "decoder layer": (
        layer("TransformerDecoderLayer", bias=False, layer_norm_eps=1e-3),
        2,
        {"tgt_mask": mask(4, 4), "memory_key_padding_mask": PADDING},
    ),
    "decoder layer, norm first": (
        layer("TransformerDecoderLayer", norm_first=True, batch_first=True),
        2,
        {"tgt_key_padding_mask": PADDING, "memory_mask": mask(4, 4)},
    ),
    "encoder": (
        stack("TransformerEncoder"),
        1,
        {"src_key_padding_mask": PADDING},
    ),
    "decoder": (
        stack("TransformerDecoder"),
        2,
        {"tgt_mask": mask(4, 4), "tgt_is_causal": True},
    ),
    "transformer": (
        layer("Transformer", num_encoder_layers=1, num_decoder_layers=2),
        2,
        {"tgt_mask": mask(4, 4), "src_key_padding_mask": PADDING},
    ),
}


@pytest.mark.torch213
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_text_is_that_of_torch(case: str) -> None:
    make = CASES[case][0]
    assert repr(make(nn)) == repr(make(torch.nn))


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_is_as_in_torch(case: str, place: Device, rng: np.random.Generator) -> None:
    make, inputs, options = CASES[case]
    ours, theirs = make(nn), make(torch.nn)
    states = theirs.state_dict()
    ours.load_state_dict({name: fw.tensor(t.numpy()) for name, t in states.items()})
    back = {name: torch.from_numpy(t.numpy()) for name, t in ours.state_dict().items()}
    theirs.load_state_dict(back)
    assert list(back) == list(states)
    ours.to(place)
    shape = (2, 4, SIZE) if first(ours) else (4, 2, SIZE)
    arrays = [rng.normal(size=shape).astype(np.float32) for _ in range(inputs)]
    x = [fw.tensor(each, device=place, requires_grad=True) for each in arrays]
    twins = [torch.tensor(each, requires_grad=True) for each in arrays]
    found = ours(*x, **given(options, lambda m: fw.tensor(m, device=place)))
    expected = theirs(*twins, **given(options, torch.from_numpy))
    # Layers of products and norms: sums of hundreds of terms.
    assert_close(found, expected.detach().numpy(), scale=20)
    (found * found).sum().backward()
    (expected * expected).sum().backward()
    pairs: list[tuple[Any, Any]] = list(zip(x, twins))
    pairs += zip(ours.parameters(), theirs.parameters(), strict=True)
    for one, other in pairs:
        assert_close(one.grad, other.grad.numpy(), scale=200)


def first(module: nn.Module) -> bool:
    """Return whether batches are the first dimension of what a module takes."""
    attention = [m for m in module.modules() if isinstance(m, nn.MultiheadAttention)]
    return attention[0].batch_first


def given(options: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return options with their arrays converted."""
    return {
        name: convert(each) if isinstance(each, np.ndarray) else each
        for name, each in options.items()
    }


def test_layers_are_copies() -> None:
    one = nn.TransformerEncoderLayer(SIZE, HEADS, WIDE)
    encoder = nn.TransformerEncoder(one, 2, enable_nested_tensor=False)
    a, b = (each.linear1.weight for each in encoder.layers)
    assert a is not b is not one.linear1.weight
    assert (a.detach().numpy() == b.detach().numpy()).all()


def test_square_subsequent_mask() -> None:
    found = nn.Transformer.generate_square_subsequent_mask(3)
    expected = torch.nn.Transformer.generate_square_subsequent_mask(3)
    assert_close(found, expected.numpy(), exact=True)


def test_parameters_are_made_where_they_are_wanted(gpu: Device) -> None:
    sizes = SIZE, HEADS, 1, 1, WIDE
    model = nn.Transformer(*sizes, device=gpu, dtype=fw.float16)
    assert {(p.device, p.dtype) for p in model.parameters()} == {(gpu, fw.float16)}


@pytest.mark.parametrize("batch", [(2,), ()])
def test_block(batch: tuple[int, ...], place: Device, rng: np.random.Generator) -> None:
    block = nn.TransformerBlock(SIZE, HEADS, WIDE, 0.0)
    twin = torch.nn.TransformerEncoderLayer(
        SIZE, HEADS, WIDE, 0.0, "gelu", batch_first=True, norm_first=True
    )
    state = block.state_dict().items()
    twin.load_state_dict(
        {name.replace("attention", "self_attn"): torch.from_numpy(t.numpy())
         for name, t in state}
    )  # fmt: skip
    data = rng.normal(size=(*batch, 4, SIZE)).astype(np.float32)
    found = block.to(place)(fw.tensor(data, device=place))
    assert_close(found, twin(torch.from_numpy(data)).detach().numpy(), scale=20)


def test_compiled_step_is_the_eager_one(gpu: Device, rng: np.random.Generator) -> None:
    data = rng.normal(size=(4, 2, SIZE)).astype(np.float32)
    x = fw.tensor(data, device=gpu)
    models = [nn.TransformerEncoderLayer(SIZE, HEADS, WIDE, 0.0) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    for model, run in zip(models, (step, fw.jit(step))):
        optimizer = fw.optim.SGD(model.to(gpu).parameters(), 0.1)
        for _ in range(3):
            run(model, optimizer, x)
    for one, other in zip(*(model.parameters() for model in models)):
        assert_close(one, other.detach().numpy(), scale=4)


def step(model: nn.Module, optimizer: Any, x: fw.Tensor) -> fw.Tensor:
    """Train one step."""
    optimizer.zero_grad()
    loss = (model(x, is_causal=True) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="it must be 'relu', 'gelu' or a function"):
        nn.TransformerEncoderLayer(SIZE, HEADS, activation="tanh")
    model = nn.Transformer(SIZE, HEADS, 1, 1, WIDE)
    with pytest.raises(ShapeError, match="must have the same batch and vectors of 8"):
        model(fw.zeros((4, 2, SIZE)), fw.zeros((4, 3, SIZE)))
    with pytest.raises(ShapeError, match="must have the same batch and vectors of 8"):
        model(fw.zeros((4, 2, 6)), fw.zeros((4, 2, 6)))
