"""DINOv2 (Oquab et al. 2023, arXiv:2304.07193), also with registers (arXiv:2309.16588).

Names of modules are those of the checkpoints of `Dinov2Model`,
`Dinov2WithRegistersModel` and their `ForImageClassification`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .. import nn, ops
from ..nn.utils import skip_init
from ..tensor.factories import ones, zeros
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .bert import labels
from .config import ModelConfig
from .vit import Attention, Patches, resized_positions, two_sizes

PLAIN_TYPES = ("dinov2",)
REGISTER_TYPES = ("dinov2_with_registers",)
"""Values of `model_type`."""


class Dinov2Config(NamedTuple):
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
    num_register_tokens: int
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> Dinov2Config:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("use_swiglu_ffn", False)
        width = config.size("hidden_size")
        plain = config.get("model_type", str, "dinov2") in PLAIN_TYPES
        return cls(
            width,
            int(width * config.get("mlp_ratio", float, 4.0)),
            config.size("num_hidden_layers"),
            config.size("num_attention_heads"),
            two_sizes(config, "image_size", 224),
            two_sizes(config, "patch_size", 14),
            config.size("num_channels", 3),
            config.get("layer_norm_eps", float, 1e-6),
            activation_name(config, "hidden_act", "gelu"),
            config.get("qkv_bias", bool, True),
            0 if plain else config.get("num_register_tokens", int, 4),
            labels(config),
        )


class Embeddings(nn.Module):
    """Patches after a token for the whole image, with their positions."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        self.patch = config.patch_size
        self.grid = (
            config.image_size[0] // self.patch[0],
            config.image_size[1] // self.patch[1],
        )
        width = config.hidden_size
        self.registers = config.num_register_tokens
        self.cls_token = nn.Parameter(zeros((1, 1, width)))
        if self.registers:
            self.register_tokens = nn.Parameter(zeros((1, self.registers, width)))
        self.patch_embeddings = Patches(config.num_channels, width, self.patch)
        self.position_embeddings = nn.Parameter(
            zeros((1, math.prod(self.grid) + 1, width))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the first layer's input, (batch, 1 + registers + patches, hidden)."""
        patches = self.patch_embeddings(images)
        wanted = (images.shape[2] // self.patch[0], images.shape[3] // self.patch[1])
        x = ops.cat([self.cls_token.expand(len(images), 1, -1), patches], 1)
        x = x + resized_positions(self.position_embeddings, self.grid, wanted)
        if not self.registers:
            return x
        registers = self.register_tokens.expand(len(images), self.registers, -1)
        return ops.cat([x[:, :1], registers, x[:, 1:]], 1)


class Scale(nn.Module):
    """Factor of each element (Touvron et al. 2021, arXiv:2103.17239)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lambda1 = nn.Parameter(ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the product, of the shape of `x`."""
        return x * self.lambda1


class MLP(nn.Module):
    """Feed-forward layer."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.fc1 = skip_init(nn.Linear, config.hidden_size, config.intermediate_size)
        self.fc2 = skip_init(nn.Linear, config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.fc2(self.activation(self.fc1(x)))
        return out


class Layer(nn.Module):
    """Attention and feed-forward layer, each scaled and added to its input."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.layer_norm_eps
        self.norm1 = nn.LayerNorm(width, eps)
        self.attention = Attention(width, config.num_attention_heads, config.qkv_bias)
        self.layer_scale1 = Scale(width)
        self.norm2 = nn.LayerNorm(width, eps)
        self.mlp = MLP(config)
        self.layer_scale2 = Scale(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.layer_scale1(self.attention(self.norm1(x)))
        out: Tensor = x + self.layer_scale2(self.mlp(self.norm2(x)))
        return out


class Layers(nn.Module):
    """Layers one after the other."""

    def __init__(self, config: Dinov2Config) -> None:
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

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        self.registers = config.num_register_tokens
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        self.layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, images: Tensor) -> Tensor:
        """Return states, (batch, 1 + registers + patches, hidden)."""
        out: Tensor = self.layernorm(self.encoder(self.embeddings(images)))
        return out

    def summary(self, images: Tensor) -> Tensor:
        """Return the image's state beside the mean of patches, (batch, 2 hidden)."""
        states = self(images)
        mean = ops.mean(states[:, 1 + self.registers :], 1)
        return ops.cat([states[:, 0], mean], 1)


class Dinov2(nn.Module):
    """Encoder of images: states of the image, of registers and of patches.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "dinov2".
    """

    base = "dinov2"
    ignored = ("embeddings.mask_token",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dinov2 = Encoder(Dinov2Config.of(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, 1 + registers + patches, hidden_size); as of `ViT.forward`."""
        out: Tensor = self.dinov2(images)
        return out


class Dinov2Classifier(nn.Module):
    """DINOv2 with a head for classes.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "dinov2".
    """

    ignored = ("embeddings.mask_token",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = Dinov2Config.of(config)
        self.dinov2 = Encoder(sizes)
        self.classifier = skip_init(nn.Linear, 2 * sizes.hidden_size, sizes.num_labels)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of classes, (batch, num_labels); as of `ViT.forward`."""
        out: Tensor = self.classifier(self.dinov2.summary(images))
        return out


class Dinov2Registers(nn.Module):
    """DINOv2 with registers; as of `Dinov2`.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "dinov2_with_registers".
    """

    base = "dinov2_with_registers"
    ignored = ("embeddings.mask_token",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dinov2_with_registers = Encoder(Dinov2Config.of(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return (batch, 1 + registers + patches, hidden_size); as of `ViT.forward`."""
        out: Tensor = self.dinov2_with_registers(images)
        return out
