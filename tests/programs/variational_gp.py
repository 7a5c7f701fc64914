"""A sparse variational Gaussian process: whitened inducing points, Matern kernels, triangular solves, natural gradients, Student noise."""

import math

import torch
from torch import nn
from torch.distributions import (
    MultivariateNormal,
    StudentT,
    kl_divergence,
    transform_to,
)
from torch.distributions.constraints import lower_cholesky, positive

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Matern(nn.Module):
    def __init__(self, dims, nu=1.5):
        super().__init__()
        self.nu = nu
        self.raw_lengths = nn.Parameter(torch.zeros(dims))
        self.raw_variance = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        lengths = nn.functional.softplus(self.raw_lengths)
        r = (
            ((a / lengths).unsqueeze(-2) - (b / lengths).unsqueeze(-3))
            .pow(2)
            .sum(-1)
            .clamp_min(1e-12)
            .sqrt()
        )
        r = math.sqrt(2 * self.nu) * r
        shape = 1 + r if self.nu == 1.5 else 1 + r + r.square() / 3
        return nn.functional.softplus(self.raw_variance) * shape * (-r).exp()


class SVGP(nn.Module):
    def __init__(self, points):
        super().__init__()
        self.kernel = Matern(points.shape[1])
        self.other = Matern(points.shape[1], 2.5)
        self.inducing = nn.Parameter(points.clone())
        n = len(points)
        self.mean = nn.Parameter(torch.zeros(n))
        self.raw_root = nn.Parameter(torch.zeros(n, n))
        self.register_buffer("jitter", 1e-4 * torch.eye(n))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def posterior(self):
        return MultivariateNormal(
            self.mean, scale_tril=transform_to(lower_cholesky)(self.raw_root)
        )

    def forward(self, x):
        k = lambda a, b: self.kernel(a, b) + self.other(a, b)
        L, info = torch.linalg.cholesky_ex(
            k(self.inducing, self.inducing) + self.jitter
        )
        assert not info.any()
        A = torch.linalg.solve_triangular(L, k(self.inducing, x), upper=False)
        q = self.posterior()
        mean = A.mT @ q.mean
        own = torch.stack([k(row[None], row[None]).squeeze() for row in x])
        variance = own - A.square().sum(0) + (q.scale_tril.mT @ A).square().sum(0)
        return mean, variance.clamp(min=1e-6), q


def train(steps):
    x = torch.from_numpy(normal(14, 2)).to(device)
    y = torch.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * torch.from_numpy(
        normal(14, seed=4)
    ).to(device)
    model = SVGP(torch.from_numpy(normal(5, 2, seed=7)))
    seeded(model.kernel), seeded(model.other, 1)
    model.to(device)
    nodes, weights = (
        torch.as_tensor(v, dtype=torch.float32, device=device)
        for v in zip(
            *[
                (-2.0201829, 0.0199532),
                (-0.9585725, 0.3936193),
                (0.0, 0.9453087),
                (0.9585725, 0.3936193),
                (2.0201829, 0.0199532),
            ]
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    results = []
    for _ in range(steps):
        mean, variance, q = model(x)
        noise = transform_to(positive)(model.log_noise)
        f = mean + (2 * variance).sqrt() * nodes[:, None]
        likelihood = StudentT(torch.tensor(4.0, device=device), f, noise).log_prob(y)
        expected = (likelihood * weights[:, None]).sum(0) / math.sqrt(math.pi)
        prior = MultivariateNormal(
            torch.zeros_like(model.mean), torch.eye(5, device=device)
        )
        kl = kl_divergence(q, prior)
        loss = kl - expected.sum()
        optimizer.zero_grad()
        loss.backward()
        model.raw_root.grad.tril_()
        optimizer.step()
        results += [loss.item() / 14, kl.item()]
    with torch.no_grad():
        test = torch.cartesian_prod(
            torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 2)
        ).to(device)
        mean, variance, q = model(test)
        results += [mean.sum().item(), variance.log().sum().item(), q.entropy().item()]
        results.append(q.log_prob(q.mean + 0.1).item())
        S = torch.cholesky_inverse(q.scale_tril)
        natural = torch.cholesky_solve(q.mean[:, None], q.scale_tril)
        results += [S.diagonal().sum().item(), natural.norm().item()]
    return results
