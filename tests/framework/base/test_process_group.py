"""The group of one process is remembered until it is forgotten."""

import pytest

from vkbackend.framework.base import process_group as groups


def test_default_group() -> None:
    assert groups.default_group() is None
    with pytest.raises(ValueError, match=r"^here: no process group is initialised"):
        groups.group_for("here")
    own = groups.ProcessGroup("nccl")
    groups.set_default_group(own)
    try:
        assert groups.group_for("here") is own
    finally:
        groups.set_default_group(None)
    assert (own.rank(), own.size(), own.name()) == (0, 1, "nccl")
