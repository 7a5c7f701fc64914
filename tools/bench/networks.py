"""Networks of other kinds that are trained here and in PyTorch, written once.

As in `models`, each function is given the library, `vkbackend.framework` or `torch`.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def vision_transformer(
    library: Any,
    size: int,
    patch: int,
    width: int,
    heads: int,
    blocks: int,
    classes: int,
) -> Any:
    """Return a vision transformer (Dosovitskiy et al. 2021, figure 1).

    Images (batch, 3, size, size) in, logits (batch, classes) out.
    """
    nn = library.nn
    places = (size // patch) ** 2 + 1

    class Block(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            cut = (batch, length, 3, heads, width // heads)
            q, k, v = self.qkv(self.norm(x)).reshape(*cut).permute(2, 0, 3, 1, 4)
            found = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class VisionTransformer(nn.Module):  # type: ignore[misc, name-defined]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.first = nn.Parameter(library.zeros(1, 1, width))
            self.places = nn.Parameter(library.zeros(1, places, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, images: Any) -> Any:
            x = self.patches(images).flatten(2).transpose(1, 2)
            first = self.first.expand(x.shape[0], -1, -1).to(x.dtype)
            x = library.cat([first, x], dim=1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return VisionTransformer()


def u_net(library: Any, width: int, levels: int, classes: int) -> Any:
    """Return a U-Net (Ronneberger et al. 2015, figure 1) with group norms.

    Images (batch, 3, height, width) in, logits (batch, classes, height, width) out.
    """
    nn = library.nn

    def pair(inner: int, outer: int) -> Any:
        layers = []
        for channels in (inner, outer):
            layers += [
                nn.Conv2d(channels, outer, 3, padding=1),
                nn.GroupNorm(8, outer),
                nn.SiLU(),
            ]
        return nn.Sequential(*layers)

    class UNet(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            widths = [width << level for level in range(levels + 1)]
            self.downs = nn.ModuleList(
                [pair(i, o) for i, o in zip([3, *widths], widths, strict=False)]
            )
            self.raises = nn.ModuleList(
                [
                    nn.ConvTranspose2d(o << 1, o, 2, stride=2)
                    for o in reversed(widths[:-1])
                ]
            )
            self.ups = nn.ModuleList([pair(o << 1, o) for o in reversed(widths[:-1])])
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            held: list[Any] = []
            for down in self.downs:
                if held:
                    x = nn.functional.max_pool2d(x, 2)
                x = down(x)
                held.append(x)
            held.pop()
            for raised, up in zip(self.raises, self.ups, strict=True):
                x = up(library.cat([held.pop(), raised(x)], dim=1))
            return self.head(x)

    return UNet()


def lstm_by_hand(library: Any, inner: int, width: int, classes: int) -> Any:
    """Return an LSTM written as a loop of cells (Hochreiter & Schmidhuber 1997).

    Sequences (batch, length, inner) in, logits (batch, classes) of the last state out.
    """
    nn = library.nn

    class LSTM(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.seen = nn.Linear(inner, 4 * width)
            self.held = nn.Linear(width, 4 * width, bias=False)
            self.head = nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            state = library.zeros(x.shape[0], width, device=x.device)
            cell = library.zeros(x.shape[0], width, device=x.device)
            for step in range(x.shape[1]):
                gates = self.seen(x[:, step]) + self.held(state)
                taken, forgotten, new, shown = gates.chunk(4, dim=-1)
                cell = forgotten.sigmoid() * cell + taken.sigmoid() * new.tanh()
                state = shown.sigmoid() * cell.tanh()
            return self.head(state)

    return LSTM()


def mobile_net(library: Any, width: int, classes: int) -> Any:
    """Return inverted residuals (Sandler et al. 2018, table 2), with fewer of them.

    Images (batch, 3, height, width) in, logits (batch, classes) out.
    """
    nn = library.nn

    def layer(
        inner: int, outer: int, size: int, stride: int = 1, groups: int = 1
    ) -> Any:
        return [
            nn.Conv2d(inner, outer, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outer),
        ]

    class Residual(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            wide = 6 * inner
            self.layers = nn.Sequential(
                *layer(inner, wide, 1),
                nn.ReLU6(),
                *layer(wide, wide, 3, stride, wide),
                nn.ReLU6(),
                *layer(wide, outer, 1),
            )
            self.same = stride == 1 and inner == outer

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.same else self.layers(x)

    layers = [*layer(3, 2 * width, 3, 2), nn.ReLU6()]
    inner = 2 * width
    for times, count, stride in (
        (1, 1, 1),
        (2, 2, 2),
        (4, 2, 2),
        (6, 2, 2),
        (10, 2, 2),
    ):
        for number in range(count):
            layers.append(Residual(inner, times * width, 1 if number else stride))
            inner = times * width
    layers += [*layer(inner, 8 * inner, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * inner, classes))


def graph_network(
    library: Any, nodes: int, edges: int, width: int, layers: int, classes: int
) -> Any:
    """Return a graph convolution (Kipf & Welling 2017, equation 2) of a random graph.

    Features (nodes, width) in, logits (nodes, classes) out. Messages are summed along
    the edges and not normalised.
    """
    nn = library.nn
    ends = np.random.default_rng(0).integers(0, nodes, (2, edges))

    class GraphNetwork(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("sources", library.tensor(ends[0]))
            self.register_buffer("targets", library.tensor(ends[1]))
            self.layers = nn.ModuleList(
                [nn.Linear(width, width) for _ in range(layers)]
            )
            self.own = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
            self.head = nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            for own, linear in zip(self.own, self.layers, strict=True):
                messages = library.index_select(linear(x), 0, self.sources)
                received = messages.new_zeros(nodes, messages.shape[1])
                received = received.index_add(0, self.targets, messages)
                x = nn.functional.relu(own(x) + received)
            return self.head(x)

    return GraphNetwork()
