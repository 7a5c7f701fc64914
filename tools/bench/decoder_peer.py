"""A decoder of Llama's or Qwen 3's kind in PyTorch, beside which ours is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend.framework import Tensor, nn


class TorchCache(NamedTuple):
    """Keys and values of all layers, and the position of the next token.

    Attributes
    ----------
    keys, values : list of torch.Tensor, shape (batch, heads, length, head)
    position : torch.Tensor, int64, shape (1,)
    """

    keys: list[Any]
    values: list[Any]
    position: Any


def torch_decoder(torch: Any, config: Mapping[str, Any]) -> Any:
    """Return a decoder whose parameters have the names of checkpoints.

    Parameters
    ----------
    torch : module
    config : mapping
        As `config.json` holds it; of `model_type` "llama" or "qwen3".

    Returns
    -------
    torch.nn.Module
        Called with tokens (batch, length) it returns logits (batch, length, words);
        given a `TorchCache`, too, those of the last token, whose keys and values are
        written there. One token sees what the cache has up to its own position, several
        are the first.
    """
    functional, linear, norm = torch.nn.functional, torch.nn.Linear, torch.nn.RMSNorm
    width, inner = config["hidden_size"], config["intermediate_size"]
    heads, head = config["num_attention_heads"], config["head_dim"]
    shared, epsilon = config["num_key_value_heads"], config.get("rms_norm_eps", 1e-6)

    class Attention(torch.nn.Module):  # type: ignore[misc]  # a base known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.q_proj = linear(width, heads * head, bias=False)
            self.k_proj = linear(width, shared * head, bias=False)
            self.v_proj = linear(width, shared * head, bias=False)
            self.o_proj = linear(heads * head, width, bias=False)
            if config["model_type"] == "qwen3":
                self.q_norm, self.k_norm = (
                    norm(head, epsilon),
                    norm(head, epsilon),
                )

        def forward(self, x: Any, angles: Any, cached: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part(x).view(batch, length, -1, head)
                for part in (self.q_proj, self.k_proj, self.v_proj)
            )
            if hasattr(self, "q_norm"):
                q, k = self.q_norm(q), self.k_norm(k)
            q, k = (rotated(each, *angles).transpose(1, 2) for each in (q, k))
            v = v.transpose(1, 2)
            if cached is not None:
                keys, values, places, mask = cached
                keys.index_copy_(2, places, k)
                values.index_copy_(2, places, v)
            if cached is not None and length == 1:
                # Heads that share keys are rows of one product, which cuBLAS divides
                # among multiprocessors; attention's own kernels have 8 workgroups here.
                rows = q.reshape(batch, shared, heads // shared, head)
                scores = rows @ keys.mT * head**-0.5
                scores = scores.float().masked_fill(~mask, -float("inf"))
                found = scores.softmax(-1).to(x.dtype) @ values
                found = found.reshape(batch, heads, 1, head)
            else:
                found = functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=True
                )
            return self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))

    class MLP(torch.nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj = linear(width, inner, bias=False)
            self.up_proj = linear(width, inner, bias=False)
            self.down_proj = linear(inner, width, bias=False)

        def forward(self, x: Any) -> Any:
            gate = functional.silu(self.gate_proj(x))
            return self.down_proj(gate * self.up_proj(x))

    class Layer(torch.nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.input_layernorm = norm(width, epsilon)
            self.self_attn = Attention()
            self.post_attention_layernorm = norm(width, epsilon)
            self.mlp = MLP()

        def forward(self, x: Any, angles: Any, cached: Any) -> Any:
            x = x + self.self_attn(self.input_layernorm(x), angles, cached)
            return x + self.mlp(self.post_attention_layernorm(x))

    class Decoder(torch.nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = torch.nn.Embedding(config["vocab_size"], width)
            count = config["num_hidden_layers"]
            self.layers = torch.nn.ModuleList([Layer() for _ in range(count)])
            self.norm = norm(width, epsilon)

    class LanguageModel(torch.nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.model = Decoder()
            self.lm_head = linear(width, config["vocab_size"], bias=False)
            if config.get("tie_word_embeddings"):
                self.lm_head.weight = self.model.embed_tokens.weight

        def forward(self, tokens: Any, cache: TorchCache | None = None) -> Any:
            x = self.model.embed_tokens(tokens)
            places = torch.arange(tokens.shape[1], device=tokens.device)
            mask = None
            if cache is not None:
                places = places + cache.position
                length = cache.keys[0].shape[2]
                mask = (torch.arange(length, device=tokens.device) <= places[-1])[None]
            angles = rotary_angles(torch, places, head, config["rope_theta"], x.dtype)
            for number, layer in enumerate(self.model.layers):
                cached = None
                if cache is not None:
                    cached = cache.keys[number], cache.values[number], places, mask
                x = layer(x, angles, cached)
            if cache is not None:
                cache.position.add_(tokens.shape[1])
                x = x[:, -1:]
            return self.lm_head(self.model.norm(x))

    def rotated(x: Any, cosines: Any, sines: Any) -> Any:
        first, second = x.chunk(2, dim=-1)
        return x * cosines + torch.cat([-second, first], dim=-1) * sines

    return LanguageModel()


def rotary_angles(torch: Any, places: Any, head: int, base: float, dtype: Any) -> Any:
    """Return cosines and sines, (length, 1, head) each, of rotary embeddings."""
    steps = torch.arange(0, head, 2, device=places.device, dtype=torch.float32) / head
    turns = places[:, None].float() * base**-steps
    turns = torch.cat([turns, turns], dim=-1)[:, None]
    return turns.cos().to(dtype), turns.sin().to(dtype)


def torch_cache(
    torch: Any, config: Mapping[str, Any], batch: int, length: int, like: Any
) -> TorchCache:
    """Return a cache of zeros of the dtype, and on the device, of a tensor."""
    shape = batch, config["num_key_value_heads"], length, config["head_dim"]
    keys, values = (
        [like.new_zeros(shape) for _ in range(config["num_hidden_layers"])]
        for _ in range(2)
    )
    return TorchCache(keys, values, like.new_zeros(1, dtype=torch.int64))


def add_adapters(torch: Any, model: Any, rank: int, alpha: float) -> None:
    """Freeze a model, and put low-rank adapters beside its layers' linear ones.

    As peft's for a model of 16 bits they are float32. Their parameters are named
    `lora_A.weight` and `lora_B.weight`, as `fw.lora` names them.
    """
    functional, linear = torch.nn.functional, torch.nn.Linear

    class Adapted(torch.nn.Module):  # type: ignore[misc]  # a base known when it runs
        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base_layer, device = base, base.weight.device
            inner, outer = base.in_features, base.out_features
            self.lora_A = linear(inner, rank, bias=False, device=device)
            self.lora_B = linear(rank, outer, bias=False, device=device)
            torch.nn.init.zeros_(self.lora_B.weight)

        def forward(self, x: Any) -> Any:
            down = functional.linear(x, self.lora_A.weight.to(x.dtype))
            up = functional.linear(down, self.lora_B.weight.to(x.dtype))
            return self.base_layer(x) + up * (alpha / rank)

    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, base in list(part.named_children()):
                if isinstance(base, linear):
                    setattr(part, name, Adapted(base))


def copy_weights(torch: Any, model: nn.Module, peer: Any) -> None:
    """Copy each parameter of ours to the peer's of that name, to the bit.

    Raises
    ------
    KeyError
        If ours has none of a name.
    """
    ours = dict(model.named_parameters())
    for name, theirs in peer.named_parameters():
        theirs.data.copy_(torch_tensor(torch, ours[name].detach()))


def torch_tensor(torch: Any, tensor: Tensor) -> Any:
    """Return a tensor of PyTorch's on the host, also of bfloat16."""
    if tensor.dtype is not fw.bfloat16:
        return torch.from_numpy(tensor.numpy())
    return torch.from_numpy(tensor.view(fw.int16).numpy()).view(torch.bfloat16)
