"""CLIP (Radford et al. 2021, arXiv:2103.00020): texts and images in one space.

Names of modules are those of the checkpoints of `CLIPModel`.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import nn, ops
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import zeros
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .activation import ACTIVATIONS, activation_name
from .bert import check_length
from .cache import visible
from .config import ModelConfig
from .vit import check_images, resized_positions

TYPES = ("clip",)
"""Values of `model_type`."""

_OLD_END = 2
"""Number of the last token in old configurations, where it is the largest instead."""


class TowerConfig(NamedTuple):
    """Sizes and settings of what texts or images pass, as of `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float
    hidden_act: str

    @classmethod
    def of(cls, config: ModelConfig, width: int, heads: int) -> TowerConfig:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        hidden = config.size("hidden_size", width)
        return cls(
            hidden,
            config.size("intermediate_size", 4 * hidden),
            config.size("num_hidden_layers", 12),
            config.size("num_attention_heads", heads),
            config.get("layer_norm_eps", float, 1e-5),
            activation_name(config, "hidden_act", "quick_gelu"),
        )


class Attention(nn.Module):
    """Attention of heads."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.head = width // config.num_attention_heads
        self.q_proj = skip_init(nn.Linear, width, width)
        self.k_proj = skip_init(nn.Linear, width, width)
        self.v_proj = skip_init(nn.Linear, width, width)
        self.out_proj = skip_init(nn.Linear, width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each token attends to, of the shape of `x`."""
        cut = (*x.shape[:2], -1, self.head)
        q, k, v = (
            part(x).reshape(*cut).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        found = functional.scaled_dot_product_attention(q, k, v, mask)
        out: Tensor = self.out_proj(found.transpose(1, 2).reshape(x.shape))
        return out


class MLP(nn.Module):
    """Feed-forward layer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.fc1 = skip_init(nn.Linear, config.hidden_size, config.intermediate_size)
        self.fc2 = skip_init(nn.Linear, config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        out: Tensor = self.fc2(self.activation(self.fc1(x)))
        return out


class Layer(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = Attention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next layer's input, of the shape of `x`."""
        x = x + self.self_attn(self.layer_norm1(x), mask)
        out: Tensor = x + self.mlp(self.layer_norm2(x))
        return out


class Layers(nn.Module):
    """Layers one after the other."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [Layer(config) for _ in range(config.num_hidden_layers)]
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the last layer's result, of the shape of `x`."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class TextEmbeddings(nn.Module):
    """Sum of what is learned of words and positions."""

    def __init__(self, words: int, longest: int, width: int) -> None:
        super().__init__()
        self.longest = longest
        self.token_embedding = skip_init(nn.Embedding, words, width)
        self.position_embedding = skip_init(nn.Embedding, longest, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the first layer's input, (batch, length, hidden)."""
        check_length(tokens, self.longest)
        places = arange(tokens.shape[1], device=tokens.device)
        out: Tensor = self.token_embedding(tokens) + self.position_embedding(places)
        return out


class TextModel(nn.Module):
    """Causal encoder of texts; the state of the last token is the text's."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = TowerConfig.of(config, 512, 8)
        self.width = sizes.hidden_size
        self.end = config.get("eos_token_id", int, 49407)
        self.embeddings = TextEmbeddings(
            config.size("vocab_size", 49408),
            config.size("max_position_embeddings", 77),
            self.width,
        )
        self.encoder = Layers(sizes)
        self.final_layer_norm = nn.LayerNorm(self.width, sizes.layer_norm_eps)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return a state for each text, (batch, hidden)."""
        places = arange(tokens.shape[1], device=tokens.device)
        seen = visible(places, places)
        if mask is not None:
            seen = seen & (mask != 0).reshape(len(mask), 1, 1, -1)
        states = self.final_layer_norm(self.encoder(self.embeddings(tokens), seen))
        if self.end == _OLD_END:
            last = ops.argmax(tokens, -1)
        else:
            last = ops.argmax((tokens == self.end).to(tokens.dtype), -1)
        return ops.take_along_dim(states, last.reshape(-1, 1, 1), 1)[:, 0]


class VisionEmbeddings(nn.Module):
    """Patches after a token for the whole image, with their positions."""

    def __init__(self, size: int, patch: int, channels: int, width: int) -> None:
        super().__init__()
        self.channels, self.patch, self.grid = channels, patch, size // patch
        self.class_embedding = nn.Parameter(zeros(width))
        self.patch_embedding = skip_init(
            nn.Conv2d, channels, width, patch, patch, bias=False
        )
        self.position_embedding = skip_init(nn.Embedding, self.grid**2 + 1, width)

    def forward(self, images: Tensor) -> Tensor:
        """Return the first layer's input, (batch, 1 + patches, hidden)."""
        check_images(images, self.channels, (self.patch, self.patch))
        images = images.to(self.patch_embedding.weight.dtype)
        patches = ops.flatten(self.patch_embedding(images), 2).transpose(1, 2)
        x = ops.cat([self.class_embedding.expand(len(images), 1, -1), patches], 1)
        wanted = (images.shape[2] // self.patch, images.shape[3] // self.patch)
        positions = ops.unsqueeze(self.position_embedding.weight, 0)
        return x + resized_positions(positions, (self.grid, self.grid), wanted)


class VisionModel(nn.Module):
    """Encoder of images; the state of the first token is the image's."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        sizes = TowerConfig.of(config, 768, 12)
        self.width = sizes.hidden_size
        self.embeddings = VisionEmbeddings(
            config.size("image_size", 224),
            config.size("patch_size", 32),
            config.size("num_channels", 3),
            self.width,
        )
        # Spelt as checkpoints have it.
        self.pre_layrnorm = nn.LayerNorm(self.width, sizes.layer_norm_eps)
        self.encoder = Layers(sizes)
        self.post_layernorm = nn.LayerNorm(self.width, sizes.layer_norm_eps)

    def forward(self, images: Tensor) -> Tensor:
        """Return a state for each image, (batch, hidden)."""
        states = self.encoder(self.pre_layrnorm(self.embeddings(images)))
        out: Tensor = self.post_layernorm(states[:, 0])
        return out


def _part(config: ModelConfig, name: str) -> ModelConfig:
    """Return the settings of texts or images, each with its own defaults."""
    found = config.settings.get(name) or {}
    return ModelConfig(found, f"{config.where}: {name}")


class CLIP(nn.Module):
    """Texts and images as vectors whose products say how well they fit.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "clip".
    """

    ignored = ("embeddings.position_ids",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.size("projection_dim", 512)
        self.text_model = TextModel(_part(config, "text_config"))
        self.vision_model = VisionModel(_part(config, "vision_config"))
        self.visual_projection = skip_init(
            nn.Linear, self.vision_model.width, width, bias=False
        )
        self.text_projection = skip_init(
            nn.Linear, self.text_model.width, width, bias=False
        )
        self.logit_scale = nn.Parameter(zeros(()))

    def text_features(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return vectors of texts.

        Parameters
        ----------
        tokens : Tensor, int64, shape (texts, length)
            Each with the last token; what follows it is not seen.
        mask : Tensor or None, bool or int64, shape (texts, length)
            False or 0 for padding.

        Returns
        -------
        Tensor, shape (texts, projection_dim)

        Raises
        ------
        ShapeError
            If there are more tokens than the model has positions for.
        """
        out: Tensor = self.text_projection(self.text_model(tokens, mask))
        return out

    def image_features(self, images: Tensor) -> Tensor:
        """Return vectors of images, (images, projection_dim); as of `ViT.forward`."""
        out: Tensor = self.visual_projection(self.vision_model(images))
        return out

    def forward(
        self, tokens: Tensor, images: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return how well each image fits each text, as logits.

        Parameters
        ----------
        tokens : Tensor, int64, shape (texts, length)
        images : Tensor, float, shape (images, channels, height, width)
        mask : Tensor or None, bool or int64, shape (texts, length)

        Returns
        -------
        Tensor, shape (images, texts)
        """
        texts = functional.normalize(self.text_features(tokens, mask), dim=-1)
        seen = functional.normalize(self.image_features(images), dim=-1)
        return seen @ texts.T * ops.exp(self.logit_scale)
