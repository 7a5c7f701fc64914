"""An energy-based model: Langevin samples with a replay buffer, spectral norms."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

from tests.programs.seeding import seeded

device = torch.device("cpu")


class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Energy(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(
            nn.Conv2d(1, width, kernel_size=5, stride=2, padding=4), Swish(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), Swish(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(2 * width, width), Swish(), nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, x):
        return super().forward(x).squeeze(dim=-1)


class Sampler:
    def __init__(self, model, shape, size, rng, length=16):
        self.model, self.shape, self.size, self.rng = model, shape, size, rng
        self.length = length
        self.examples = list(self._noise(size).chunk(size, dim=0))

    def _noise(self, count):
        return torch.from_numpy(
            self.rng.uniform(-1, 1, (count, *self.shape)).astype("float32")
        )

    def sample(self, steps, rate):
        fresh = int(self.rng.binomial(self.size, 0.2))
        new = self._noise(fresh)
        old = torch.cat(random.choices(self.examples, k=self.size - fresh), dim=0)
        start = torch.cat([new, old], dim=0).detach().to(device)
        found = self.langevin(start, steps, rate)
        self.examples = list(found.to("cpu").chunk(self.size, dim=0)) + self.examples
        self.examples = self.examples[: self.length]
        return found

    def langevin(self, x, steps, rate):
        training = self.model.training
        self.model.eval()
        for p in self.model.parameters():
            p.requires_grad = False
        x.requires_grad = True
        had_gradients = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        for _ in range(steps):
            noise = torch.from_numpy(
                self.rng.normal(0, 0.005, tuple(x.shape)).astype(np.float32)
            )
            x.data.add_(noise.to(x.device))
            x.data.clamp_(min=-1.0, max=1.0)
            energy = -self.model(x)
            energy.sum().backward()
            x.grad.data.clamp_(-0.03, 0.03)
            x.data.add_(-rate * x.grad.data)
            x.grad.detach_()
            x.grad.zero_()
            x.data.clamp_(min=-1.0, max=1.0)
        for p in self.model.parameters():
            p.requires_grad = True
        self.model.train(training)
        torch.set_grad_enabled(had_gradients)
        return x.detach()


def train(steps):
    random.seed(3)
    rng = np.random.default_rng(4)
    grid = np.linspace(-1, 1, 8)
    images = np.sin(4 * grid[None, :, None] * rng.uniform(0.5, 1, (6, 1, 1)) + grid)
    images = torch.from_numpy(images[:, None].astype(np.float32)).to(device)
    model = seeded(Energy()).to(device)
    last = model[-1]
    with torch.random.fork_rng():
        spectral_norm(last, n_power_iterations=1)
    with torch.no_grad():
        ones = torch.ones_like(last.parametrizations.weight[0]._v)
        last.parametrizations.weight[0]._u.fill_(1.0)
        last.parametrizations.weight[0]._v.copy_(F.normalize(ones, dim=0))
    sampler = Sampler(model, (1, 8, 8), 6, rng)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.0, 0.999))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.97)
    losses = []
    for _ in range(steps):
        noise = torch.from_numpy(rng.normal(0, 0.005, (6, 1, 8, 8))).float().to(device)
        real = images.add(noise).clamp_(min=-1.0, max=1.0)
        fake = sampler.sample(steps=4, rate=10)
        real_out, fake_out = model(torch.cat([real, fake], dim=0)).chunk(2, dim=0)
        reg = 0.1 * (real_out**2 + fake_out**2).mean()
        cdiv = fake_out.mean() - real_out.mean()
        loss = reg + cdiv
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        schedule.step()
        losses += [loss.item()]
    return losses + [torch.stack(sampler.examples).std().item()]
