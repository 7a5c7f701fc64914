"""A Perceiver: latents that attend to Fourier-coded pixels, weights shared by depth, masked inputs, queries for outputs."""

from functools import wraps
from math import pi

import torch
import torch.nn.functional as F
from torch import einsum, nn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def cache_fn(f):
    cache = {}

    @wraps(f)
    def cached_fn(*args, _cache=True, key=None, **kwargs):
        if not _cache:
            return f(*args, **kwargs)
        if key not in cache:
            cache[key] = f(*args, **kwargs)
        return cache[key]

    return cached_fn


def fourier_encode(x, max_freq, num_bands=4):
    x = x.unsqueeze(-1)
    orig_x = x
    scales = torch.linspace(
        1.0, max_freq / 2, num_bands, device=x.device, dtype=x.dtype
    )
    scales = scales[(*((None,) * (len(x.shape) - 1)), Ellipsis)]
    x = x * scales * pi
    x = torch.cat([x.sin(), x.cos()], dim=-1)
    return torch.cat((x, orig_x), dim=-1)


class PreNorm(nn.Module):
    def __init__(self, dim, fn, context_dim=None):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)
        self.norm_context = (
            nn.LayerNorm(context_dim) if context_dim is not None else None
        )

    def forward(self, x, **kwargs):
        x = self.norm(x)
        if self.norm_context is not None:
            kwargs.update(context=self.norm_context(kwargs["context"]))
        return self.fn(x, **kwargs)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim=-1)
        return x * F.gelu(gates)


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=2, dim_head=4):
        super().__init__()
        context_dim = query_dim if context_dim is None else context_dim
        self.scale, self.heads = dim_head**-0.5, heads
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(context_dim, heads * dim_head * 2, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)

    def _split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).movedim(2, 1).flatten(0, 1)

    def forward(self, x, context=None, mask=None):
        q = self.to_q(x)
        k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        q, k, v = map(self._split, (q, k, v))
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        if mask is not None:
            mask = mask.flatten(1).repeat_interleave(self.heads, dim=0).unsqueeze(1)
            sim.masked_fill_(~mask, -torch.finfo(sim.dtype).max)
        out = einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
        out = out.unflatten(0, (-1, self.heads)).movedim(1, 2).flatten(2)
        return self.to_out(out)


class Perceiver(nn.Module):
    def __init__(self, depth=3, latents=5, dim=12, channels=3, axes=2, bands=3):
        super().__init__()
        input_dim = axes * (bands * 2 + 1) + channels
        self.bands, self.axes = bands, axes
        self.latents = nn.Parameter(torch.randn(latents, dim))
        cross = cache_fn(
            lambda: PreNorm(dim, Attention(dim, input_dim, 1, 8), input_dim)
        )
        own = cache_fn(lambda: PreNorm(dim, Attention(dim)))
        feed = cache_fn(
            lambda: PreNorm(
                dim,
                nn.Sequential(
                    nn.Linear(dim, 4 * dim), GEGLU(), nn.Linear(2 * dim, dim)
                ),
            )
        )
        self.layers = nn.ModuleList([])
        for i in range(depth):
            kind = {"_cache": i > 0, "key": 0}
            self.layers.append(
                nn.ModuleList([cross(**kind), own(**kind), feed(**kind)])
            )
        self.decoder = PreNorm(dim, Attention(dim, dim), dim)
        self.queries = nn.Parameter(torch.randn(4, dim))
        self.to_logits = nn.Linear(dim, 3)

    def forward(self, data, mask=None):
        b, *axis, _ = data.shape
        positions = [
            torch.linspace(-1.0, 1.0, steps=size, device=data.device) for size in axis
        ]
        pos = torch.stack(torch.meshgrid(*positions, indexing="ij"), dim=-1)
        pos = fourier_encode(pos, 10.0, self.bands).flatten(-2)
        pos = pos.unsqueeze(0).expand(b, *pos.shape)
        data = torch.cat((data, pos), dim=-1).flatten(1, -2)
        x = self.latents.unsqueeze(0).repeat(b, 1, 1)
        for cross_attn, self_attn, ff in self.layers:
            x = cross_attn(x, context=data, mask=mask) + x
            x = self_attn(x) + x
            x = ff(x) + x
        out = self.decoder(self.queries.expand(b, -1, -1), context=x)
        return self.to_logits(out)


def train(steps):
    model = seeded(Perceiver()).to(device)
    results = [
        float(sum(p.numel() for p in model.parameters())),
        float(len(model.state_dict())),
    ]
    optimizer = torch.optim.AdamW(
        model.parameters(), 2e-3, betas=(0.9, 0.99), weight_decay=0.05
    )
    images = torch.from_numpy(normal(6, 4, 5, 3)).to(device)
    labels = torch.from_numpy(integers(3, 6, 4)).to(device)
    mask = torch.ones(6, 4, 5, dtype=torch.bool, device=device)
    mask[::2, -1] = False
    for _ in range(steps):
        logits = model(images, mask=mask)
        loss = F.cross_entropy(logits.mT, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    changed = images.clone()
    changed[::2, -1] = 100.0
    model.eval()
    with torch.inference_mode():
        results.append(
            float(torch.allclose(model(changed, mask), model(images, mask), atol=1e-5))
        )
    return results
