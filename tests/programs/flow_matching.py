"""A diffusion transformer by flow matching: adaLN-zero, dropped labels, guidance, a Heun sampler, averaged weights."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.RMSNorm(dim // heads), nn.RMSNorm(dim // heads)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU("tanh"), nn.Linear(4 * dim, dim)
        )
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))

    def attend(self, x):
        b, n, c = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, self.heads, c // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        x = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.proj(x.transpose(1, 2).reshape(b, n, c))

    def forward(self, x, c):
        s1, c1, g1, s2, c2, g2 = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + g1.unsqueeze(1) * self.attend(modulate(self.norm1(x), s1, c1))
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, c2))


class DiT(nn.Module):
    def __init__(self, size=6, patch=2, dim=16, classes=3):
        super().__init__()
        self.patch, self.side, self.classes = patch, size // patch, classes
        self.x_embedder = nn.Conv2d(1, dim, patch, stride=patch)
        self.pos_embed = nn.Parameter(
            torch.zeros(1, self.side**2, dim), requires_grad=False
        )
        self.y_embedder = nn.Embedding(classes + 1, dim)
        self.t_embedder = nn.Sequential(
            nn.Linear(8, dim), nn.SiLU(), nn.Linear(dim, dim)
        )
        self.blocks = nn.ModuleList([DiTBlock(dim, 2) for _ in range(2)])
        self.final = nn.Linear(dim, patch * patch)

    def initialize(self):
        for block in self.blocks:
            nn.init.constant_(block.adaLN_modulation[-1].weight, 0)
            nn.init.zeros_(block.adaLN_modulation[-1].bias)
        return self

    def forward(self, x, t, y, drop=None):
        if drop is not None:
            y = torch.where(drop, self.classes, y)
        freqs = torch.exp(-torch.arange(4, device=t.device) * 2.0)
        args = t[:, None].float() * freqs[None] * 1000
        c = self.t_embedder(
            torch.cat([torch.cos(args), torch.sin(args)], -1)
        ) + self.y_embedder(y)
        x = self.x_embedder(x).flatten(2).transpose(1, 2) + self.pos_embed
        for block in self.blocks:
            x = block(x, c)
        x = self.final(x).reshape(len(x), self.side, self.side, self.patch, self.patch)
        return torch.einsum("nhwpq->nhpwq", x).reshape(
            len(x), 1, self.side * self.patch, -1
        )


def train(steps):
    model = seeded(DiT()).initialize().to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=4e-3, weight_decay=0.0
    )
    scheduler = SequentialLR(
        optimizer,
        [
            LinearLR(optimizer, 0.1, total_iters=5),
            CosineAnnealingLR(optimizer, steps - 5),
        ],
        milestones=[5],
    )
    data = torch.from_numpy(normal(8, 1, 6, 6)).to(device)
    labels = torch.from_numpy(integers(3, 8)).to(device)
    results = []
    for step in range(steps):
        noise = torch.from_numpy(normal(8, 1, 6, 6, seed=10 + step)).to(device)
        t = torch.sigmoid(torch.from_numpy(normal(8, seed=40 + step)).to(device))
        drop = torch.from_numpy(integers(10, 8, seed=step)).to(device) < 2
        mixed = torch.lerp(noise, data, t.view(-1, 1, 1, 1))
        loss = F.mse_loss(model(mixed, t, labels, drop), data - noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        ema.update_parameters(model)
        results += [loss.item(), scheduler.get_last_lr()[0]]
    sampler = copy.deepcopy(ema.module).eval().requires_grad_(False)

    def velocity(x, t):
        t = torch.full((len(x),), t, device=x.device)
        both = sampler(
            x.repeat(2, 1, 1, 1),
            t.tile(2),
            torch.cat([labels[:2], torch.full_like(labels[:2], 3)]),
        )
        given, free = both.tensor_split(2)
        return free + 2.0 * (given - free)

    x = torch.from_numpy(normal(2, 1, 6, 6, seed=99)).to(device)
    for k in range(4):
        slope = velocity(x, k / 4)
        x = x + (slope + velocity(x + slope / 4, (k + 1) / 4)) / 8
    return [
        *results,
        x.mean().item(),
        x.std(correction=0).item(),
        float(ema.n_averaged),
    ]
