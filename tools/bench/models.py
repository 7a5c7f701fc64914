"""Models that are trained here and in PyTorch, written once.

Each function is given the library, `vkbackend.framework` or `torch`: both have the
names that are used, and the same names of parameters, so that one can take the other's.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple


class Sizes(NamedTuple):
    """Sizes of a transformer.

    Attributes
    ----------
    words, length : int
        Of the vocabulary, and of a sequence.
    width, heads, blocks : int
        Of a token, of a block's attention, of the model; a block is four times as wide
        inside.
    tied : bool
        Whether the words' vectors are also the weights of the last layer.
    """

    words: int
    length: int
    width: int
    heads: int
    blocks: int
    tied: bool = False


def perceptron(library: Any, sizes: tuple[int, ...]) -> Any:
    """Return linear layers with relu in between."""
    nn, layers = library.nn, []
    for inner, outer in itertools.pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _block(library: Any, sizes: Sizes) -> Any:
    nn, width = library.nn, sizes.width

    class Block(nn.Module):  # type: ignore[misc, name-defined]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            cut = (batch, length, 3, sizes.heads, width // sizes.heads)
            qkv = self.qkv(self.norm(x)).reshape(*cut)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    return Block()


def transformer(library: Any, sizes: Sizes) -> Any:
    """Return a decoder: tokens (batch, length) in, logits of every next word out."""
    nn = library.nn

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(sizes.words, sizes.width)
            self.places = nn.Embedding(sizes.length, sizes.width)
            self.blocks = nn.ModuleList(
                [_block(library, sizes) for _ in range(sizes.blocks)]
            )
            self.norm = nn.LayerNorm(sizes.width)
            if not sizes.tied:
                self.head = nn.Linear(sizes.width, sizes.words)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places.weight
            for block in self.blocks:
                x = block(x)
            x = self.norm(x).reshape(-1, sizes.width)
            if sizes.tied:
                return nn.functional.linear(x, self.words.weight)
            return self.head(x)

    return Transformer()


def _residual(library: Any, inner: int, outer: int, stride: int) -> Any:
    nn = library.nn

    class Residual(nn.Module):  # type: ignore[misc, name-defined]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outer)
            self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outer)
            self.downsample = None
            if stride > 1:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inner, outer, 1, stride, bias=False),
                    nn.BatchNorm2d(outer),
                )

        def forward(self, x: Any) -> Any:
            short = x if self.downsample is None else self.downsample(x)
            x = nn.functional.relu(self.bn1(self.conv1(x)))
            return nn.functional.relu(self.bn2(self.conv2(x)) + short)

    return Residual()


def resnet18(library: Any, classes: int, width: int = 64) -> Any:
    """Return a residual network of 18 layers (He et al. 2016, table 1).

    Images (batch, 3, height, width) in, logits out; `width` is the channels of the
    first layer, 64 in the paper.
    """
    nn = library.nn
    layers = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inner = width
    for level in range(4):
        outer = width << level
        layers.append(_residual(library, inner, outer, 1 if level == 0 else 2))
        layers.append(_residual(library, outer, outer, 1))
        inner = outer
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes)]
    return nn.Sequential(*layers)
