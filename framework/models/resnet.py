"""ResNet (He et al. 2016, arXiv:1512.03385).

Names of modules are those of the checkpoints of `ResNetModel` and
`ResNetForImageClassification`; `torchvision_names` has those of torchvision.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..base.errors import FileFormatError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.tensor import Tensor
from .bert import labels
from .config import ModelConfig
from .vit import check_images

TYPES = ("resnet",)
"""Values of `model_type`."""

_NARROWING = 4
"""How many times fewer channels are between the layers of a bottleneck."""


class ResNetConfig(NamedTuple):
    """Sizes and settings of a model, with the names of `config.json`."""

    num_channels: int
    embedding_size: int
    hidden_sizes: tuple[int, ...]
    depths: tuple[int, ...]
    is_bottleneck: bool
    downsample_in_first_stage: bool
    downsample_in_bottleneck: bool
    num_labels: int

    @classmethod
    def of(cls, config: ModelConfig) -> ResNetConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("hidden_act", "relu")
        config.require("layer_type", "bottleneck", "basic")
        sizes = _sizes(config, "hidden_sizes", (256, 512, 1024, 2048))
        depths = _sizes(config, "depths", (3, 4, 6, 3))
        if len(sizes) != len(depths):
            raise FileFormatError(
                f"{config.where}: `hidden_sizes` are {len(sizes)} and `depths`"
                f" {len(depths)}; they must be as many"
            )
        return cls(
            config.size("num_channels", 3),
            config.size("embedding_size", 64),
            sizes,
            depths,
            config.get("layer_type", str, "bottleneck") == "bottleneck",
            config.get("downsample_in_first_stage", bool, False),
            config.get("downsample_in_bottleneck", bool, False),
            labels(config),
        )


def _sizes(config: ModelConfig, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """Return a setting of several sizes."""
    found = config.settings.get(name)
    if found is None:
        return default
    if not isinstance(found, list) or not all(
        type(each) is int and each > 0 for each in found
    ):
        raise FileFormatError(
            f"{config.where}: `{name}` is {found!r}; it must be a list of sizes"
        )
    return tuple(found)


class Convolution(nn.Module):
    """Convolution and batch norm."""

    def __init__(self, inner: int, outer: int, taps: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.convolution = skip_init(
            nn.Conv2d, inner, outer, taps, stride, taps // 2, bias=False
        )
        self.normalization = nn.BatchNorm2d(outer)

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm, (batch, outer, height / stride, width / stride)."""
        out: Tensor = self.normalization(self.convolution(x))
        return out


class Block(nn.Module):
    """Convolutions, to which their input is added; two, or three as a bottleneck."""

    def __init__(
        self, config: ResNetConfig, inner: int, outer: int, stride: int
    ) -> None:
        super().__init__()
        self.is_projected = inner != outer or stride != 1
        if self.is_projected:
            self.shortcut = Convolution(inner, outer, 1, stride)
        if config.is_bottleneck:
            narrow = outer // _NARROWING
            first, second = 1, stride
            if config.downsample_in_bottleneck:
                first, second = stride, 1
            layers = [
                Convolution(inner, narrow, 1, first),
                Convolution(narrow, narrow, 3, second),
                Convolution(narrow, outer, 1),
            ]
        else:
            layers = [Convolution(inner, outer, 3, stride), Convolution(outer, outer)]
        self.layer = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the next block's input."""
        start: Tensor = self.shortcut(x) if self.is_projected else x
        for number, layer in enumerate(self.layer):
            x = layer(x if not number else functional.relu(x))
        return functional.relu(x + start)


class Stage(nn.Module):
    """Blocks of one size, of which the first may halve height and width."""

    def __init__(
        self, config: ResNetConfig, inner: int, outer: int, depth: int, stride: int
    ) -> None:
        super().__init__()
        first = Block(config, inner, outer, stride)
        rest = [Block(config, outer, outer, 1) for _ in range(depth - 1)]
        self.layers = nn.ModuleList([first, *rest])

    def forward(self, x: Tensor) -> Tensor:
        """Return the next stage's input."""
        for layer in self.layers:
            x = layer(x)
        return x


class Stages(nn.Module):
    """Stages one after the other."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        inner = (config.embedding_size, *config.hidden_sizes)
        strides = [1 if not config.downsample_in_first_stage else 2]
        strides += [2] * (len(config.depths) - 1)
        self.stages = nn.ModuleList(
            [
                Stage(config, inner[i], inner[i + 1], depth, strides[i])
                for i, depth in enumerate(config.depths)
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the last stage's result."""
        for stage in self.stages:
            x = stage(x)
        return x


class Stem(nn.Module):
    """The first convolution and pooling."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.channels = config.num_channels
        self.embedder = Convolution(self.channels, config.embedding_size, 7, 2)

    def forward(self, images: Tensor) -> Tensor:
        """Return a quarter of height and width, (batch, embedding_size, ...)."""
        check_images(images, self.channels, (1, 1))
        images = images.to(self.embedder.convolution.weight.dtype)
        x = functional.relu(self.embedder(images))
        out: Tensor = functional.max_pool2d(x, 3, 2, 1)
        return out


class Encoder(nn.Module):
    """Stem and stages."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.embedder = Stem(config)
        self.encoder = Stages(config)

    def forward(self, images: Tensor) -> Tensor:
        """Return features, (batch, channels, height / 32, width / 32)."""
        out: Tensor = self.encoder(self.embedder(images))
        return out


class ResNet(nn.Module):
    """Encoder of images to features by place.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "resnet".
    """

    base = "resnet"

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.resnet = Encoder(ResNetConfig.of(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return features.

        Parameters
        ----------
        images : Tensor, float, shape (batch, channels, height, width)
            As an `ImageProcessor` makes them.

        Returns
        -------
        Tensor, shape (batch, hidden_sizes[-1], height / 32, width / 32)

        Raises
        ------
        ShapeError
            If `images` has another shape.
        """
        out: Tensor = self.resnet(images)
        return out


class ResNetClassifier(nn.Module):
    """ResNet with a head for classes.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "resnet".

    Attributes
    ----------
    aliases : dict of str to str
        Names in a checkpoint of torchvision.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = ResNetConfig.of(config)
        self.aliases = torchvision_names(sizes)
        self.resnet = Encoder(sizes)
        width = sizes.hidden_sizes[-1]
        self.classifier = nn.ModuleList(
            [nn.Flatten(), skip_init(nn.Linear, width, sizes.num_labels)]
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return logits of classes, (batch, num_labels); as of `ResNet.forward`."""
        x = ops.mean(self.resnet(images), (2, 3))
        out: Tensor = self.classifier[1](x)
        return out


def torchvision_names(sizes: ResNetConfig) -> dict[str, str]:
    """Return torchvision's names of parameters, by those of `ResNetClassifier`."""
    modules = {"resnet.embedder.embedder.": ("conv1.", "bn1.")}
    for stage, depth in enumerate(sizes.depths):
        for block in range(depth):
            ours = f"resnet.encoder.stages.{stage}.layers.{block}."
            theirs = f"layer{stage + 1}.{block}."
            for number in range(3 if sizes.is_bottleneck else 2):
                modules[f"{ours}layer.{number}."] = (
                    f"{theirs}conv{number + 1}.",
                    f"{theirs}bn{number + 1}.",
                )
            modules[f"{ours}shortcut."] = (
                f"{theirs}downsample.0.",
                f"{theirs}downsample.1.",
            )
    names = {"classifier.1.weight": "fc.weight", "classifier.1.bias": "fc.bias"}
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    for ours, (convolution, normalization) in modules.items():
        names[f"{ours}convolution.weight"] = f"{convolution}weight"
        for name in norm:
            names[f"{ours}normalization.{name}"] = f"{normalization}{name}"
    return names
