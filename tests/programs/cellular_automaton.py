"""Neural cellular automata: perception by fixed filters, a pool of states, damage."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import seeded

device = torch.device("cpu")


class CellularAutomaton(nn.Module):
    def __init__(self, channels=8, hidden=16, fire_rate=0.5):
        super().__init__()
        self.channels, self.fire_rate = channels, fire_rate
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        identity = torch.zeros(3, 3)
        identity[1, 1] = 1
        filters = torch.stack([identity, sobel, sobel.T]).repeat(channels, 1, 1)
        self.register_buffer("filters", filters.unsqueeze(1))
        self.update = nn.Sequential(
            nn.Conv2d(3 * channels, hidden, 1), nn.ReLU(),
            nn.Conv2d(hidden, channels, 1, bias=False),
        )  # fmt: skip
        nn.init.zeros_(self.update[-1].weight)

    def perceive(self, x):
        x = F.pad(x, [1] * 4, mode="circular")
        return F.conv2d(x, self.filters, groups=self.channels)

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], kernel_size=3, stride=1, padding=1) > 0.1

    def forward(self, x, masks):
        for mask in masks:
            before = self.alive(x)
            dx = self.update(self.perceive(x))
            x = x + dx * (mask < self.fire_rate)
            x = x * (before & self.alive(x)).to(x)
        return x


class Pool:
    def __init__(self, seed, size):
        self.states = seed.repeat(size, 1, 1, 1)

    def sample(self, places):
        return self.states[places]

    def commit(self, places, states):
        self.states[places] = states.detach()


def circle_mask(size, center, radius):
    axis = torch.arange(size, dtype=torch.float32)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    return ((xx - center[0]).square() + (yy - center[1]) ** 2).sqrt() >= radius


def train(steps):
    rng = np.random.default_rng(5)
    size = 10
    axis = torch.linspace(-1, 1, size)
    radius = torch.hypot(axis[:, None], axis[None, :])
    target = torch.stack(
        [radius, 1 - radius, axis.expand(size, size).abs(), (radius < 0.8).float()]
    ).clip(0, 1)
    target = target.to(device)[None]
    seed = torch.zeros(1, 8, size, size)
    seed[:, 3:, size // 2, size // 2] = 1.0
    model = seeded(CellularAutomaton())
    with torch.no_grad():
        model.update[-1].weight.mul_(0.1)
    model.to(device)
    pool = Pool(seed.to(device), 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps // 2], gamma=0.3)
    losses = []
    for step in range(steps):
        places = torch.from_numpy(rng.choice(12, 4, replace=False)).to(device)
        x = pool.sample(places)
        with torch.no_grad():
            error = (x[:, :4] - target).pow(2).mean(dim=(1, 2, 3))
            worst = error.argsort(descending=True)
            x = x[worst]
            places = places[worst]
            x[0] = seed[0].to(device)
            if step > 4:
                x[-1:] *= circle_mask(size, rng.uniform(2, 8, 2), 2.0).to(device)
        count = int(rng.integers(4, 7))
        masks = torch.tensor(rng.random((count, 4, 1, size, size)), dtype=torch.float32)
        x = model(x, masks.to(device))
        loss = F.mse_loss(x[:, :4], target.expand(4, -1, -1, -1))
        overflow = (x - x.clamp(-2.0, 2.0)).abs().sum() / x.numel()
        loss = loss + overflow
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.grad /= p.grad.norm() + 1e-8
        optimizer.step()
        schedule.step()
        pool.commit(places, x)
        losses.append(loss.item())
    return losses + [pool.states.std().item(), schedule.get_last_lr()[0]]
