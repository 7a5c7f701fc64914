"""T5-like: relative position bias, RMS norm, gated GELU, shared embedding, greedy generation with a cache."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class T5LayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states


class Attention(nn.Module):
    def __init__(self, d, heads, relative=False, bidirectional=True):
        super().__init__()
        self.heads, self.bidirectional = heads, bidirectional
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.relative = nn.Embedding(8, heads) if relative else None

    @staticmethod
    def bucket(relative_position, bidirectional=True, num_buckets=8, max_distance=16):
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

    def compute_bias(self, qlen, klen):
        context = torch.arange(
            qlen, dtype=torch.long, device=self.relative.weight.device
        )[:, None]
        memory = torch.arange(
            klen, dtype=torch.long, device=self.relative.weight.device
        )[None, :]
        values = self.relative(self.bucket(memory - context, self.bidirectional))
        return values.permute([2, 0, 1]).unsqueeze(0)

    def forward(self, x, kv=None, bias=None, mask=None):
        b, n, d = x.shape
        src = x if kv is None else kv

        def split(t):
            return t.view(b, -1, self.heads, d // self.heads).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(src)), split(self.v(src))
        scores = torch.einsum("bnqd,bnkd->bnqk", q, k)
        if bias is None and self.relative is not None:
            bias = self.compute_bias(n, src.size(1))
        if bias is not None:
            if mask is not None:
                scores = scores + bias + mask
            else:
                scores += bias
        w = F.softmax(scores.float(), dim=-1).type_as(scores)
        out = (w @ v).transpose(1, 2).contiguous().view(b, -1, d)
        return self.o(out), bias


class FF(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.wi_0, self.wi_1, self.wo = (
            nn.Linear(d, ff, bias=False),
            nn.Linear(d, ff, bias=False),
            nn.Linear(ff, d, bias=False),
        )

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class Block(nn.Module):
    def __init__(self, d, heads, decoder, relative):
        super().__init__()
        self.sa = Attention(d, heads, relative, not decoder)
        self.n1, self.n2 = T5LayerNorm(d), T5LayerNorm(d)
        self.ca = Attention(d, heads) if decoder else None
        self.n3 = T5LayerNorm(d) if decoder else None
        self.ff = FF(d, 2 * d)

    def forward(self, x, bias, mask, enc=None):
        y, bias = self.sa(self.n1(x), bias=bias, mask=mask)
        x = x + y
        if self.ca is not None:
            x = x + self.ca(self.n3(x), kv=enc)[0]
        x = x + self.ff(self.n2(x))
        if torch.isinf(x).any():
            clamp = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-clamp, max=clamp)
        return x, bias


class Stack(nn.Module):
    def __init__(self, emb, d, heads, layers, decoder):
        super().__init__()
        self.emb = emb
        self.decoder = decoder
        self.block = nn.ModuleList(
            [Block(d, heads, decoder, i == 0) for i in range(layers)]
        )
        self.norm = T5LayerNorm(d)

    def forward(self, ids, enc=None):
        x, bias, mask = self.emb(ids), None, None
        n = ids.shape[1]
        if self.decoder:
            mask = torch.full((n, n), float("-inf"), device=ids.device).triu_(1)[
                None, None
            ]
        for blk in self.block:
            x, bias = blk(x, bias, mask, enc)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, vocab=30, d=16, heads=4, layers=2):
        super().__init__()
        self.d = d
        self.shared = nn.Embedding(vocab, d)
        self.encoder = Stack(self.shared, d, heads, layers, False)
        self.decoder = Stack(self.shared, d, heads, layers, True)
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def _shift_right(self, labels):
        shifted = labels.new_zeros(labels.shape)
        shifted[..., 1:] = labels[..., :-1].clone()
        shifted[..., 0] = 0
        shifted.masked_fill_(shifted == -100, 0)
        return shifted

    def forward(self, ids, labels):
        enc = self.encoder(ids)
        out = self.decoder(self._shift_right(labels), enc) * (self.d**-0.5)
        logits = self.lm_head(out)
        return F.cross_entropy(
            logits.view(-1, logits.size(-1)),
            labels.view(-1),
            ignore_index=-100,
            label_smoothing=0.1,
        )

    @torch.inference_mode()
    def generate(self, ids, n=6):
        enc = self.encoder(ids)
        out = torch.zeros((ids.shape[0], 1), dtype=torch.long, device=ids.device)
        finished = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
        for _ in range(n):
            logits = self.lm_head(self.decoder(out, enc)[:, -1] * self.d**-0.5)
            nxt = logits.argmax(-1)
            nxt = torch.where(finished, torch.zeros_like(nxt), nxt)
            finished |= nxt.eq(1)
            out = torch.cat([out, nxt[:, None]], dim=-1)
            if finished.all():
                break
        return out


def train(steps):
    model = seeded(T5()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=steps + 1)
    losses = []
    for i in range(steps):
        src = torch.from_numpy(integers(28, 4, 9, seed=i)).to(device) + 2
        tgt = src.flip(1)[:, :6].clone()
        tgt[0, 4:] = -100
        loss = model(src, tgt)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), model.parameters()):
                a.lerp_(b, 0.1)
        losses.append(loss.item())
    print(ema.generate(src).tolist())
    return losses + [ema(src, tgt).item()]
