"""Policies say of the modules of a tree what PyTorch's say."""

from functools import partial

import pytest
import torch
from torch.distributed.fsdp import wrap as theirs

from vkbackend.framework import nn
from vkbackend.framework.distributed.fsdp import wrap as ours


@pytest.mark.parametrize("kind", ["Linear", "ModuleList", "MultiheadAttention"])
@pytest.mark.parametrize("recurse", [True, False])
@pytest.mark.parametrize("count", [5, 50])
def test_policies(kind: str, recurse: bool, count: int) -> None:
    answers = []
    for of, layers in ((ours, nn), (theirs, torch.nn)):
        arguments = {
            "Linear": (1, 1), "ModuleList": (), "MultiheadAttention": (2, 1)
        }[kind]  # fmt: skip
        module = getattr(layers, kind)(*arguments)
        classes = {layers.Linear}
        policies = (
            partial(of.transformer_auto_wrap_policy, transformer_layer_cls=classes),
            partial(of.lambda_auto_wrap_policy, lambda_fn=lambda each: False),
            partial(of.size_based_auto_wrap_policy, min_num_params=10),
            of.always_wrap_policy,
            of.ModuleWrapPolicy(classes),
        )
        answers.append([each(module, recurse, count) for each in policies])
    assert answers[0] == answers[1]


def test_wrap() -> None:
    layer = nn.Identity()
    assert ours.wrap(layer) is layer
    with ours.enable_wrap(wrapper_cls=nn.Sequential):
        assert ours.wrap(layer)[0] is layer
    assert ours.wrap(layer) is layer
