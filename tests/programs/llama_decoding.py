"""A Llama-like model: rotary positions, grouped queries, a cache; trained, then decoding."""

from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


@dataclass
class ModelArgs:
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: Optional[int] = 2
    vocab_size: int = 40
    norm_eps: float = 1e-5
    max_seq_len: int = 16


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs).float()
    return torch.cos(freqs), torch.sin(freqs)


def rotate(x, cos, sin):
    a, b = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(3).type_as(x)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    bs, slen, n_kv_heads, head_dim = x.shape
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads
        self.n_rep = self.n_heads // self.n_kv
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.cache_k = self.cache_v = None

    def forward(self, x, start_pos, cos, sin, mask):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv, self.head_dim)
        xq, xk = rotate(xq, cos, sin), rotate(xk, cos, sin)
        if self.cache_k is not None:
            self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
            self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
            xk = self.cache_k[:bsz, : start_pos + seqlen]
            xv = self.cache_v[:bsz, : start_pos + seqlen]
        keys = repeat_kv(xk, self.n_rep).transpose(1, 2)
        values = repeat_kv(xv, self.n_rep).transpose(1, 2)
        out = F.scaled_dot_product_attention(
            xq.transpose(1, 2), keys, values, attn_mask=mask
        )
        return self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class Layer(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.attention = Attention(args)
        hidden = 2 * args.dim
        self.w1 = nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, hidden, bias=False)
        self.attention_norm = RMSNorm(args.dim, eps=args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, eps=args.norm_eps)

    def forward(self, x, start_pos, cos, sin, mask):
        h = x + self.attention(self.attention_norm(x), start_pos, cos, sin, mask)
        f = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(f)) * self.w3(f))


class Transformer(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = torch.nn.ModuleList()
        for _ in range(args.n_layers):
            self.layers.append(Layer(args))
        self.norm = RMSNorm(args.dim, eps=args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        cos, sin = precompute_freqs(args.dim // args.n_heads, args.max_seq_len)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def setup_cache(self, batch):
        args = self.args
        shape = (batch, args.max_seq_len, args.n_kv_heads, args.dim // args.n_heads)
        for layer in self.layers:
            layer.attention.cache_k = torch.zeros(shape, device=self.cos.device)
            layer.attention.cache_v = torch.zeros(shape, device=self.cos.device)

    def forward(self, tokens: torch.Tensor, start_pos: int = 0):
        _, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        cos = self.cos[start_pos : start_pos + seqlen]
        sin = self.sin[start_pos : start_pos + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
        for layer in self.layers:
            h = layer(h, start_pos, cos, sin, mask)
        return self.output(self.norm(h)).float()


@torch.inference_mode()
def generate(model, prompt, count):
    model.setup_cache(prompt.size(0))
    tokens, logits = prompt, model(prompt, 0)
    for position in range(prompt.size(1), prompt.size(1) + count):
        following = torch.argmax(logits[:, -1], dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
        logits = model(following[:, None], position)
    return tokens


def train(steps):
    model = seeded(Transformer(ModelArgs())).to(device)
    tokens = torch.from_numpy(integers(40, 2, 13)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=False)
    losses = []
    for _ in range(steps):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    decoded = generate(model, tokens[:, :4], 6)
    return [*losses, *decoded.flatten().float().tolist()]
