"""Training steps of several processes beside those of each alone, replayed.

`python -m vkbackend.tools.launch -n 2 -m vkbackend.tools.bench.parallel` prints a row
for each model and way to divide it: the time of a step with and without the exchange,
each the median of the slowest rank, their ratio (the efficiency), and the peak of the
device's memory. All ranks compute at once either way, so that both share the machine.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn

from .models import Sizes, resnet18, transformer

_WARM = 4

SMALL = Sizes(64, 16, 16, 2, 2, tied=True)
GPT2_SMALL = Sizes(50257, 1024, 768, 12, 12, tied=True)

Model = tuple[Callable[[], Any], Callable[[int], tuple[np.ndarray, np.ndarray]], str]
"""What builds it, inputs and targets of a rank, and the dtype of its parameters."""


def _text(sizes: Sizes, batch: int, dtype: str) -> Model:
    def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(rank)
        shape = batch, sizes.length
        return rng.integers(0, sizes.words, shape), rng.integers(0, sizes.words, shape)

    return lambda: transformer(fw, sizes), data, dtype


def _images(batch: int, size: int, width: int) -> Model:
    def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(rank)
        images = rng.standard_normal((batch, 3, size, size)).astype(np.float32)
        return images, rng.integers(0, 10, batch)

    return lambda: resnet18(fw, 10, width), data, "float32"


def models(small: bool) -> dict[str, Model]:
    """Return the models by name.

    Parameters
    ----------
    small : bool
        Whether of a size for software devices.
    """
    if small:
        return {"gpt": _text(SMALL, 2, "float32"), "resnet": _images(2, 32, 4)}
    return {
        "gpt2s_f32_b8t1024": _text(GPT2_SMALL, 8, "float32"),
        "gpt2s_bf16_b8t1024": _text(GPT2_SMALL, 8, "bfloat16"),
        "resnet18_f32_b64": _images(64, 224, 64),
    }


def step_of(model: Any, x: fw.Tensor, y: fw.Tensor) -> Callable[[], fw.Tensor]:
    """Return a training step with AdamW, to be replayed."""
    optimizer = fw.optim.AdamW(model.parameters(), 1e-3)

    def step() -> fw.Tensor:
        optimizer.zero_grad()
        found = model(x).float()
        loss = fw.nn.functional.cross_entropy(
            found.reshape(-1, found.shape[-1]), y.reshape(-1)
        )
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fw.jit(step)


def seconds_of(
    group: fw.distributed.Group, step: Callable[[], fw.Tensor], rounds: int
) -> float:
    """Return the median time of a step, of the slowest rank in each round."""
    for _ in range(_WARM):
        step().item()
    times: list[float] = []
    for _ in range(rounds):
        group.barrier()
        start = time.perf_counter()
        step().item()
        times.append(max(group.gather_objects(time.perf_counter() - start)))
    return statistics.median(times)


def measured(
    group: fw.distributed.Group,
    model: Model,
    wrap: Callable[[Any], Any],
    rounds: int,
) -> tuple[float, int]:
    """Return the time of a step, and the most bytes of the device's memory.

    Parameters
    ----------
    group : Group
    model : tuple
        One of `models`.
    wrap : callable
        What a module is made to before it is trained.
    rounds : int
    """
    build, data, dtype = model
    # The step before lies in reference cycles, with its memory.
    gc.collect()
    fw.manual_seed(0)
    device = group.device
    made = wrap(build().to(device, getattr(fw, dtype)))
    x, y = (fw.tensor(each, device=device) for each in data(group.rank))
    x = x.to(getattr(fw, dtype)) if x.dtype.is_float else x
    fw.eval(x, y)
    fw.accelerator.empty_cache()
    fw.accelerator.reset_peak_memory_stats(device)
    seconds = seconds_of(group, step_of(made, x, y), rounds)
    return seconds, fw.accelerator.max_memory_allocated(device)


def _repeated(module: Any) -> tuple[type, ...]:
    """Return the classes of the blocks that a model is a stack of."""
    names = "Block", "Residual"
    found = {type(each) for each in module.modules()}
    return tuple(each for each in found if each.__name__ in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model and way.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(description="Time training among processes.")
    parser.add_argument("--transport", default="any")
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--ways", default="", help="part of a way's name")
    parser.add_argument("--size", choices=("full", "small"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--buckets", type=int, nargs="+", default=[25], help="MiB of a bucket"
    )
    given = parser.parse_args(arguments)
    group = fw.distributed.init(transport=given.transport)
    software = not group.device.is_gpu or group.device.gpu.info.kind == "software"
    small = software if given.size is None else given.size == "small"
    if group.rank == 0:
        print(f"{group.size} ranks, {group.device}, {group.transport}")
        print("| model | way | ms | efficiency | peak MiB |")
        print("| --- | --- | ---: | ---: | ---: |", flush=True)
    ways: dict[str, Callable[[Any], Any]] = {"alone": lambda module: module}
    for size in given.buckets:
        ways[f"DataParallel, {size} MiB"] = partial(
            nn.DataParallel, group=group, bucket_bytes=size << 20
        )
    ways["FSDP"] = lambda module: nn.FSDP(
        module, group, auto_wrap_policy=_repeated(module)
    )
    for name, model in models(small).items():
        if given.only not in name:
            continue
        alone = 0.0
        for way, wrap in ways.items():
            if given.ways not in way and way != "alone":
                continue
            seconds, peak = measured(group, model, wrap, given.rounds)
            alone = alone or seconds
            if group.rank == 0:
                print(
                    f"| {name} | {way} | {1e3 * seconds:.2f} |"
                    f" {alone / seconds:.3f} | {peak / 2**20:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
