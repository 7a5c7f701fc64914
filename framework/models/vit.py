"""Vision Transformer (Dosovitskiy et al. 2021, arXiv:2010.11929).

Names of modules are those of the checkpoints of `ViTModel` and
`ViTForImageClassification`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import nn, ops
from ..base.dtype import float32
from ..base.errors import FileFormatError, ShapeError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .bert import labels
from .config import ModelConfig

TYPES = ("vit",)
"""Values of `model_type`."""


class ViTConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    num_channels: int
    layer_norm_eps: float
    hidden_act: str
    qkv_bias: bool
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> ViTConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        return cls(
            config.size("hidden_size"),
            config.size("intermediate_size"),
            config.size("num_hidden_layers"),
            config.size("num_attention_heads"),
            two_sizes(config, "image_size", 224),
            two_sizes(config, "patch_size", 16),
            config.size("num_channels", 3),
            config.get("layer_norm_eps", float, 1e-12),
            activation_name(config, "hidden_act", "gelu"),
            config.get("qkv_bias", bool, True),
            labels(config),
        )


def two_sizes(config: ModelConfig, name: str, default: int) -> tuple[int, int]:
    """Return height and width, which may be given as one number.

    Raises
    ------
    FileFormatError
        If a setting is neither a number above 0 nor two of them.
    """
    found = config.settings.get(name)
    if not isinstance(found, list):
        size = config.size(name, default)
        return size, size
    if len(found) != 2 or not all(type(each) is int and each > 0 for each in found):
        raise FileFormatError(
            f"{config.where}: `{name}` is {found!r}; it must be one or two sizes"
        )
    return found[0], found[1]


class Patches(nn.Module):
    """Linear layer of each patch, as a convolution."""

    def __init__(self, channels: int, width: int, patch: tuple[int, int]) -> None:
        super().__init__()
        self.channels, self.patch = channels, patch
        self.projection = skip_init(nn.Conv2d, channels, width, patch, patch)

    def forward(self, images: Tensor) -> Tensor:
        """Return the patches, (batch, patches, width).

        Raises
        ------
        ShapeError
            If `images` is not (batch, channels, height, width), or an image has no
            patch.
        """
        check_images(images, self.channels, self.patch)
        images = images.to(self.projection.weight.dtype)
        return ops.flatten(self.projection(images), 2).transpose(1, 2)


def check_images(images: Tensor, channels: int, patch: tuple[int, int]) -> None:
    """Check that there are patches in images of so many channels.

    Raises
    ------
    ShapeError
        If there are none.
    """
    shape = tuple(images.shape)
    fits = len(shape) == 4 and shape[1] == channels
    if not fits or shape[2] < patch[0] or shape[3] < patch[1]:
        raise ShapeError(
            f"forward: images is {shape}; it must be (batch, {channels}, height, width)"
            f" of at least {patch[0]} x {patch[1]} pixels"
        )


def resized_positions(
    positions: Tensor, grid: tuple[int, int], wanted: tuple[int, int]
) -> Tensor:
    """Return what is learned of positions for another grid of patches.

    Parameters
    ----------
    positions : Tensor, shape (1, 1 + patches, width)
        The first is no patch's.
    grid, wanted : tuple of two int
        Rows and columns of patches.

    Returns
    -------
    Tensor, shape (1, 1 + wanted patches, width)
        Interpolated by cubic polynomials in float32.
    """
    if grid == wanted:
        return positions
    width = positions.shape[-1]
    first, rest = positions[:, :1], positions[:, 1:]
    image = rest.reshape(1, *grid, width).permute(0, 3, 1, 2).to(float32)
    image = functional.interpolate(image, size=wanted, mode="bicubic")
    rest = image.permute(0, 2, 3, 1).reshape(1, -1, width).to(positions.dtype)
    return ops.cat([first, rest], 1)


class Embeddings(nn.Module):
    """Patches after a token for the whole image, with their positions."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patch = config.patch_size
        self.grid = (
            config.image_size[0] // self.patch[0],
            config.image_size[1] // self.patch[1],
        )
        width = config.hidden_size
        self.cls_token = nn.Parameter(zeros((1, 1, width)))
        self.patch_embeddings = Patches(config.num_channels, width, self.patch)
        self.position_embeddings = nn.Parameter(
            zeros((1, math.prod(self.grid) + 1, width))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the first layer's input, (batch, 1 + patches, hidden)."""
        patches = self.patch_embeddings(images)
        wanted = (images.shape[2] // self.patch[0], images.shape[3] // self.patch[1])
        x = ops.cat([self.cls_token.expand(len(images), 1, -1), patches], 1)
        return x + resized_positions(self.position_embeddings, self.grid, wanted)


class SelfAttention(nn.Module):
    """Queries, keys and values of heads, and what the queries attend to."""

    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.head = width // heads
        self.query = skip_init(nn.Linear, width, width, bias=bias)
        self.key = skip_init(nn.Linear, width, width, bias=bias)
        self.value = skip_init(nn.Linear, width, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return what each token attends to, of the shape of `x`."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = functional.scaled_dot_product_attention(q, k, v)
        return found.transpose(1, 2).reshape(x.shape)


class Dense(nn.Module):
    """Linear layer under a name of its own."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.dense = skip_init(nn.Linear, inner, outer)

    def forward(self, x: Tensor) -> Tensor:
        """Return x W + b."""
        out: Tensor = self.dense(x)
        return out


class Attention(nn.Module):
    """Attention of all tokens to all others."""

    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, bias)
        self.output = Dense(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.output(self.attention(x))
        return out


class Layer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.activation = ACTIVATIONS[config.hidden_act]
        self.layernorm_before = nn.LayerNorm(width, config.layer_norm_eps)
        self.attention = Attention(width, config.num_attention_heads, config.qkv_bias)
        self.layernorm_after = nn.LayerNorm(width, config.layer_norm_eps)
        self.intermediate = Dense(width, inner)
        self.output = Dense(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.attention(self.layernorm_before(x))
        inner = self.activation(self.intermediate(self.layernorm_after(x)))
        out: Tensor = x + self.output(inner)
        return out


class Layers(nn.Module):
    """Layers one after the other."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            [Layer(config) for _ in range(config.num_hidden_layers)]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the last layer's result, of the shape of `x`."""
        for layer in self.layer:
            x = layer(x)
        return x


class Encoder(nn.Module):
    """Embeddings, layers and the last norm."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        self.layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, images: Tensor) -> Tensor:
        """Return states, (batch, 1 + patches, hidden)."""
        out: Tensor = self.layernorm(self.encoder(self.embeddings(images)))
        return out


class ViT(nn.Module):
    """Encoder of images: a state for the whole image and for each patch.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "vit".
    """

    base = "vit"
    ignored = ("embeddings.mask_token", "pooler.dense.bias", "pooler.dense.weight")

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.vit = Encoder(ViTConfig.of(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return the state of the image, then of its patches by rows.

        Parameters
        ----------
        images : Tensor, float, shape (batch, channels, height, width)
            As an `ImageProcessor` makes them, of any dtype. For another size than the
            configuration's, positions are interpolated.

        Returns
        -------
        Tensor, shape (batch, 1 + patches, hidden_size)

        Raises
        ------
        ShapeError
            If `images` has another shape.
        """
        out: Tensor = self.vit(images)
        return out


class ViTClassifier(nn.Module):
    """Vision Transformer with a head for classes.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "vit".
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = ViTConfig.of(config)
        self.vit = Encoder(sizes)
        self.classifier = skip_init(nn.Linear, sizes.hidden_size, sizes.num_labels)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of classes, (batch, num_labels); as of `ViT.forward`."""
        out: Tensor = self.classifier(self.vit(images)[:, 0])
        return out
