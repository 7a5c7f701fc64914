"""Without a group the namespace answers as PyTorch's; one process can be a group."""

from typing import Any

import pytest

import vkbackend.framework as fw

dist = fw.distributed


def test_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert dist.is_available() is dist.is_mpi_available()
    assert not dist.is_initialized()
    assert dist.group.WORLD is dist.GroupMember.WORLD is None
    dist.destroy_process_group()
    for name in ("get_rank", "get_world_size", "get_backend", "barrier", "new_group"):
        with pytest.raises(ValueError, match="no process group is initialised"):
            getattr(dist, name)()
    with pytest.raises(ValueError, match="rank is missing"):
        dist.init_process_group()
    with pytest.raises(dist.DistributedError, match=r"world_size is 2.*launch -n 2"):
        dist.init_process_group(world_size=2, rank=0)
    with pytest.raises(ValueError, match="rank is 1; of one process"):
        dist.init_process_group(world_size=1, rank=1)


def test_group_of_one(group: Any) -> None:
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (
        0,
        1,
        "gloo",
    )
    assert dist.get_process_group_ranks(group) == [0]
    assert dist.get_global_rank(group, 0) == dist.get_group_rank(group, 0) == 0
    assert isinstance(dist.new_group([0]), dist.ProcessGroup)
    assert dist.new_group([]) == dist.GroupMember.NON_GROUP_MEMBER
    assert [*fw.utils.data.DistributedSampler(range(3), shuffle=False)] == [0, 1, 2]
    with pytest.raises(ValueError, match="initialised already"):
        dist.init_process_group(world_size=1, rank=0)
    with pytest.raises(ValueError, match="rank 1 is no process's"):
        dist.new_group([1])
    with pytest.raises(ValueError, match="sends itself nothing"):
        dist.P2POp(dist.isend, fw.ones(1), 0)
    assert dist.get_node_local_rank(3) == 3


def test_works_of_a_list(group: Any) -> None:
    with pytest.raises(ValueError, match="the list is empty"):
        dist.batch_isend_irecv([])
    work = dist.Work()
    assert work.is_completed()
    assert work.is_success()
    assert work.wait()


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group("nccl")
    assert dist.get_backend() == "nccl"
    dist.destroy_process_group()
    assert not dist.is_initialized()
