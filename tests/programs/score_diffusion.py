"""Score-based diffusion: Fourier features, an SDE, EMA of weights, predictor-corrector sampling."""

import copy
import functools

import numpy as np
import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class GaussianFourierProjection(nn.Module):
    def __init__(self, embed_dim, scale=2.0):
        super().__init__()
        self.W = nn.Parameter(torch.randn(embed_dim // 2) * scale, requires_grad=False)

    def forward(self, x):
        x_proj = x[:, None] * self.W[None, :] * 2 * np.pi
        return torch.cat([torch.sin(x_proj), torch.cos(x_proj)], dim=-1)


class Dense(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.dense = nn.Linear(i, o)

    def forward(self, x):
        return self.dense(x)[..., None, None]


class ScoreNet(nn.Module):
    def __init__(self, marginal_prob_std):
        super().__init__()
        self.embed = nn.Sequential(GaussianFourierProjection(8), nn.Linear(8, 8))
        self.conv1, self.dense1, self.gnorm1 = (
            nn.Conv2d(1, 8, 3, stride=1, padding=1, bias=False),
            Dense(8, 8),
            nn.GroupNorm(4, num_channels=8),
        )
        self.conv2, self.dense2, self.gnorm2 = (
            nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False),
            Dense(8, 8),
            nn.GroupNorm(4, 8),
        )
        self.tconv2 = nn.ConvTranspose2d(
            8, 8, 3, stride=2, bias=False, padding=1, output_padding=1
        )
        self.tconv1 = nn.ConvTranspose2d(8 + 8, 1, 3, stride=1, padding=1)
        self.act = lambda x: x * torch.sigmoid(x)
        self.marginal_prob_std = marginal_prob_std

    def forward(self, x, t):
        embed = self.act(self.embed(t))
        h1 = self.conv1(x)
        h1 += self.dense1(embed)
        h1 = self.act(self.gnorm1(h1))
        h2 = self.conv2(h1)
        h2 += self.dense2(embed)
        h2 = self.act(self.gnorm2(h2))
        h = self.tconv2(h2)
        h = self.tconv1(torch.cat([h, h1], dim=1))
        return h / self.marginal_prob_std(t)[:, None, None, None]


def marginal_prob_std(t, sigma):
    t = torch.as_tensor(t, device=device)
    return torch.sqrt((sigma ** (2 * t) - 1.0) / 2.0 / np.log(sigma))


def diffusion_coeff(t, sigma):
    return torch.tensor(sigma**t, device=device)


def train(steps):
    std_fn = functools.partial(marginal_prob_std, sigma=5.0)
    model = seeded(ScoreNet(std_fn)).to(device)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    data = torch.tanh(torch.from_numpy(normal(6, 1, 6, 6))).to(device)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=2e-3
    )
    results = []
    for step in range(steps):
        u = torch.from_numpy(normal(6, seed=step)).sigmoid().to(device)
        random_t = u * (1.0 - 1e-3) + 1e-3
        z = torch.from_numpy(normal(6, 1, 6, 6, seed=step + 50)).to(device)
        std = std_fn(random_t)
        perturbed = data + z * std[:, None, None, None]
        score = model(perturbed, random_t)
        loss = torch.mean(
            torch.sum((score * std[:, None, None, None] + z) ** 2, dim=(1, 2, 3))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.1)
            for (n, b), (_, c) in zip(ema.named_buffers(), model.named_buffers()):
                b.copy_(c)
        results.append(loss.item())
    x = (
        torch.from_numpy(normal(2, 1, 6, 6, seed=400)).to(device)
        * std_fn(torch.ones(2, device=device))[:, None, None, None]
    )
    time_steps = np.linspace(1.0, 1e-3, 4)
    with torch.no_grad():
        for i, t in enumerate(time_steps):
            batch_t = torch.ones(2, device=device) * t
            grad = ema(x, batch_t)
            grad_norm = torch.norm(grad.reshape(grad.shape[0], -1), dim=-1).mean()
            langevin = 2 * (0.16 * np.sqrt(np.prod(x.shape[1:])) / grad_norm) ** 2
            x = x + langevin * grad * 0.01
            g = diffusion_coeff(float(t), 5.0)
            mean_x = x + (g**2)[None, None, None] * ema(x, batch_t) * 0.1
            x = mean_x + torch.sqrt(g**2 * 0.1) * torch.from_numpy(
                normal(2, 1, 6, 6, seed=i)
            ).to(device)
    results += x.clamp(-3.0, 3.0).sum((1, 2, 3)).tolist()
    return results
