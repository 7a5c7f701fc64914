"""Modern Hopfield retrieval, Sinkhorn transport, t-SNE-like layout, a Barnes-free kernel mean."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Hopfield(nn.Module):
    def __init__(self, d, n, beta=4.0):
        super().__init__()
        self.stored = nn.Parameter(torch.empty(n, d))
        self.register_parameter("log_beta", nn.Parameter(torch.tensor(beta).log()))
        self.W = nn.Parameter(torch.zeros(d, d))

    def forward(self, state, iterations=3):
        energies = []
        for _ in range(iterations):
            scores = self.log_beta.exp() * state @ self.stored.T
            state = F.softmax(scores, -1) @ self.stored + 0.1 * state @ (
                self.W + self.W.T
            ).triu(1)
            energies.append(
                -torch.logsumexp(scores, -1) / self.log_beta.exp()
                + 0.5 * state.square().sum(-1)
            )
        return state, torch.stack(energies)


def sinkhorn_distance(x, y, eps=0.3, iterations=10):
    C = ((x[:, None] - y[None]).abs() ** 2).sum(-1)
    mu, nu = (
        torch.empty(len(x), device=x.device).fill_(1.0 / len(x)),
        torch.full((len(y),), 1.0 / len(y), device=x.device),
    )
    u, v = torch.zeros_like(mu), torch.zeros_like(nu)

    def M(u, v):
        return (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / eps

    for _ in range(iterations):
        u1 = u
        u = eps * (torch.log(mu + 1e-8) - torch.logsumexp(M(u, v), dim=-1)) + u
        v = (
            eps
            * (
                torch.log(nu + 1e-8)
                - torch.logsumexp(M(u, v).transpose(-2, -1), dim=-1)
            )
            + v
        )
        if (u - u1).abs().sum(-1).mean().item() < 1e-4:
            break
    pi = torch.exp(M(u, v))
    return torch.sum(pi * C), pi


def tsne_loss(P, Y):
    num = 1 / (1 + torch.cdist(Y, Y) ** 2)
    num = num.masked_fill(torch.eye(len(Y), dtype=torch.bool, device=Y.device), 0.0)
    Q = torch.clamp(num / num.sum(), min=1e-12)
    return F.kl_div(Q.log(), P, reduction="sum")


def mmd(x, y):
    xx, yy, zz = x @ x.t(), torch.mm(y, y.t()), torch.mm(x, y.t())
    rx, ry = (
        (xx.diag().unsqueeze(0).expand_as(xx)),
        (yy.diag().unsqueeze(0).expand_as(yy)),
    )
    dxx, dyy, dxy = (
        rx.t() + rx - 2.0 * xx,
        ry.t() + ry - 2.0 * yy,
        rx.t() + ry - 2.0 * zz,
    )
    XX, YY, XY = (torch.zeros(xx.shape).to(device) for _ in range(3))
    for a in [0.5, 1, 2]:
        XX += a**2 * (a**2 + dxx) ** -1
        YY += a**2 * (a**2 + dyy) ** -1
        XY += a**2 * (a**2 + dxy) ** -1
    return torch.mean(XX + YY - 2.0 * XY)


def train(steps):
    net = seeded(Hopfield(4, 6)).to(device)
    net.log_beta.data.fill_(1.0)
    patterns = torch.from_numpy(normal(6, 4)).to(device)
    noisy = patterns + 0.3 * torch.from_numpy(normal(6, 4, seed=5)).to(device)
    P = torch.softmax(
        -torch.cdist(patterns, patterns).pow(2).fill_diagonal_(float("inf")), dim=1
    )
    P = (P + P.T) / (2 * len(P))
    P[P < 1e-12] = 1e-12
    Y = (0.1 * torch.from_numpy(normal(6, 2, seed=9))).to(device).requires_grad_()
    velocity, results = torch.zeros_like(Y), []
    optimizer = torch.optim.RMSprop(
        net.parameters(), lr=0.01, momentum=0.5, centered=True
    )
    for _ in range(steps):
        out, energies = net(noisy)
        cost, pi = sinkhorn_distance(out, patterns)
        loss = cost + mmd(out, patterns) + energies[-1].mean() * 0.1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kl = tsne_loss(P, Y)
        (g,) = torch.autograd.grad(kl, Y)
        with torch.no_grad():
            velocity.mul_(0.5).sub_(g, alpha=2.0)
            Y += velocity
            Y -= Y.mean(0)
        results += [loss.item(), pi.trace().item(), kl.item()]
    return results
