"""RealNVP: masked couplings, an ActNorm that initializes itself, inverse and sampling."""

import numpy as np
import torch
from torch import distributions, nn
from torch.distributions import MultivariateNormal

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.s = nn.Parameter(torch.zeros(dim))
        self.t = nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.initialized.item() == 0:
            with torch.no_grad():
                self.s.data.copy_(-torch.log(x.std(0) + 1e-6))
                self.t.data.copy_(-(x * torch.exp(self.s)).mean(0))
                self.initialized.fill_(1)
        return x * self.s.exp() + self.t, self.s.sum()


class RealNVP(nn.Module):
    def __init__(self, nets, nett, masks, prior):
        super().__init__()
        self.prior = prior
        self.mask = nn.Parameter(masks, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(masks))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(masks))])
        self.norm = ActNorm(2)

    def g(self, z):
        x = (z - self.norm.t) * (-self.norm.s).exp()
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        z, extra = self.norm(z)
        return z, log_det_J + extra

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


def train(steps):
    def nets():
        return nn.Sequential(
            nn.Linear(2, 12), nn.LeakyReLU(), nn.Linear(12, 2), nn.Tanh()
        )

    def nett():
        return nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(), nn.Linear(12, 2))

    masks = torch.from_numpy(np.array([[0, 1], [1, 0]] * 2).astype(np.float32))
    prior = distributions.MultivariateNormal(
        torch.tensor([0.5, -0.3]).to(device), torch.eye(2).to(device)
    )
    flow = RealNVP(nets, nett, masks, prior)
    kept = flow.mask.data.clone()
    seeded(flow, 1)
    flow.mask.data.copy_(kept)
    flow.to(device)
    angle = normal(64)
    data = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.1 * normal(64, 2, seed=2)
    optimizer = torch.optim.Adam(
        [p for p in flow.parameters() if p.requires_grad], lr=1e-2
    )
    results = []
    for _ in range(steps):
        loss = -flow.log_prob(torch.from_numpy(data).to(device)).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        results.append(loss.item())
    with torch.no_grad():
        x = torch.from_numpy(data[:4]).to(device)
        back = flow.g(flow.f(x)[0])
        assert (back - x).abs().max() < 1e-4
        z = prior.sample((5, 1))
        assert z.shape == torch.Size([5, 1, 2])
        assert isinstance(prior, MultivariateNormal)
    return results
