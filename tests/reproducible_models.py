"""Five small networks, and their training, for what must have one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional as F  # noqa: N812  PyTorch's habit

Loss = Callable[..., fw.Tensor]


class Size(NamedTuple):
    """How large a network is, and what autocast computes in."""

    large: bool
    dtype: str

    def of(self, small: int, large: int) -> int:
        """Return one of two numbers."""
        return large if self.large else small


class Attention(nn.Module):
    """Self-attention of several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.permute(0, 2, 1, 3).reshape(batch, length, width))


class Block(nn.Module):
    """A block of a transformer, with its norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.wide, self.narrow = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Patches of an image, blocks, and the mean of what they give."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width, patch = size.of(48, 384), size.of(8, 16)
        side = size.of(32, 224) // patch
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(fw.randn(1, side * side, width) * 0.02)
        blocks = [Block(width, size.of(4, 6)) for _ in range(size.of(2, 12))]
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


class LongShortTermMemory(nn.Module):
    """The recurrent cell written by hand: cat, linear, chunk."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.width = size.of(24, 256)
        self.length = size.of(9, 64)
        self.gates = nn.Linear(2 * self.width, 4 * self.width)
        self.head = nn.Linear(self.width, 10)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        hidden = cell = fw.zeros(x.shape[0], self.width, device=x.device)
        for step in range(self.length):
            joined = fw.cat([x[:, step], hidden], 1)
            i, f, g, o = self.gates(joined).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return self.head(hidden)


def convolutions(inside: int, outside: int) -> nn.Module:
    """Return two convolutions, each with its norm."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Down, and up again, with what was there before."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.of(8, 32)
        self.down1, self.down2 = convolutions(3, width), convolutions(width, 2 * width)
        self.bottom = convolutions(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.left2 = convolutions(4 * width, 2 * width)
        self.left1 = convolutions(2 * width, width)
        self.out = nn.Conv2d(width, 4, 1)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        low = self.bottom(F.max_pool2d(two, 2))
        two = self.left2(fw.cat([self.up2(low), two], 1))
        return self.out(self.left1(fw.cat([self.up1(two), one], 1)))


class Inverted(nn.Module):
    """An inverted residual of a mobile network, squeezed and excited."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = 4 * width
        self.expand = nn.Conv2d(width, wide, 1, bias=False)
        self.depth = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.squeeze, self.excite = nn.Linear(wide, width), nn.Linear(width, wide)
        self.project = nn.Conv2d(wide, width, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(n) for n in (wide, wide, width)])

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        y = F.hardswish(self.norms[0](self.expand(x)))
        y = F.hardswish(self.norms[1](self.depth(y)))
        scale = self.excite(F.relu(self.squeeze(y.mean((2, 3))))).sigmoid()
        return x + self.norms[2](self.project(y * scale[:, :, None, None]))


class MobileNet(nn.Module):
    """A few inverted residuals."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.of(8, 32)
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.body = nn.Sequential(*[Inverted(width) for _ in range(size.of(2, 5))])
        self.head = nn.Linear(width, 10)

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        return self.head(self.body(F.relu(self.stem(x))).mean((2, 3)))


class GraphNetwork(nn.Module):
    """Messages along edges, added up where they arrive."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.of(16, 64)
        self.embed = nn.Linear(12, width)
        self.messages = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.head = nn.Linear(width, 10)

    def forward(self, x: fw.Tensor, edges: fw.Tensor) -> fw.Tensor:
        x = self.embed(x)
        source, target = edges[0], edges[1]
        for message, norm in zip(self.messages, self.norms):
            sent = F.leaky_relu(message(fw.cat([x[source], x[target]], 1)), 0.2)
            total = fw.zeros_like(x).to(sent.dtype).index_add(0, target, sent)
            x = norm(x + total.float())
        return self.head(x)


MODELS = {
    "vit": VisionTransformer,
    "lstm": LongShortTermMemory,
    "unet": UNet,
    "mobile": MobileNet,
    "graph": GraphNetwork,
}


def batch(name: str, size: Size, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return what one step is given; classes come last."""
    count = size.of(6, 32)
    if name == "graph":
        nodes, edges = size.of(50, 5000), size.of(300, 50000)
        x = rng.normal(size=(nodes, 12)).astype("f4")
        ends = rng.integers(0, nodes, (2, edges)).astype("i4")
        return x, ends, rng.integers(0, 10, nodes).astype("i4")
    if name == "lstm":
        shape: Sequence[int] = (count, size.of(9, 64), size.of(24, 256))
        return rng.normal(size=shape).astype("f4"), _classes(rng, (count,))
    side = size.of(32, 224) if name == "vit" else size.of(16, 64)
    x = rng.normal(size=(count, 3, side, side)).astype("f4")
    return x, _classes(rng, (count, side, side) if name == "unet" else (count,))


def _classes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 4, shape).astype("i4")


def train(
    name: str, size: Size, steps: int, device: Device, jitted: bool = False
) -> list[np.ndarray]:
    """Return losses, parameters, running statistics and moments after some steps."""
    fw.manual_seed(1)
    model = MODELS[name](size).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.003)
    criterion = nn.CrossEntropyLoss()
    kind = None if size.dtype == "float32" else getattr(fw, size.dtype)

    def step(*given: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        with fw.autocast(kind) if kind else nullcontext():
            loss = criterion(model(*given[:-1]), given[-1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    run: Any = fw.jit(step) if jitted else step
    rng, losses = np.random.default_rng(2), []
    for _ in range(steps):
        given = [fw.tensor(each, device=device) for each in batch(name, size, rng)]
        losses.append(run(*given))
    state = [*model.state_dict().values()]
    moments = [
        each
        for row in optimizer.state_dict()["state"].values()
        for each in row.values()
        if isinstance(each, fw.Tensor)
    ]
    return [each.numpy() for each in (*losses, *state, *moments)]
