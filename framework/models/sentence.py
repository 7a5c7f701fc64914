"""Embeddings of texts: an encoder, and what is made of its states.

Folders of sentence-transformers say it in `modules.json` (Reimers and Gurevych 2019,
arXiv:1908.10084).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from vkbackend.errors import ArgumentError

from .. import nn, ops
from ..autograd.engine import no_grad
from ..base.errors import FileFormatError
from ..nn import functional
from ..nn.utils import skip_init
from ..tensor.factories import ones
from ..tensor.from_data import tensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .config import ModelConfig
from .tokenizer import Tokenizer

POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Settings of `1_Pooling/config.json`, with what newer files call each, in order."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Tanh": ops.tanh,
    "ReLU": functional.relu,
    "GELU": functional.gelu,
}


def pooled(states: Tensor, mask: Tensor, kind: str) -> Tensor:
    """Return one vector for each sequence, (batch, width).

    Parameters
    ----------
    states : Tensor, shape (batch, length, width)
    mask : Tensor, bool or int64, shape (batch, length)
        False or 0 for padding.
    kind : str
        One of the values of `POOLINGS`.
    """
    real = ops.unsqueeze(mask != 0, -1)
    if kind == "cls":
        return states[:, 0]
    if kind == "max":
        return ops.amax(ops.where(real, states, float("-inf")), 1)
    if kind == "lasttoken":
        # The last that is real, whichever side padding is on.
        place = ops.argmax(ops.cumsum(real, 1), 1, keepdim=True)
        return ops.take_along_dim(states, place, 1)[:, 0]
    if kind == "weightedmean":
        places = arange(1, real.shape[1] + 1, device=states.device)
        shares = ops.where(real, ops.reshape(places, (1, -1, 1)), 0).to(states.dtype)
        return ops.sum(states * shares, 1) / ops.sum(shares, 1)
    total = ops.sum(ops.where(real, states, 0.0), 1)
    count = ops.clamp(ops.sum(real, 1).to(states.dtype), 1)
    return total / (count if kind == "mean" else ops.sqrt(count))


class Dense(nn.Module):
    """Linear layer and activation after pooling.

    Parameters
    ----------
    config : ModelConfig
        Of the folder `2_Dense`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        name = config.get("activation_function", str, "Identity").rpartition(".")[2]
        if name not in (*_ACTIVATIONS, "Identity"):
            raise FileFormatError(
                f"{config.where}: `activation_function` is {name!r}; accepted:"
                f" {', '.join(map(repr, (*_ACTIVATIONS, 'Identity')))}"
            )
        self.activation = _ACTIVATIONS.get(name)
        self.linear = skip_init(
            nn.Linear,
            config.size("in_features"),
            config.size("out_features"),
            bias=config.get("bias", bool, True),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the vectors, (batch, out_features)."""
        x = self.linear(x)
        return x if self.activation is None else self.activation(x)


class SentenceEncoder(nn.Module):
    """Encoder of texts to one vector each.

    Parameters
    ----------
    encoder : nn.Module
        As `Bert` is called.
    poolings : tuple of str
        Values of `POOLINGS`, whose vectors are joined.
    dense : sequence of Dense
        Applied one after the other.
    normalized : bool
        Whether vectors are divided by their lengths.
    longest : int, default 512
        Number of tokens from which on `embed` cuts a text off.
    """

    def __init__(
        self,
        encoder: nn.Module,
        poolings: tuple[str, ...] = ("mean",),
        dense: tuple[Dense, ...] = (),
        normalized: bool = False,
        longest: int = 512,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.longest = longest
        self.poolings = poolings
        self.dense = nn.ModuleList(dense)
        self.normalized = normalized

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None
    ) -> Tensor:
        """Return a vector for each sequence, (batch, width); as of `Bert.forward`."""
        if mask is None:
            mask = ones(tokens.shape, dtype=tokens.dtype, device=tokens.device)
        states = self.encoder(tokens, mask, types)
        x = ops.cat([pooled(states, mask, kind) for kind in self.poolings], -1)
        for dense in self.dense:
            x = dense(x)
        return functional.normalize(x, dim=-1) if self.normalized else x


def poolings_of(config: ModelConfig) -> tuple[str, ...]:
    """Return how a configuration of pooling makes one vector of states.

    Raises
    ------
    FileFormatError
        If it says none, or another one than `POOLINGS` has.
    """
    newer = config.settings.get("pooling_mode")
    if newer is not None:
        named = (newer,) if isinstance(newer, str) else tuple(newer)
    else:
        named = tuple(
            kind for name, kind in POOLINGS.items() if config.get(name, bool, False)
        )
    if not named or {*named} - {*POOLINGS.values()}:
        raise FileFormatError(
            f"{config.where}: the pooling is {named}; it must be of"
            f" {', '.join(map(repr, POOLINGS.values()))}"
        )
    return named


def modules_of(root: Path) -> list[ModelConfig]:
    """Return what `modules.json` of a folder lists.

    Raises
    ------
    FileFormatError
        If it is no list of JSON objects.
    """
    where = root / "modules.json"
    try:
        found = json.loads(where.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{where}: it is no JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise FileFormatError(f"{where}: it must be a list of JSON objects")
    return [ModelConfig(each, str(where)) for each in found]


def module_folder(root: Path, path: str) -> Path:
    """Return the folder of a module, inside of the model's.

    Raises
    ------
    FileFormatError
        If it is outside.
    """
    if path and Path(path).name != path:
        raise FileFormatError(
            f"{root / 'modules.json'}: `path` is {path!r}; it must be a folder in it"
        )
    return root / path


def embed(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    batch_size: int = 32,
) -> Tensor:
    """Return a vector for each text.

    Parameters
    ----------
    model : nn.Module
        A `SentenceEncoder`; of another encoder the states' mean is taken.
    tokenizer : Tokenizer
    texts : sequence of str
    batch_size : int, default 32
        Number of texts at once. Those of about one length are together.

    Returns
    -------
    Tensor, shape (texts, width)
        On the model's device.

    Raises
    ------
    ArgumentError
        If there is no text, or `batch_size` is below 1.

    Examples
    --------
    >>> model = fw.models.load("all-MiniLM-L6-v2", "gpu")  # doctest: +SKIP
    >>> tokenizer = fw.models.Tokenizer("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> fw.models.embed(model, tokenizer, ["A text"]).shape  # doctest: +SKIP
    torch.Size([1, 384])
    """
    if batch_size < 1:
        raise ArgumentError(f"embed: batch_size is {batch_size}; it must be above 0")
    if not texts:
        raise ArgumentError("embed: texts has no text; give at least one")
    encoder = model if isinstance(model, SentenceEncoder) else SentenceEncoder(model)
    device = next(model.parameters()).device
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = []
    with no_grad():
        for start in range(0, len(order), batch_size):
            some = [texts[i] for i in order[start : start + batch_size]]
            batch = tokenizer.batch(some, device, side="right", longest=encoder.longest)
            found.append(encoder(*batch))
    places = tensor(np.argsort(order), device=device)
    return ops.index_select(ops.cat(found), 0, places)
