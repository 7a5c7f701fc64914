"""A mixture density network: distributions over a one-to-many function."""

import torch
import torch.nn as nn
from torch import distributions as D

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MDN(nn.Module):
    def __init__(self, n_hidden=20, n_gaussians=4):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.logits = nn.Linear(n_hidden, n_gaussians)
        self.mu = nn.Linear(n_hidden, n_gaussians)
        self.log_sigma = nn.Linear(n_hidden, n_gaussians)

    def forward(self, x):
        h = self.hidden(x)
        mixture = D.Categorical(logits=self.logits(h))
        components = D.Normal(self.mu(h), self.log_sigma(h).exp())
        return D.MixtureSameFamily(mixture, components)


def train(steps):
    y = torch.from_numpy(normal(40, 1, seed=1))
    x = 7.0 * torch.sin(0.75 * y) + 0.5 * y + 0.2 * torch.from_numpy(normal(40, 1))
    x, y = x.to(device), y.squeeze(1).to(device)
    model = seeded(MDN()).to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        distribution = model(x)
        prior = D.Normal(torch.zeros_like(y), torch.ones_like(y))
        posterior = D.Normal(distribution.mean, distribution.variance.sqrt())
        loss = -distribution.log_prob(y).mean()
        loss = loss + 1e-3 * D.kl_divergence(posterior, prior).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.manual_seed(0)
    samples = model(x).sample((3,))
    assert samples.shape == (3, 40)
    assert torch.isfinite(samples).all()
    return losses
