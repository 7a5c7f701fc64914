"""Dtypes that data get beside PyTorch, and elements that are refused."""

from typing import Any

import numpy as np
import pytest
import torch

from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.eager.host_data import host_array


@pytest.mark.parametrize(
    "data",
    [
        1,
        1.5,
        True,
        1j,
        [1, 2],
        [1, 2.5],
        [[1.0], [2.0]],
        [],
        [[]],
        np.float64(1),
        np.ones(2),
        [np.float32(1), 2],
        [2.5, np.float16(1)],
        [np.float16(1), 2],
        [[np.float32(1)], [2]],
        [np.int64(1), 2.0],
        [np.float64(1), 2],
        [np.float32(1), 1j],
        [np.complex64(1), 2],
        [np.ones(1, np.float32), [2]],
        [np.arange(2), [1.5, 2]],
        (np.int32(1), np.float16(2)),
        [True, np.float32(1)],
    ],
)
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
def test_dtypes_are_pytorchs(data: Any) -> None:
    array, dtype = host_array(data, None)
    wanted = torch.tensor(data)
    assert (array.shape, f"torch.{dtype.name}") == (wanted.shape, str(wanted.dtype))


@pytest.mark.parametrize(
    ("data", "dtype", "message"),
    [
        (["a"], "float32", "<U1 elements cannot become float32; give numbers"),
        ([1j], "float32", "complex numbers cannot become float32"),
        ([300], "uint8", "300 is no uint8, which holds 0 to 255"),
        ([10**400], "float32", "an integer is beyond every float32"),
    ],
)
def test_refused_elements(data: Any, dtype: str | None, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        host_array(data, dtype)
