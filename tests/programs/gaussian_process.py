"""A Gaussian process by Cholesky; kernels learnt through log-determinants; predictions."""

import math

import torch
from torch import nn

from tests.programs.seeding import normal

device = torch.device("cpu")


class Kernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_lengthscale = nn.Parameter(torch.zeros(2))
        self.log_outputscale = nn.Parameter(torch.tensor(0.0))
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def forward(self, a, b):
        d = torch.cdist(
            a / self.log_lengthscale.exp(), b / self.log_lengthscale.exp(), p=2
        )
        return self.log_outputscale.exp() * torch.exp(-0.5 * d.pow(2))


def train(steps):
    x = torch.from_numpy(normal(12, 2)).to(device)
    y = torch.sin(x[:, 0]) + 0.5 * x[:, 1]
    test = torch.from_numpy(normal(4, 2, seed=5)).to(device)
    kernel = Kernel().to(device)
    optimizer = torch.optim.Adam(kernel.parameters(), lr=0.05)
    results = []
    for _ in range(steps):
        optimizer.zero_grad()
        K = kernel(x, x) + kernel.log_noise.exp() * torch.eye(len(x), device=device)
        L = torch.linalg.cholesky(K)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), L)
        nll = (
            0.5 * (y.unsqueeze(0) @ alpha).squeeze()
            + L.diagonal().log().sum()
            + 0.5 * len(x) * math.log(2 * math.pi)
        )
        nll.backward()
        optimizer.step()
        results += [nll.item(), kernel.log_noise.exp().item()]
    with torch.no_grad():
        Ks = kernel(x, test)
        mean = Ks.T @ alpha
        v = torch.linalg.solve_triangular(L, Ks, upper=False)
        cov = kernel(test, test) - v.T @ v
        sign, logdet = torch.linalg.slogdet(K)
        results += (
            mean.flatten().tolist()
            + cov.diag().sqrt().tolist()
            + [logdet.item(), sign.item()]
        )
        eigenvalues = torch.linalg.eigvalsh(K)
        results += [
            eigenvalues.min().item(),
            torch.linalg.matrix_norm(K).item(),
            torch.trace(torch.linalg.inv(K)).item(),
        ]
        mvn = torch.distributions.MultivariateNormal(
            torch.zeros(12).to(device), covariance_matrix=K
        )
        results.append(mvn.log_prob(y).item())
    return results
