"""GPT-2 (Radford et al. 2019).

Names of modules are those of the checkpoints of `GPT2LMHeadModel`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from .. import nn
from ..base.dtype import DTypeLike
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import DeviceLike, zeros
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .cache import CacheStep, KeyValueCache, heads_of_rank
from .config import ModelConfig
from .logits import states_to_keep

TYPES = ("gpt2",)
"""Values of `model_type`."""


class GPT2Config(NamedTuple):
    """Sizes of a model, with the names of `config.json`."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int
    layer_norm_epsilon: float
    activation: str

    @classmethod
    def of(cls, config: ModelConfig) -> GPT2Config:
        """Return what a configuration says; errors as of `LlamaConfig.of`."""
        config.require("activation_function", "gelu_new", "gelu", "relu")
        config.require("scale_attn_by_inverse_layer_idx", False)
        config.require("scale_attn_weights", True)
        config.require("tie_word_embeddings", True)
        width = config.size("n_embd")
        return cls(
            config.size("vocab_size"),
            config.size("n_positions"),
            width,
            config.size("n_layer"),
            config.size("n_head"),
            config.size("n_inner", 4 * width),
            config.get("layer_norm_epsilon", float, 1e-5),
            config.get("activation_function", str, "gelu_new"),
        )


class Conv1D(nn.Module):
    """Linear layer whose weight is stored as (inner, outer)."""

    weight_is_transposed: ClassVar[bool] = True

    def __init__(self, outer: int, inner: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(zeros((inner, outer)))
        self.bias = nn.Parameter(zeros(outer))

    @property
    def in_features(self) -> int:
        """Size of the inputs."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """Size of the outputs."""
        return self.weight.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """Return x W + b."""
        return x @ self.weight + self.bias


class Attention(nn.Module):
    """Causal attention."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.head = config.n_embd // config.n_head
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)

    def forward(
        self,
        x: Tensor,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return what each token attends to, (batch, length, n_embd)."""
        batch, length, _ = x.shape
        cut = (batch, length, 3, -1, self.head)
        q, k, v = self.c_attn(x).reshape(*cut).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is None:
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            step, layer = cache
            found = step.attend(layer, q, k, v)
        out: Tensor = self.c_proj(found.transpose(1, 2).reshape(batch, length, -1))
        return out


class MLP(nn.Module):
    """Feed-forward layer."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.activation = config.activation
        self.c_fc = Conv1D(config.n_inner, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_inner)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's result, of the shape of `x`."""
        x = self.c_fc(x)
        if self.activation == "gelu_new":
            x = functional.gelu(x, approximate="tanh")
        else:
            x = getattr(functional, self.activation)(x)
        out: Tensor = self.c_proj(x)
        return out


class Block(nn.Module):
    """Attention and feed-forward layer, each after a norm and added to its input."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(
        self,
        x: Tensor,
        cache: tuple[CacheStep, int] | None,
    ) -> Tensor:
        """Return the next block's input, of the shape of `x`."""
        x = x + self.attn(self.ln_1(x), cache)
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class Transformer(nn.Module):
    """Embeddings, blocks and the last norm."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = skip_init(nn.Embedding, config.vocab_size, config.n_embd)
        self.wpe = skip_init(nn.Embedding, config.n_positions, config.n_embd)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, config.layer_norm_epsilon)

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """Return the state of each token, (batch, length, n_embd)."""
        length = tokens.shape[1]
        step = None if cache is None else cache.step(length)
        if step is None:
            positions = arange(length, device=tokens.device)
        else:
            positions = step.positions
        x = self.wte(tokens) + self.wpe(positions)
        for number, block in enumerate(self.h):
            x = block(x, None if step is None else (step, number))
        if cache is not None:
            cache.advance(length)
        out: Tensor = self.ln_f(x)
        return out


class GPT2(nn.Module):
    """Language model GPT-2.

    Parameters
    ----------
    config : ModelConfig
        Of `model_type` "gpt2".

    Attributes
    ----------
    base : str
        First part of names, which the first checkpoints lack.
    ignored : tuple of str
        Ends of names in checkpoints that are no parameters: causal masks.
    """

    base = "transformer"
    ignored = (".attn.bias", ".attn.masked_bias")

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.settings = config.settings
        self.config = GPT2Config.of(config)
        self.transformer = Transformer(self.config)
        self.lm_head = skip_init(
            nn.Linear, self.config.n_embd, self.config.vocab_size, bias=False
        )
        self.lm_head.weight = self.transformer.wte.weight

    def forward(
        self,
        tokens: Tensor,
        cache: KeyValueCache | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> Tensor:
        """Return logits of the token after each; as of `Llama.forward`."""
        states = states_to_keep(self.transformer(tokens, cache), logits_to_keep)
        out: Tensor = self.lm_head(states)
        return out

    def new_cache(
        self,
        batch: int,
        length: int,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> KeyValueCache:
        """Return an empty cache for sequences of `length` tokens."""
        weight = self.lm_head.weight
        heads = self.config.n_head
        return KeyValueCache(
            self.config.n_layer,
            batch,
            heads_of_rank(heads, self.transformer.h[0].get_submodule("attn.c_attn")),
            length,
            self.config.n_embd // heads,
            weight.device if device is None else device,
            weight.dtype if dtype is None else dtype,
        )
