"""Lazy layers beside PyTorch's: before, in and after the first call."""

import copy
import inspect
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


def shapes(module: Any) -> dict[str, tuple[int, ...]]:
    return {key: tuple(each.shape) for key, each in module.state_dict().items()}


def check_first_call(name: str, args: Any, shape: tuple[int, ...]) -> None:
    """Compare a layer of shape, text and state with PyTorch's."""
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    parameters = [
        [
            (each.name, each.default)
            for each in inspect.signature(kind).parameters.values()
        ]
        for kind in (type(ours), type(theirs))
    ]
    assert parameters[0] == parameters[1]
    assert repr(ours) == repr(theirs)
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    copied = copy.deepcopy(ours)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    theirs(torch.tensor(x))
    for each in (ours, copied):
        each(fw.tensor(x))
        assert type(each).__name__ == type(theirs).__name__
        assert repr(each) == repr(theirs)
        assert shapes(each) == shapes(theirs)
    ours.load_state_dict(
        {k: fw.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    )
    results = (
        ours(fw.tensor(x)).detach().numpy(),
        theirs(torch.tensor(x)).detach().numpy(),
    )
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)
