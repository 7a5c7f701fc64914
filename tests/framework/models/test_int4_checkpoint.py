import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG
from vkbackend.framework import nn
from vkbackend.framework.base.errors import FileFormatError

SIZES = {**CONFIG, "hidden_size": 64, "intermediate_size": 128}
GROUP = 32


def model_with_values() -> Any:
    model = fw.models.Llama(fw.models.ModelConfig(SIZES)).eval()
    rng = np.random.default_rng(0)
    with fw.no_grad():
        for parameter in model.parameters():
            parameter.copy_(fw.tensor(rng.standard_normal(parameter.shape, np.float32)))
    return model


def word(nibbles: np.ndarray) -> np.ndarray:
    """Return eight nibbles (..., 8) as an int32, the first one lowest."""
    total = np.zeros(nibbles.shape[:-1], np.int64)
    for place in range(8):
        total |= nibbles[..., place].astype(np.int64) << 4 * place
    return total.astype(np.uint32).view(np.int32)


def packed(
    weight: np.ndarray, method: str, layout: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the parts of a weight (outputs, inputs), and what they stand for."""
    outputs, inputs = weight.shape
    groups = weight.reshape(outputs, -1, GROUP)
    low, high = groups.min(-1), groups.max(-1)
    scale = ((high - low) / 15).astype(np.float16)
    zero = np.rint(-low / scale.astype(np.float32)).clip(1, 15)
    code = np.rint(groups / scale[..., None].astype(np.float32)) + zero[..., None]
    code = code.clip(0, 15)
    meant = scale[..., None].astype(np.float32) * (code - zero[..., None])
    code = code.reshape(outputs, inputs).astype(int)
    if method == "awq":
        # Output 0 is the lowest nibble, output 2 the next.
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        q = word(code.T.reshape(inputs, -1, 8)[..., order])
        z = word(zero.T.reshape(groups.shape[1], -1, 8)[..., order].astype(int))
    else:
        q = word(code.T.reshape(-1, 8, outputs).swapaxes(1, 2))
        less = 1 if layout == "gptq" else 0
        z = word(zero.T.reshape(groups.shape[1], -1, 8).astype(int) - less)
    parts = {"qweight": q, "qzeros": z, "scales": np.ascontiguousarray(scale.T)}
    return parts, meant.reshape(outputs, inputs)


def folder(
    path: Path, method: str, layout: str = "gptq", **changes: Any
) -> tuple[Any, dict[str, Any]]:
    """Write a checkpoint; return a model of floats with the same weights."""
    model = model_with_values()
    state: dict[str, Any] = {}
    with fw.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear) and name != "lm_head":
                parts, meant = packed(module.weight.numpy(), method, layout)
                state |= {f"{name}.{part}": fw.tensor(x) for part, x in parts.items()}
                if method == "gptq":
                    order = np.arange(meant.shape[1], dtype=np.int32) // GROUP
                    state[f"{name}.g_idx"] = fw.tensor(order)
                module.weight.copy_(fw.tensor(meant))
    kept = {
        name: each.detach()
        for name, each in model.state_dict().items()
        if f"{name.removesuffix('.weight')}.qweight" not in state
    }
    settings = {"quant_method": method, "bits": 4, "group_size": GROUP}
    if method == "gptq":
        settings["checkpoint_format"] = layout
    config = {**SIZES, "quantization_config": {**settings, **changes}}
    path.joinpath("config.json").write_text(json.dumps(config))
    fw.save({**state, **kept}, path / "model.safetensors")
    return model, {**state, **kept}


@pytest.mark.parametrize(
    ("method", "layout"), [("awq", ""), ("gptq", "gptq"), ("gptq", "gptq_v2")]
)
def test_weights_are_those_packed(tmp_path: Path, method: str, layout: str) -> None:
    want, _ = folder(tmp_path, method, layout)
    model: Any = fw.models.load(tmp_path, "cpu", "float32")
    layer = model.model.layers[0].mlp.up_proj
    assert type(layer) is nn.QLinear
    assert layer.format == "int4_g32"
    np.testing.assert_array_equal(
        layer.weight.dequantize("float32").numpy(),
        want.model.layers[0].mlp.up_proj.weight.detach().numpy(),
    )
    assert type(model.lm_head) is nn.Linear
    tokens = fw.tensor([[1, 2, 3]])
    np.testing.assert_allclose(
        model(tokens).detach().numpy(), want(tokens).detach().numpy(), atol=1e-2
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bits": 8}, "`bits` is 8; accepted: 4"),
        ({"quant_method": "bitsandbytes"}, "'bitsandbytes'; accepted: 'awq', 'gptq'"),
        ({"version": "gemv"}, "`version` is 'gemv'"),
    ],
)
def test_other_methods(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    folder(tmp_path, "awq", **changes)
    with pytest.raises(FileFormatError, match=problem):
        fw.models.load(tmp_path, "cpu")


LAYER = "model.layers.1.mlp.down_proj"


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("scales", None, rf"`{LAYER}\.scales` is missing"),
        ("qzeros", fw.zeros((3, 8), dtype="int32"), r"has zeros \(3, 8\) and scales"),
        (
            "qweight",
            fw.zeros((16, 64)),
            r"packed weights of float32; they must be",
        ),
        ("qweight", fw.zeros(16, dtype="int32"), "all must be matrices"),
        ("g_idx", fw.arange(128, dtype="int32") % 4, "has inputs out of order"),
        ("scales", fw.zeros((8, 64)), r"zeros \(4, 8\) and scales \(8, 64\)"),
    ],
)
def test_damaged_parts(tmp_path: Path, part: str, value: Any, problem: str) -> None:
    _, state = folder(tmp_path, "gptq")
    state[f"{LAYER}.{part}"] = value
    kept = {name: each for name, each in state.items() if each is not None}
    fw.save(kept, tmp_path / "model.safetensors")
    with pytest.raises(FileFormatError, match=problem):
        fw.models.load(tmp_path, "cpu")
