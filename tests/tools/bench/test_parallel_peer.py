"""PyTorch's steps among processes, here of one."""

from collections.abc import Iterator

import pytest
import torch

from vkbackend.framework.communication.group import alone
from vkbackend.tools.bench import parallel
from vkbackend.tools.bench.parallel_peer import TorchRanks


@pytest.fixture
def _ranks() -> Iterator[None]:
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_ranks")
def test_steps_alone_and_shared_train_alike() -> None:
    group = alone()
    ranks = TorchRanks(group)
    assert ranks.name.startswith("PyTorch ")
    model = parallel.models(small=True)["gpt"]
    losses = []
    for shared in (False, True):
        step = ranks.step(model, shared)
        losses.append([step().item() for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1])
    assert losses[0][2] < losses[0][0]
    # The group is made once.
    assert TorchRanks(group).backend == ranks.backend
    names = list(parallel.peer_steps(group, model))
    assert names == [f"{ranks.name} alone", f"{ranks.name} DDP, {ranks.backend}"]
