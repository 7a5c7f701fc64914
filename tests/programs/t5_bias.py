"""T5 attention with relative position buckets, and ALiBi slopes, in one decoder."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


def relative_position_bucket(
    relative_position, bidirectional=True, num_buckets=8, max_distance=16
):
    relative_buckets = 0
    if bidirectional:
        num_buckets //= 2
        relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
        relative_position = torch.abs(relative_position)
    else:
        relative_position = -torch.min(
            relative_position, torch.zeros_like(relative_position)
        )
    max_exact = num_buckets // 2
    is_small = relative_position < max_exact
    large = max_exact + (
        torch.log(relative_position.float() / max_exact)
        / math.log(max_distance / max_exact)
        * (num_buckets - max_exact)
    ).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    relative_buckets += torch.where(is_small, relative_position, large)
    return relative_buckets


class T5Attention(nn.Module):
    def __init__(self, d, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.kv, self.o = (
            nn.Linear(d, d, False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, d, bias=False),
        )
        self.relative_attention_bias = nn.Embedding(8, heads)

    def compute_bias(self, n):
        context_position = torch.arange(
            n, dtype=torch.long, device=self.o.weight.device
        )[:, None]
        memory_position = torch.arange(
            n, dtype=torch.long, device=self.o.weight.device
        )[None, :]
        bucket = relative_position_bucket(
            memory_position - context_position, bidirectional=not self.causal
        )
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)

    def forward(self, x):
        B, n, d = x.shape
        q = self.q(x).view(B, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(B, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(3, 2))
        bias = self.compute_bias(n)
        if self.causal:
            mask = torch.ones(n, n, device=x.device).tril() == 0
            bias = bias.masked_fill(mask, torch.finfo(x.dtype).min)
            slopes = torch.tensor(
                [2 ** (-8 * (i + 1) / self.heads) for i in range(self.heads)]
            ).to(x)
            bias = bias + slopes.view(1, -1, 1, 1) * -(
                torch.arange(n)[:, None] - torch.arange(n)
            ).clamp(min=0).to(x)
        scores += bias
        attn = F.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o((attn @ v).transpose(1, 2).contiguous().flatten(2))


def train(steps):
    layers = [seeded(T5Attention(8, 2, c), c).to(device) for c in (False, True)]
    embed = seeded(nn.Embedding(9, 8), 5).to(device)
    params = [p for m in [*layers, embed] for p in m.parameters()]
    optimizer = (
        torch.optim.Adafactor(params, lr=1e-2)
        if hasattr(torch.optim, "Adafactor")
        else None
    )
    ids = torch.from_numpy(integers(9, 3, 12)).to(device)
    results = []
    for _ in range(steps):
        x = embed(ids)
        for layer in layers:
            x = x + layer(F.layer_norm(x, x.shape[-1:]))
        logits = F.linear(x, embed.weight) * (8**-0.5)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return results
