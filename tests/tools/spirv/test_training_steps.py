"""The program whose kernels are compiled for other GPUs: its models train."""

import vkbackend.framework as fw
from vkbackend.framework.nn import functional
from vkbackend.tools.spirv.training_steps import convolutional_network, language_model


def test_every_parameter_has_a_gradient() -> None:
    words = fw.arange(12).reshape(2, 6)
    images = fw.randn(2, 3, 16, 16)
    for model, x in (
        (language_model(16, 16), words),
        (convolutional_network(), images),
    ):
        logits = model(x).flatten(0, -2)
        labels = fw.zeros(len(logits), dtype=fw.int64)
        functional.cross_entropy(logits, labels).backward()
        assert all(each.grad is not None for each in model.parameters())
