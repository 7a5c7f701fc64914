"""What several processes check, each for itself: collectives against mpi4py's."""

import os
import signal
import sys

import numpy as np
from mpi4py import MPI

import vkbackend.framework as fw
from vkbackend.framework import distributed as dist
from vkbackend.framework.communication import device_collectives
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.setup import make_group, split
from vkbackend.framework.communication.world import world

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
SMALL = device_collectives.SMALL


def random_programs(group: Group, seeds: int, devices: list[str]) -> None:
    """Compare random collectives with what MPI's give, moved by device and host."""
    for seed in range(seeds):
        device_collectives.SMALL = seed % 2 * SMALL
        same = np.random.default_rng(seed)
        own = np.random.default_rng((seed, RANK))
        dtype = str(same.choice(["int32", "int64", "float64", "float32"]))
        shape = tuple(SIZE * int(n) for n in same.integers(0, 4, same.integers(1, 4)))
        data = own.integers(-9, 9, shape).astype(dtype)
        x = fw.tensor(data, device=str(same.choice(devices)))
        if same.integers(2):
            data, x = np.ascontiguousarray(data.T), x.permute(*range(x.ndim)[::-1])
        source = int(same.integers(SIZE))
        every = np.array(COMM.allgather(data))
        rows = data.shape[0] // SIZE
        first = slice(RANK * rows, (RANK + 1) * rows)
        reduced = np.empty_like(data)
        COMM.Allreduce(data, reduced)
        highest = np.empty_like(data)
        COMM.Allreduce(data, highest, MPI.MAX)
        pairs = [
            (group.all_sum(x), reduced),
            (group.all_max(x), highest),
            (group.all_gather(x), np.concatenate(every)),
            (group.broadcast(x, source), COMM.bcast(data, source)),
            (group.reduce_scatter(x), reduced[first]),
            (group.all_to_all(x), np.concatenate(every[:, first])),
        ]
        order = [int(k) for k in same.permutation(len(pairs))]
        for k in order:
            found, expected = pairs[k]
            assert found.device is x.device
            np.testing.assert_array_equal(found.numpy(), expected)


def ring(group: Group) -> None:
    """Each rank sends more than a slot holds to the next, before it receives."""
    dist.init_process_group("mpi")
    x = fw.arange(400_000) + RANK
    y = fw.zeros(400_000, dtype=fw.int64)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, x, (RANK + 1) % SIZE),
            dist.P2POp(dist.irecv, y, (RANK - 1) % SIZE),
        ]
    )
    assert all(each.wait() for each in works)
    assert int(y[0]) == (RANK - 1) % SIZE
    dist.all_reduce(y)
    assert int(y[0]) == SIZE * (SIZE - 1) // 2
    odd = dist.new_group([*range(1, SIZE, 2)])
    if RANK % 2:
        assert dist.get_process_group_ranks(odd) == [*range(1, SIZE, 2)]
        found = [None] * odd.size()
        dist.all_gather_object(found, RANK, group=odd)
        assert found == [*range(1, SIZE, 2)]
    else:
        assert odd == dist.GroupMember.NON_GROUP_MEMBER
    assert len(fw.utils.data.DistributedSampler(range(2 * SIZE))) == 2
    dist.destroy_process_group()


def replayed_training(group: Group, small: int) -> None:
    """Train on parts of batches under `fw.jit`, as one process does on the whole."""
    device_collectives.SMALL = small
    rng = np.random.default_rng(0)

    def model(device: fw.device) -> tuple[fw.nn.Module, fw.optim.Optimizer]:
        fw.manual_seed(5)
        made = fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.Tanh(), fw.nn.Linear(4, 1))
        made = made.to(device)
        return made, fw.optim.AdamW(made.parameters(), lr=0.1)

    own, own_optimizer = model(group.device)
    whole, optimizer = model(fw.device("cpu"))

    @fw.jit
    def step(x: fw.Tensor, y: fw.Tensor) -> fw.Tensor:
        own_optimizer.zero_grad()
        loss = ((own(x) - y) ** 2).mean()
        loss.backward()
        for each in own.parameters():
            each.grad = group.all_mean(each.grad)
        own_optimizer.step()
        return group.all_gather(loss.detach())

    for _ in range(4):
        x = rng.standard_normal((2 * SIZE, 3)).astype(np.float32)
        y = rng.standard_normal((2 * SIZE, 1)).astype(np.float32)
        part = slice(2 * RANK, 2 * RANK + 2)
        inputs = [fw.tensor(each[part], device=group.device) for each in (x, y)]
        before = group.device.gpu.counters.snapshot()
        losses = step(*inputs)
        used = group.device.gpu.counters - before
        # Means of 3 are the host's.
        imports = group.device.gpu.memory.import_alignment and not SIZE & (SIZE - 1)
        if imports and step.replays:
            five = (5, 5) if small else (0, 0)
            assert (used.host_reads, used.uploads) == five, used
        if small and step.replays:
            # What the host exchanges lies in its memory: nothing else is submitted.
            assert used.submits == used.resubmits, used
        losses = losses.numpy()
        optimizer.zero_grad()
        loss = ((whole(fw.tensor(x)) - fw.tensor(y)) ** 2).mean()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(losses.mean(), loss.item(), rtol=1e-4)
    for mine, right in zip(own.state_dict().values(), whole.state_dict().values()):
        bits = COMM.allgather(mine.numpy().tobytes())
        assert bits == bits[:1] * SIZE
        np.testing.assert_allclose(mine.numpy(), right.numpy(), rtol=1e-3, atol=1e-5)
    assert step.replays == 2


def main() -> None:
    group = dist.init()
    assert (group.rank, group.size) == (RANK, SIZE)
    told, together = str(dist.transport()), f"all {SIZE} ranks are on one machine"
    assert told.startswith((f"host: {together}; not cuda: ", f"cuda: {together}, with"))
    job = world()
    slow = make_group(job, COMM.Dup(), range(SIZE), "mpi", lambda: group.device)
    devices = ["cpu", str(group.device)]
    random_programs(group, int(sys.argv[1]), devices)
    random_programs(slow, 3, devices[:1])
    for each in (group, slow):
        each.barrier()
        other = each.recv_like if RANK else each.send
        other(fw.ones(3), 0 if RANK else 1) if RANK < 2 else None
    ring(group)
    replayed_training(group, 0)
    replayed_training(group, SMALL)
    part = split(group, RANK % 2, -RANK)
    assert part is not None
    assert part.ranks == tuple(range(SIZE))[RANK % 2 :: 2][::-1]
    print(f"rank {RANK} is right", flush=True)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    group.all_sum(fw.ones(2))


main()
