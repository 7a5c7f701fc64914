"""What several processes check, each for itself: divided models on devices."""

import gc

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group

WIDTH, UNITS, STEPS, LARGE = 64, 24, 4, 256


def layers() -> nn.Module:
    fw.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(UNITS)])


def train(model: nn.Module, device: fw.device, part: slice, replayed: bool) -> int:
    """Take steps, and return how many were replayed."""
    optimizer = fw.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = fw.jit(step) if replayed else step
    for at in range(STEPS):
        x = np.random.default_rng(at).standard_normal((4, WIDTH)).astype(np.float32)
        run(fw.tensor(x[part], device=device)).item()
    return getattr(run, "replays", 0)


def check(group: Group, replayed: bool) -> None:
    """Train divided layers, and compare weights and memory with those of whole ones."""
    gc.collect()
    device = group.device
    model = nn.FSDP(layers(), group, auto_wrap_policy="children").to(device)
    gpu = device.gpu
    rows = 4 // group.size
    part = slice(rows * group.rank, rows * (group.rank + 1))
    before = gpu.memory_stats()["in_use"]
    replays = train(model, device, part, replayed)
    stats = gpu.memory_stats()
    whole = layers()
    train(whole, fw.device("cpu"), slice(0, 4), False)
    for key, value in whole.state_dict().items():
        found = model.state_dict()[key].numpy()
        np.testing.assert_allclose(found, value.numpy(), rtol=1e-3, atol=1e-5)
    unit = 4 * WIDTH * WIDTH
    own = before + 3 * UNITS * unit // group.size  # gradients and two moments
    assert replays == (STEPS - 2 if replayed else 0)
    # Of two units the parameters and gradients, what is being exchanged, and what a
    # slow device has yet to read.
    most = own + 12 * unit
    assert most < 0.65 * 4 * UNITS * unit
    assert stats["peak_in_use"] <= most, (stats, own, unit)


def check_bits(group: Group) -> None:
    """Hold that replays have the bits of eager steps; the device moves the units."""
    found = []
    for replayed in (False, True):
        fw.manual_seed(0)
        wide = [nn.Linear(LARGE, LARGE, bias=False) for _ in range(4)]
        stack = nn.Sequential(nn.Linear(WIDTH, LARGE), *wide)
        model = nn.FSDP(stack, group, auto_wrap_policy="children").to(group.device)
        train(model, group.device, slice(group.rank, group.rank + 1), replayed)
        found.append([x.numpy() for x in model.state_dict().values()])
    for eager, replay in zip(*found):
        np.testing.assert_array_equal(eager, replay)


def main() -> None:
    group = fw.distributed.init()
    check(group, replayed=False)
    check(group, replayed=True)
    check_bits(group)  # last: it takes more memory
    print(f"rank {group.rank} is right", flush=True)


if __name__ == "__main__":
    main()
