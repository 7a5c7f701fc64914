"""There is one device and one process."""

import pytest

from vkbackend.framework import nn


@pytest.mark.parametrize("name", ["DataParallel", "DistributedDataParallel"])
def test_making_one_raises(name: str) -> None:
    kind = getattr(nn.parallel, name)
    assert issubclass(kind, nn.Module)
    with pytest.raises(NotImplementedError, match="use the module itself"):
        kind(nn.Identity())
