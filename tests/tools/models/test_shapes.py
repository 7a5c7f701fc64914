import pytest

import vkbackend.framework as fw
from tests.framework.models.small import CONFIG
from vkbackend.framework import nn
from vkbackend.framework.base.device import find_device
from vkbackend.tools.models.shapes import SHAPES, random_model

SIZES = CONFIG | {"hidden_size": 256, "intermediate_size": 96, "vocab_size": 40}


@pytest.mark.parametrize("tied", [False, True])
def test_rows_of_whole_blocks_are_quantized(tied: bool) -> None:
    fw.manual_seed(0)
    given = SIZES | {"tie_word_embeddings": tied}
    model = random_model(given, "q4_k", find_device("cpu"), fw.float32)
    kinds = {name: type(each) for name, each in model.named_modules()}
    assert kinds["model.layers.1.mlp.up_proj"] is nn.QLinear
    assert kinds["model.layers.1.mlp.down_proj"] is nn.Linear
    table, head = model.get_submodule("model.embed_tokens"), model.lm_head
    assert (table.weight.blocks is head.weight.blocks) is tied
    values = head.weight.dequantize()
    assert abs(values.std().item() - 0.02) < 0.005
    assert not any(each.requires_grad for each in model.parameters())
    assert model(fw.tensor([[1, 2]])).isfinite().all()


def test_sizes_are_those_of_the_names() -> None:
    for name, config in SHAPES.items():
        size = name.rpartition("-")[2]
        wanted = float(size[:-1]) * {"m": 1e6, "b": 1e9}[size[-1]]
        width, inner = config["hidden_size"], config["intermediate_size"]
        head, queries = config["head_dim"], config["num_attention_heads"]
        keys = config["num_key_value_heads"]
        layer = 2 * width * head * (queries + keys) + 3 * width * inner
        tables = (1 if config["tie_word_embeddings"] else 2) * config["vocab_size"]
        found = config["num_hidden_layers"] * layer + tables * width
        assert 0.9 < found / wanted < 1.25, (name, found)
