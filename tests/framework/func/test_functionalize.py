import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.func import (
    debug_unwrap,
    functionalize,
    replace_all_batch_norm_modules_,
    vmap,
)


def test_a_function_stays_what_it_is() -> None:
    assert functionalize(lambda x: x.add_(1))(fw.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="remove"):
        functionalize(lambda x: x, remove="views")


def test_the_real_tensor_is_behind_a_batched_one() -> None:
    x, seen = fw.ones((3, 2)), []
    vmap(lambda row: seen.append(debug_unwrap(row).shape) or row)(x)
    assert seen == [(3, 2)]


def test_batch_norms_without_statistics_run_in_a_batch() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert replace_all_batch_norm_modules_(model) is model
    x = fw.rand(2, 5, 3)
    found = vmap(model)(x).detach().numpy()
    wanted = [model(row).detach().numpy() for row in x]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
