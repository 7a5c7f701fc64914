"""A hypernetwork, Deep Sets and a differentiable sort: generated weights in conv and linear."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class HyperNetwork(nn.Module):
    def __init__(self, f_size=3, z_dim=4, out_size=4, in_size=4):
        super().__init__()
        self.z_dim, self.f_size, self.out_size, self.in_size = (
            z_dim,
            f_size,
            out_size,
            in_size,
        )
        self.w1 = Parameter(
            torch.fmod(torch.randn((z_dim, out_size * f_size * f_size)), 2)
        )
        self.b1 = Parameter(torch.fmod(torch.randn((out_size * f_size * f_size)), 2))
        self.w2 = Parameter(torch.fmod(torch.randn((z_dim, in_size * z_dim)), 2))
        self.b2 = Parameter(torch.fmod(torch.randn((in_size * z_dim)), 2))

    def forward(self, z):
        h_in = torch.matmul(z, self.w2) + self.b2
        h_in = h_in.view(self.in_size, self.z_dim)
        h_final = torch.matmul(h_in, self.w1) + self.b1
        return h_final.view(self.out_size, self.in_size, self.f_size, self.f_size)


def soft_sort(s, tau=0.5):
    s_sorted = s.sort(descending=True, dim=1)[0]
    pairwise = (s.transpose(1, 2) - s_sorted).abs().neg() / tau
    return pairwise.softmax(-1)


def sinkhorn(log_alpha, n_iters=5):
    for _ in range(n_iters):
        log_alpha = log_alpha - torch.logsumexp(log_alpha, -1, keepdim=True)
        log_alpha = log_alpha - torch.logsumexp(log_alpha, -2, keepdim=True)
    return log_alpha.exp()


class DeepSets(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(2, 8), nn.CELU(), nn.Linear(8, 8))
        self.rho = nn.Sequential(nn.Linear(8 * 3, 8), nn.SELU(), nn.Linear(8, 1))

    def forward(self, x, mask):
        h = self.phi(x) * mask.unsqueeze(-1)
        mean = h.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        high = (
            h.masked_fill(~mask.bool().unsqueeze(-1), float("-inf")).max(dim=1).values
        )
        return self.rho(
            torch.cat(
                [
                    h.sum(dim=1),
                    mean,
                    torch.amax(high, dim=-1, keepdim=True).expand_as(mean),
                ],
                dim=-1,
            )
        ).squeeze(-1)


def train(steps):
    hyper, sets = seeded(HyperNetwork(), 1).to(device), seeded(DeepSets(), 2).to(device)
    zs = nn.ParameterList(
        [nn.Parameter(torch.from_numpy(normal(4, seed=i))) for i in range(3)]
    ).to(device)
    optimizer = torch.optim.Adamax(
        [*hyper.parameters(), *sets.parameters(), *zs], lr=0.01
    )
    images = torch.from_numpy(normal(2, 4, 6, 6)).to(device)
    points = torch.from_numpy(normal(4, 5, 2)).to(device)
    mask = torch.tensor(
        [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 1, 0]],
        dtype=torch.float32,
    ).to(device)
    target = (points.norm(dim=-1) * mask).amax(1)
    results = []
    for _ in range(steps):
        optimizer.zero_grad()
        x = images
        for i, z in enumerate(zs):
            x = F.conv2d(x, hyper(z), padding="same" if i % 2 else 1).tanh() + x
        a = (x.mean((2, 3)) - 0.1).square().sum()
        out = sets(points, mask)
        b = F.huber_loss(out, target, delta=0.5)
        P = soft_sort(out.view(1, -1, 1))
        c = (
            (
                (P @ target.view(1, -1, 1)).squeeze()
                - target.sort(descending=True).values
            )
            .pow(2)
            .mean()
        )
        d = (sinkhorn(torch.outer(out, target)).diagonal() - 0.25).norm()
        loss = a + b + c + d
        loss.backward()
        optimizer.step()
        results += [each.item() for each in (a, b, c, d)]
    return results
