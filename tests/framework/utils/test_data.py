"""PyTorch's address of the datasets and loaders."""

import vkbackend.framework as fw
from vkbackend.framework.utils.data import DataLoader


def test_all_of_data_is_there() -> None:
    assert DataLoader is fw.data.DataLoader
    assert fw.utils.data.__all__ is fw.data.__all__
    for name in fw.data.__all__:
        assert getattr(fw.utils.data, name) is getattr(fw.data, name)
