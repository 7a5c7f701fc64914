import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.models.small import small_llama
from vkbackend.errors import ArgumentError
from vkbackend.framework import lora, nn
from vkbackend.framework.base.device import Device, GpuDevice

WIDTHS = {"hidden_size": 64, "intermediate_size": 64, "vocab_size": 32}


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 64), nn.Linear(64, 5))


def randomized(model: nn.Module) -> None:
    """Give the adapters other values than those that they start with."""
    rng = np.random.default_rng(1)
    with fw.no_grad():
        for each in lora.parameters(model):
            each.copy_(fw.tensor(0.1 * rng.standard_normal(each.shape, np.float32)))


def values(model: nn.Module, tokens: fw.Tensor) -> np.ndarray:
    with fw.no_grad():
        found: np.ndarray = model(tokens).to(fw.float32).cpu().numpy()
    return found


TOKENS = [[1, 2, 8], [0, 3, 3]]


def test_a_new_adapter_changes_nothing(place: Device) -> None:
    model = layers().to(place)
    tokens = fw.tensor(TOKENS, device=place)
    before = values(model, tokens)
    assert lora.add(model, 4, targets=["0", "1", "2"]) == ("0", "1", "2")
    np.testing.assert_array_equal(values(model, tokens), before)
    trained = [name for name, each in model.named_parameters() if each.requires_grad]
    assert trained == [
        "0.lora_embedding_A", "0.lora_embedding_B", "1.lora_A.weight",
        "1.lora_B.weight", "2.lora_A.weight", "2.lora_B.weight",
    ]  # fmt: skip
    assert len(lora.parameters(model)) == 6
    assert all(each.device == place for each in lora.parameters(model))


@pytest.mark.parametrize("rslora", [False, True])
def test_values_and_gradients_as_by_hand(place: Device, rslora: bool) -> None:
    model = layers().to(place)
    lora.add(model, 4, 6.0, targets=lambda name, layer: name in "012", rslora=rslora)
    randomized(model)
    state = {
        name: torch.tensor(each.numpy(), requires_grad="lora" in name)
        for name, each in model.cpu().state_dict().items()
    }
    model.to(place)
    scale = 6 / (2 if rslora else 4)
    tokens = torch.tensor(TOKENS)
    x = state["0.base_layer.weight"][tokens]
    x = x + scale * (
        state["0.lora_embedding_A"].T[tokens] @ state["0.lora_embedding_B"].T
    )
    for name in "12":
        base = x @ state[f"{name}.base_layer.weight"].T
        base = base + state[f"{name}.base_layer.bias"]
        low = x @ state[f"{name}.lora_A.weight"].T @ state[f"{name}.lora_B.weight"].T
        x = base + scale * low
    out = model(fw.tensor(TOKENS, device=place))
    np.testing.assert_allclose(
        out.detach().cpu().numpy(), x.detach().numpy(), rtol=1e-4, atol=1e-5
    )
    (x * x).sum().backward()
    (out * out).sum().backward()
    for name, each in model.named_parameters():
        if "lora" not in name:
            assert each.grad is None
            continue
        got, want = each.grad, state[name].grad
        assert got is not None
        assert want is not None
        np.testing.assert_allclose(
            got.cpu().numpy(), want.numpy(), rtol=1e-3, atol=1e-4
        )


def test_which_layers_are_targets() -> None:
    model = small_llama()
    names = lora.add(model, 2)
    assert len(names) == 14
    assert "model.layers.1.mlp.down_proj" in names
    assert "lm_head" not in names
    model = small_llama()
    assert lora.add(model, 2, targets=["q_proj", "lm_head"])[-1] == "lm_head"
    model = small_llama()
    assert lora.add(model, 2, targets=r".*\.1\..*\.[qk]_proj") == (
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.self_attn.k_proj",
    )


def test_wrong_use_is_refused() -> None:
    model = small_llama()
    with pytest.raises(ArgumentError, match=r"no layer is a target of \['qproj'\]"):
        lora.add(model, targets=["qproj"])
    with pytest.raises(ArgumentError, match="norm` is a RMSNorm, which has no adapter"):
        lora.add(model, targets=["norm"])
    with pytest.raises(ArgumentError, match="rank is 0; it must be at least 1"):
        lora.add(model, 0)
    with pytest.raises(ArgumentError, match=r"dropout is 1\.0"):
        lora.add(model, dropout=1.0)
    with pytest.raises(ArgumentError, match="the model is a Linear"):
        lora.add(nn.Linear(2, 2))
    with pytest.raises(ArgumentError, match="the Llama has no adapters"):
        lora.parameters(model)
    assert all(each.requires_grad for each in model.parameters())
    lora.add(model)
    with pytest.raises(ArgumentError, match="q_proj` has an adapter"):
        lora.add(model)


def test_merged_and_unmerged(place: Device) -> None:
    model = layers().to(place)
    lora.add(model, 4, targets=["0", "1", "2"])
    randomized(model)
    tokens = fw.tensor(TOKENS, device=place)
    want = values(model, tokens)
    weights = {name: each.cpu().numpy() for name, each in model.state_dict().items()}
    lora.merge(model)
    lora.merge(model)
    np.testing.assert_allclose(values(model, tokens), want, rtol=1e-4, atol=1e-4)
    lora.unmerge(model)
    for name, each in model.state_dict().items():
        np.testing.assert_allclose(each.cpu().numpy(), weights[name], atol=1e-6)
    np.testing.assert_allclose(values(model, tokens), want, rtol=1e-4, atol=1e-4)
    lora.merge(model)
    lora.remove(model)
    assert [type(each).__name__ for each in model] == ["Embedding", "Linear", "Linear"]
    np.testing.assert_allclose(values(model, tokens), want, rtol=1e-4, atol=1e-4)


def test_quantized_weights(place: Device) -> None:
    model = layers().to(place)
    nn.quantize(model, "q8_0")
    lora.add(model, 4, targets=["0", "1", "2"])
    randomized(model)
    tokens = fw.tensor(TOKENS, device=place)
    want = values(model, tokens)
    blocks = model.state_dict()["1.base_layer.weight_q8_0"].cpu().numpy()
    with pytest.raises(ArgumentError, match="the weight of `0` is q8_0; it is only"):
        lora.merge(model)
    np.testing.assert_array_equal(values(model, tokens), want)
    lora.merge(model, requantize=True)
    np.testing.assert_allclose(values(model, tokens), want, atol=0.2)
    lora.unmerge(model)
    np.testing.assert_array_equal(
        model.state_dict()["1.base_layer.weight_q8_0"].cpu().numpy(), blocks
    )
    np.testing.assert_array_equal(values(model, tokens), want)


def test_quantizing_leaves_adapters_as_they_are() -> None:
    model = layers()
    lora.add(model, 32, targets=["1"])
    report = nn.quantize(model, "q8_0")
    assert [each.name for each in report.layers] == ["0", "1.base_layer", "2"]


def test_a_weight_of_two_layers_is_not_merged() -> None:
    model = fw.models.GPT2(
        fw.models.ModelConfig(
            {"vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
        )
    )
    lora.add(model, 2, targets=["lm_head", "c_attn"])
    with pytest.raises(ArgumentError, match="`lm_head` is that of another layer"):
        lora.merge(model)


def test_conv1d_is_a_linear_layer_with_its_weight_turned() -> None:
    model = fw.models.GPT2(
        fw.models.ModelConfig(
            {"vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
        )
    )
    assert len(lora.add(model, 2)) == 4
    randomized(model)
    tokens = fw.tensor([[1, 2, 3]])
    want = values(model, tokens)
    lora.merge(model)
    np.testing.assert_allclose(values(model, tokens), want, rtol=1e-4, atol=1e-5)


def test_frozen_weights_take_no_product_and_no_memory(gpu: GpuDevice) -> None:
    """A backward pass has a product fewer for each weight that is not trained."""

    def used() -> int:
        in_use: int = gpu.gpu.memory_stats()["in_use"]
        return in_use

    def gradients(freeze: bool) -> tuple[int, int]:
        model = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(4)))
        model.to(gpu)
        lora.add(model, 4)
        if not freeze:
            model.requires_grad_(True)
        x = fw.ones((8, 256), device=gpu)
        for _ in range(2):
            model.zero_grad()
            loss = model(x).sum()
            fw.eval(loss)
            before, memory = gpu.gpu.counters.snapshot(), used()
            loss.backward()
            fw.eval(
                *[each.grad for each in model.parameters() if each.grad is not None]
            )
            after = gpu.gpu.counters.snapshot() - before
        return after.dispatches, used() - memory

    frozen, trained = gradients(True), gradients(False)
    assert frozen[0] == trained[0] - 4
    assert trained[1] - frozen[1] >= 4 * 4 * 256 * 256


@pytest.mark.wide
def test_step_under_jit_and_autocast(gpu: GpuDevice) -> None:
    """A bfloat16 model learns with float32 adapters."""
    model = small_llama(**WIDTHS).to(fw.bfloat16).to(gpu).train()
    lora.add(model, 4, dropout=0.1)
    trained = lora.parameters(model)
    assert {each.dtype for each in trained} == {fw.float32}
    optimizer = fw.optim.AdamW(trained, 1e-2)
    tokens = fw.tensor(np.arange(16).reshape(2, 8), device=gpu)

    @fw.jit
    def step(tokens: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        with fw.autocast(gpu, fw.bfloat16):
            logits = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1)
            )
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(tokens).item()) for _ in range(12)]
    assert losses[-1] < losses[0] - 0.5


def test_modes_state_and_repr() -> None:
    model = layers().eval()
    lora.add(model, 4, dropout=0.5, targets=["1"])
    layer = model[1]
    assert not layer.lora_dropout.training
    assert layer.bias is layer.base_layer.bias
    assert layer.weight is layer.base_layer.weight
    assert model.train()[1].lora_dropout.training
    assert repr(layer).startswith("LoRALinear(\n  rank=4, alpha=32.0, dropout=0.5")
    other = layers()
    lora.add(other, 4, targets=["1"])
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(
        values(other, fw.tensor(TOKENS)), values(model.eval(), fw.tensor(TOKENS))
    )
