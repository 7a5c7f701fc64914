"""Transport `cuda` between processes of one card, or of one each, stage by stage.

    python -m tests.framework.communication.cuda_program --ranks 2 --device 0
    python -m tests.framework.communication.cuda_program --fake

It needs no MPI. Each rank prints what it has found of each stage; the first stage that
fails ends all, with the name of the `CUresult`. `--fake` takes the driver's place by
one over memory that Vulkan exports, for software devices. `--apart` gives each rank the
card of its number.
"""

import argparse
import gc
import inspect
import os
import platform
import signal
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests import fake_cuda
from tests.rank_pipes import PipeComm, run, world_of
from vkbackend import cuda
from vkbackend.cuda import CudaBlock, CudaMemory
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication import device_collectives, host_transport
from vkbackend.framework.communication.cuda_transport import (
    CudaTransport,
    open_peer_memory,
)
from vkbackend.framework.communication.descriptors import exchange_descriptors
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.host_transport import HostTransport
from vkbackend.framework.communication.transport import Call, TransportChoice

MEBIBYTE = 1 << 20
DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64"),
)
OPS = ("sum", "mean")
SMALL = device_collectives.SMALL


class Program:
    """The stages of one rank.

    Parameters
    ----------
    comm : PipeComm
    options : argparse.Namespace
        See the module.
    """

    def __init__(self, comm: PipeComm, options: argparse.Namespace) -> None:
        self.comm, self.options = comm, options
        number = comm.rank if options.apart else options.device
        self.device = Device("gpu", number)
        assert isinstance(self.device, GpuDevice)
        self.gpu = self.device.gpu
        self.groups: dict[str, Group] = {}
        self.fake: fake_cuda.FakeCuda | None = None

    def say(self, text: str) -> None:
        print(f"[{self.comm.rank}] {text}", flush=True)

    def stage(self, work: Callable[[], object]) -> bool:
        """Run a stage; return whether it has gone well on all ranks."""
        error, start = "", time.perf_counter()
        try:
            work()
        except BaseException:
            error = traceback.format_exc()
        seconds = time.perf_counter() - start
        self.say(f"{work.__name__}: {'FAILED' if error else 'ok'}, {seconds:.2f} s")
        if error:
            self.say(error)
        return not any(self.comm.allgather(bool(error)))

    def driver(self) -> None:
        """Say what there is."""
        info = self.gpu.info
        self.say(f"{platform.platform()}, Vulkan {info.name}, {info.driver_name}")
        self.say(f"uuid {info.uuid}, PCI {info.pci_address}")
        memory = self.gpu.memory
        self.say(f"imports {memory.import_alignment}, fds {memory.descriptors}")
        driver = cuda.load()
        devices = driver.devices()
        self.say(f"CUDA {driver.version}, devices {devices}")
        version = Path("/proc/driver/nvidia/version")
        if version.exists():
            self.say(version.read_text().splitlines()[0])
        own = cuda.device_of(info)
        reached = [uuid for uuid, each in devices.items() if driver.accesses(own, each)]
        self.say(f"CUDA's device is {own}; it reaches {len(reached)} of {len(devices)}")

    def memory(self) -> None:
        """Pull between processes, by hand; each card's kernels and copies check it."""
        memory = CudaMemory(self.gpu)
        size = self.options.most * MEBIBYTE
        free = memory.context.free_bytes()
        start = time.perf_counter()
        own, descriptor = memory.allocate(size)
        inbox, other = memory.allocate(size)
        took = time.perf_counter() - start
        self.say(f"{own.size} bytes twice in {took:.3f} s; {free} bytes were free")
        found = exchange_descriptors(self.comm, descriptor)
        blocks = [
            own if rank == self.comm.rank else memory.open(each, own.size)
            for rank, each in enumerate(found)
        ]
        for each in (descriptor, other, *found):
            os.close(each)
        data = np.arange(size // 4, dtype=np.uint32) * (1 + self.comm.rank)
        buffer = self.gpu.allocate(size)
        self.gpu.upload(data, buffer)
        self.gpu.transfer.copy((buffer, 0), (own.vulkan, 0), size).wait()
        self.comm.Barrier()
        for rank, block in enumerate(blocks):
            if rank != self.comm.rank:
                self._pull(memory, rank, block, inbox, size, buffer)
        self.comm.Barrier()
        del buffer
        memory.close()
        self.say("let go of the memory")

    def _pull(
        self,
        memory: CudaMemory,
        rank: int,
        block: CudaBlock,
        inbox: CudaBlock,
        size: int,
        goal: Any,
    ) -> None:
        pulled = memory.pull(block, 0, inbox, 0, size)
        assert pulled.wait(60), "a pull does not end"
        self.gpu.transfer.copy((inbox.vulkan, 0), (goal, 0), size).wait()
        got = np.frombuffer(self.gpu.read(goal), np.uint32)
        wanted = np.arange(size // 4, dtype=np.uint32) * (1 + rank)
        wrong = int((got != wanted).sum())
        self.say(f"pull from rank {rank}: {wrong} words of {got.size} are wrong")
        assert not wrong
        for part in (4096, MEBIBYTE, 16 * MEBIBYTE, 64 * MEBIBYTE, size):
            if part > size:
                continue
            times = []
            for _ in range(self.options.rounds):
                start = time.perf_counter()
                memory.pull(block, 0, inbox, 0, part).wait(60)
                times.append(time.perf_counter() - start)
            taken = statistics.median(times)
            rate = part / taken / 1e9
            self.say(f"pull of {part} bytes: {1e6 * taken:.1f} us, {rate:.1f} GB/s")

    def open_groups(self) -> None:
        """Make the transport, and that of the host beside it."""
        ranks = range(self.comm.size)
        self.world = world_of(self.comm)
        peers, why = open_peer_memory(self.comm, lambda: self.device)
        if peers is None:
            raise DistributedError(f"no memory of peers: {why}")
        self.peers = peers
        for name in ("cuda", "host"):
            transport: HostTransport
            if name == "cuda":
                transport = CudaTransport(self.world, self.comm, ranks, peers)
            else:
                transport = HostTransport(self.world, self.comm, ranks)
            choice = TransportChoice(name, "the program")
            self.groups[name] = Group(transport, choice, lambda: self.device)
        blocks = [len(each) for each in peers._opened]
        self.say(f"blocks of other ranks: {blocks}, own: {peers.pool.numbers()}")

    def collectives(self) -> None:
        """Hold each collective of each dtype to the bits of the host's."""
        for small in (0, SMALL):
            device_collectives.SMALL = small
            compared = sum(map(self._collectives_of, DTYPES))
            how = "exchanged by the host" if small else "pulled"
            self.say(f"{compared} results, {how}, have the bits of the host's")

    def _collectives_of(self, dtype: str) -> int:
        group, host = self.groups["cuda"], self.groups["host"]
        size, compared = group.size, 0
        for shape in ((size, 3), (2 * size, 5, 7), (size * 1031,)):
            rng = np.random.default_rng((len(shape), self.comm.rank))
            x = fw.tensor(rng.integers(0, 9, shape)).to(getattr(fw, dtype))
            for name, call in _calls(dtype, size):
                mine = call(group, x.to(self.device))
                assert mine.device is self.device, name
                wanted = call(host, x.to(CPU))
                same = mine.stored().tobytes() == wanted.stored().tobytes()
                assert same, f"{name} of {dtype} {shape} differs"
                compared += 1
        return compared

    def mixed(self) -> None:
        """Hold that a rank may be on the host: all go through the pages then."""
        group = self.groups["cuda"]
        device_collectives.SMALL = 0
        for number in range(4):
            on = self.device if (number >> self.comm.rank % 2) & 1 else CPU
            x = fw.arange(5000, device=on) * (1 + self.comm.rank)
            total = group.all_sum(x).tolist()
            scale = group.size * (group.size + 1) // 2
            assert total == (np.arange(5000) * scale).tolist(), number
        device_collectives.SMALL = SMALL

    def replays(self) -> None:
        """Exchange within `fw.jit`; the host touches no element."""
        group = self.groups["cuda"]

        @fw.jit
        def step(x: fw.Tensor) -> fw.Tensor:
            return group.all_sum(x * 2) + group.all_gather(x).max()

        for k in range(5):
            x = fw.ones(100_000, device=self.device) * (k + self.comm.rank)
            fw.eval(x)
            before = self.gpu.counters.snapshot()
            found = step(x)
            used = self.gpu.counters - before
            if step.replays:
                assert (used.host_reads, used.uploads) == (0, 0), used
            total = 2 * sum(k + rank for rank in range(group.size)) + k + group.size - 1
            assert found[-1].item() == total, (k, found[-1].item())
        assert step.replays >= 2, step.replays
        self.say(f"{used.submits} submissions, {used.dispatches} kernels a replay")

    def reuse(self) -> None:
        """Exchange what is written again at once: no rank may read it too late."""
        group, rank, size = self.groups["cuda"], self.comm.rank, self.comm.size
        count = self.options.most * MEBIBYTE // 16

        @fw.jit
        def step(x: fw.Tensor) -> fw.Tensor:
            first = group.all_sum(x + 1)
            second = group.all_sum(first * 0 + x + 2)
            return group.all_sum(second * 0 + x + 3) + first + second

        for k in range(12):
            # One rank comes late, by turns, and the others have gone on.
            if k % size == rank:
                time.sleep(0.02)
            found = step(fw.ones(count, device=self.device) * (k + rank))
            total = sum(3 * (k + each) + 6 for each in range(size))
            ends = [found.min().item(), found.max().item()]
            assert ends == [total, total], (k, ends, total)

    def freed(self) -> None:
        """Drop replays, whose blocks are given back; others take their place."""
        group, seen = self.groups["cuda"], []
        count = self.options.most * MEBIBYTE // 16
        for k in range(4):
            step = fw.jit(lambda x: group.all_sum(x * 2))
            for turn in range(3):
                x = fw.ones(count + 1000 * k, device=self.device) * turn
                ends = [each.item() for each in step(x)[:: count - 1]]
                assert set(ends) == {2.0 * turn * group.size}, ends
            seen.append(self.peers.pool.numbers())
            del step, x
            gc.collect()
            self.device.synchronize()
            self.gpu.empty_cache()
        assert seen[0] != seen[-1], seen
        # What is gone the others are told of in the next exchange.
        fw.eval(group.all_sum(fw.ones(1 << 18, device=self.device)))
        group.barrier()
        own = len(self.peers.pool.numbers())
        self.say(f"numbers of blocks: {seen}; {own} are left")
        blocks = [len(each) for each in self.peers._opened]
        most = max(self.comm.allgather(len(self.peers._given)))
        assert max(blocks) <= most, (blocks, most)

    def divided(self) -> None:
        """Train what FSDP divides: the first steps take no more than replays.

        Gradients of the first one lie in memory that CUDA made, and all else not yet.
        """
        gc.collect()
        width, count = 192, 24
        layers = [fw.nn.Linear(width, width, bias=False) for _ in range(count)]
        model = fw.nn.FSDP(
            fw.nn.Sequential(*layers).to(self.device),
            self.groups["cuda"],
            auto_wrap_policy="children",
        )
        optimizer = fw.optim.AdamW(model.parameters(), lr=1e-3)

        @fw.jit
        def step(x: fw.Tensor) -> fw.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x, peaks = fw.ones(4, width, device=self.device), []
        del layers
        for steps in (3, 2):
            self.gpu.reset_memory_peaks()
            for _ in range(steps):
                step(x).item()
            peaks.append(self.gpu.memory_stats()["peak_in_use"])
        assert step.replays >= 3, step
        self.say(f"most bytes in use, of the first steps and of replays: {peaks}")
        assert peaks[0] <= peaks[1] + 4 * width * width, peaks

    def times(self) -> None:
        """Time sums by both transports, eager and replayed, and their parts."""
        sizes = [4096, 1 << 16, *[n * MEBIBYTE for n in (1, 16, 64, 256)]]
        for size in sizes:
            for name in self.groups if size <= self.options.most * MEBIBYTE else ():
                told = self._times_of(size, self.groups[name])
                self.say(f"all_sum of {size} bytes by {name}: {'; '.join(told)}")

    def _times_of(self, size: int, group: Group) -> list[str]:
        x = fw.ones(size // 4, device=self.device)
        step = fw.jit(lambda x: group.all_sum(x * 2))
        return [
            self._timed("eager", size, lambda: group.all_sum(x)),
            self._timed("replayed", size, lambda: step(x)),
            self._timed("exchange", size, self._exchange(group, size)),
            self._timed("kernels", size, lambda: (x * 2) + x),
        ]

    def _timed(self, what: str, size: int, call: Callable[[], Any]) -> str:
        """Return what the slowest rank takes, in the median, and submissions."""
        times = []
        for _ in range(self.options.rounds + 4):
            self.device.synchronize()
            self.comm.Barrier()
            before = self.gpu.counters.snapshot()
            start = time.perf_counter()
            found = call()
            if found is not None:
                fw.eval(found)
            self.device.synchronize()
            taken = time.perf_counter() - start
            used = self.gpu.counters - before
            times.append(max(self.comm.allgather(taken)))
        taken = statistics.median(times[4:])
        rate = size / taken / 1e9
        least = min(times[4:])
        return (
            f"{what} {1e6 * taken:.0f} us (least {1e6 * least:.0f}), {rate:.2f} GB/s,"
            f" {used.submits} submissions"
        )

    def _exchange(self, group: Group, size: int) -> Callable[[], None]:
        """Return what only exchanges bytes, in memory that suits the transport."""
        pages, count = group.device_pages(self.gpu), group.size
        assert pages is not None
        source, target = (
            group.allocate(self.gpu, each) or self.gpu.allocate(each)
            for each in (size, size * count)
        )
        fill = pages.filler([(source, 0)])
        goals = [(target, size * rank) for rank in range(count)]
        consume = pages.writer(goals, group.rank, None)
        call = Call("exchange", f"{size} bytes")
        return lambda: group.exchange(call, size, fill, consume)

    def handles(self) -> None:
        """Open and close groups; nothing of them stays."""
        counts = []
        for _ in range(3):
            peers, why = open_peer_memory(self.comm, lambda: self.device)
            assert peers is not None, why
            ranks = range(self.comm.size)
            made = CudaTransport(self.world, self.comm, ranks, peers)
            group = Group(made, TransportChoice("cuda", ""), lambda: self.device)
            fw.eval(group.all_sum(fw.ones(1000, device=self.device)))
            group.barrier()
            group.close()
            del peers, made, group
            self.gpu.release_imports()
            counts.append(len(os.listdir("/proc/self/fd")))
        self.say(f"open descriptors after each of three groups: {counts}")
        assert counts[1] == counts[2], counts

    def death(self) -> None:
        """Hold that the others are told of a rank that dies, and let go of all."""
        group, victim = self.groups["cuda"], self.comm.size - 1
        self.comm.Barrier()
        if self.comm.rank == victim:
            kill = os.getpid(), signal.SIGKILL
            threading.Timer(self.options.kill, os.kill, kill).start()
        start = time.perf_counter()
        with pytest.raises(DistributedError, match=r"was killed|given up") as caught:
            self._exchange_for_ever(group)
        self.say(f"told after {time.perf_counter() - start:.2f} s: {caught.value}")
        # Its traceback has the replay, whose memory is the pool's.
        del caught
        gc.collect()
        for each in self.groups.values():
            assert each._transport is not None
            each._transport._release()  # type: ignore[attr-defined]
        left = self.gpu.release_imports()
        if left:
            self.say(f"imports are left: {self._holders()}")
        assert left == 0, "imports are left"
        if self.fake is not None:
            assert not self.fake.left(), self.fake.live

    def _holders(self) -> list[str]:
        """Return what refers to buffers of imports, and who refers to that."""
        found: list[str] = []
        for each in gc.get_objects():
            if not isinstance(each, vkbackend.Buffer) or each.device is not self.gpu:
                continue
            block = each.span.region.block
            if block.memory not in self.gpu._imports._spans:
                continue
            for owner in gc.get_referrers(each):
                if owner is not found and not inspect.isframe(owner):
                    above = {type(x).__name__ for x in gc.get_referrers(owner)}
                    found.append(
                        f"{each!r} in a {type(owner).__name__} of {sorted(above)}"
                    )
        return found

    def _exchange_for_ever(self, group: Group) -> None:
        step = fw.jit(lambda x: group.all_sum(x * 0.5))
        x = fw.ones(50_000, device=self.device)  # more than the host exchanges
        large = fw.ones(MEBIBYTE, device=self.device)
        while True:
            x = step(x)
            if not self.options.sums:
                group.all_gather(large)
                group.barrier()


def _calls(dtype: str, size: int) -> list[tuple[str, Callable[..., fw.Tensor]]]:
    """Return collectives of a dtype by name."""
    ops = OPS if dtype.startswith(("float", "bfloat")) else OPS[:1]
    halves = not size & (size - 1)
    calls: list[tuple[str, Callable[..., fw.Tensor]]] = [
        ("all_gather", lambda group, x: group.all_gather(x)),
        ("broadcast", lambda group, x: group.broadcast(x, size - 1)),
        ("all_to_all", lambda group, x: group.all_to_all(x)),
    ]
    for op in ops if halves else ops[:1]:
        calls += [
            (f"all_reduce {op}", lambda group, x, op=op: group.all_reduce(x, op)),
            (
                f"reduce_scatter {op}",
                lambda group, x, op=op: group.reduce_scatter(x, 0, op),
            ),
        ]
    return calls


def work(comm: PipeComm, options: argparse.Namespace) -> None:
    """Run the stages of one rank."""
    program = Program(comm, options)
    with pytest.MonkeyPatch.context() as patch:
        if options.fake:
            program.fake = fake_cuda.install(patch, program.gpu)
        if options.chunk:
            patch.setattr(host_transport, "CHUNK", options.chunk)
        stages = [program.open_groups]
        if not options.only_death:
            stages = [program.driver, program.memory, *stages, program.collectives]
            stages += [program.mixed, program.replays, program.reuse, program.freed]
            stages += [program.divided, program.times, program.handles]
        for each in stages:
            if not program.stage(each):
                sys.exit(1)
        program.death()
    program.say("all is well")
    sys.stdout.flush()
    os._exit(0)  # the others have ended


def main() -> int:
    """Start the ranks; return 0 if all went well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--most", type=int, default=256, help="MiB of the largest")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--chunk", type=int, default=0, help="bytes of a slot")
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--kill", type=float, default=0.05, help="seconds until death")
    parser.add_argument("--only-death", action="store_true")
    parser.add_argument("--sums", action="store_true", help="death in a replayed sum")
    options = parser.parse_args()
    statuses = run(work, options.ranks, options)
    print(f"statuses: {statuses}", flush=True)
    return int(statuses != [0] * (options.ranks - 1) + [-signal.SIGKILL])


if __name__ == "__main__":
    sys.exit(main())
