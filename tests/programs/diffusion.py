"""A small diffusion model with an exponential moving average of its weights."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")
T = 50


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb_dim):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding="same")
        self.emb = nn.Sequential(nn.SiLU(), nn.Linear(emb_dim, ch * 2))
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(t)[..., None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return x + self.conv2(F.silu(h))


class UNet(nn.Module):
    def __init__(self, ch=8, emb_dim=16):
        super().__init__()
        self.time = nn.Sequential(
            SinusoidalPosEmb(emb_dim), nn.Linear(emb_dim, emb_dim), nn.SiLU()
        )
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.down = ResBlock(ch, emb_dim)
        self.pool = nn.AvgPool2d(2)
        self.mid = ResBlock(ch, emb_dim)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = nn.Conv2d(2 * ch, ch, 1)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        t = self.time(t)
        h1 = self.down(self.inp(x), t)
        h = self.up(self.mid(self.pool(h1), t))
        return self.out(self.merge(torch.cat([h, h1], dim=1)))


@torch.no_grad()
def update_ema(target_params, source_params, rate=0.9):
    for targ, src in zip(target_params, source_params):
        targ.detach().mul_(rate).add_(src, alpha=1 - rate)


def train(steps):
    betas = torch.linspace(1e-4, 0.02, T, dtype=torch.float32).to(device)
    alphas = 1.0 - betas
    alphas_cumprod = torch.cumprod(alphas, axis=0)
    alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    images = torch.from_numpy(normal(4, 1, 8, 8)).clamp_(-1, 1)
    noises = torch.from_numpy(normal(steps, 4, 1, 8, 8, seed=8))
    times = torch.from_numpy(integers(T, steps, 4))
    model = seeded(UNet()).to(device)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-8)
    losses = []
    for step in range(steps):
        x0 = images.to(device)
        t = times[step].to(device).long()
        noise = noises[step].to(device)
        a = alphas_cumprod.gather(-1, t).reshape(-1, 1, 1, 1)
        x_noisy = a.sqrt() * x0 + (1.0 - a).sqrt() * noise
        loss = F.smooth_l1_loss(model(x_noisy, t.float()), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema(ema.parameters(), model.parameters())
        losses.append(loss.item())
    x = torch.from_numpy(normal(1, 1, 8, 8, seed=9)).to(device)
    with torch.no_grad():
        for i in reversed(range(T - 3, T)):
            t = torch.full((1,), i, device=device, dtype=torch.long)
            eps = ema(x, t.float())
            mean = (x - betas[i] / (1 - alphas_cumprod[i]).sqrt() * eps) / alphas[
                i
            ].sqrt()
            variance = betas[i] * (1 - alphas_cumprod_prev[i]) / (1 - alphas_cumprod[i])
            x = mean + variance.clamp(min=1e-20).sqrt() * torch.ones_like(x)
    return [*losses, x.mean().item(), x.std().item()]
