"""Without a group the namespace answers as PyTorch's."""

import pytest

import vkbackend.framework as fw


def test_asking_is_answered_and_the_rest_raises() -> None:
    dist = fw.distributed
    assert not dist.is_available()
    assert not dist.is_initialized()
    dist.destroy_process_group()
    for name in ("get_rank", "get_world_size", "get_backend"):
        with pytest.raises(ValueError, match="no process group is initialised"):
            getattr(dist, name)()
    with pytest.raises(NotImplementedError, match="only where is_initialized"):
        dist.all_reduce(fw.ones(1), op=dist.ReduceOp.SUM)
