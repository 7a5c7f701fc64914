import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import lora, nn
from vkbackend.framework.lora.layers import Settings


def test_dtypes_of_adapters() -> None:
    settings = Settings(2, 4.0, 0.0, False)
    half = lora.LoRALinear(nn.Linear(4, 3, dtype="float16"), settings)
    assert half.lora_A.weight.dtype is fw.float32
    assert half(fw.zeros((2, 4), dtype="float16")).dtype is fw.float16
    wide = lora.LoRALinear(nn.Linear(4, 3, dtype="float64"), settings)
    assert wide.lora_B.weight.dtype is fw.float64
    table = lora.LoRAEmbedding(nn.Embedding(5, 4, dtype="bfloat16"), settings)
    assert table.lora_embedding_A.dtype is fw.float32
    assert table(fw.tensor([1, 2])).dtype is fw.bfloat16


def test_a_padding_vector_gets_no_gradient() -> None:
    layer = lora.LoRAEmbedding(nn.Embedding(5, 4, 0), Settings(2, 4.0, 0.0, False))
    layer(fw.tensor([0, 2])).sum().backward()
    grad = layer.lora_embedding_A.grad
    assert grad is not None
    np.testing.assert_array_equal(grad.numpy()[:, 0], [0, 0])
    assert np.all(grad.numpy()[:, 2] != 0)


def test_dropout_acts_on_the_adapter_alone() -> None:
    layer = lora.LoRALinear(nn.Linear(64, 3), Settings(2, 4.0, 0.5, False))
    x = fw.ones((4, 64))
    np.testing.assert_array_equal(
        layer(x).detach().numpy(), layer.base_layer(x).detach().numpy()
    )
    nn.init.normal_(layer.lora_B.weight)
    assert not np.array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())
    layer.eval()
    np.testing.assert_array_equal(layer(x).detach().numpy(), layer(x).detach().numpy())
