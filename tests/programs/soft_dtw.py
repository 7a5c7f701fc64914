"""Soft dynamic time warping as a Function with setup_context, and Poincare embeddings by Riemannian steps."""

import math
import torch
from torch import nn
from torch.autograd import Function

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class SoftDTW(Function):
    @staticmethod
    def forward(D, gamma):
        B, N, M = D.shape
        R = torch.full((B, N + 2, M + 2), math.inf, device=D.device, dtype=D.dtype)
        R[:, 0, 0] = 0
        for j in range(1, M + 1):
            for i in range(1, N + 1):
                r = (
                    torch.stack(
                        [-R[:, i - 1, j - 1], -R[:, i - 1, j], -R[:, i, j - 1]], 0
                    )
                    / gamma
                )
                R[:, i, j] = D[:, i - 1, j - 1] - gamma * torch.logsumexp(r, 0)
        return R[:, -2, -2].clone(), R

    @staticmethod
    def setup_context(ctx, inputs, output):
        D, gamma = inputs
        ctx.gamma = gamma
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(D, output[1])

    @staticmethod
    def backward(ctx, g, _):
        D, R = ctx.saved_tensors
        R = R.clone()
        gamma = ctx.gamma
        B, N, M = D.shape
        Dp = torch.nn.functional.pad(D, (1, 1, 1, 1))
        E = torch.zeros_like(Dp)
        E[:, -1, -1] = 1
        R[:, :, -1] = -math.inf
        R[:, -1, :] = -math.inf
        R[:, -1, -1] = R[:, -2, -2]
        for j in range(M, 0, -1):
            for i in range(N, 0, -1):
                a = torch.exp((R[:, i + 1, j] - R[:, i, j] - Dp[:, i + 1, j]) / gamma)
                b = torch.exp((R[:, i, j + 1] - R[:, i, j] - Dp[:, i, j + 1]) / gamma)
                c = torch.exp(
                    (R[:, i + 1, j + 1] - R[:, i, j] - Dp[:, i + 1, j + 1]) / gamma
                )
                E[:, i, j] = (
                    E[:, i + 1, j] * a + E[:, i, j + 1] * b + E[:, i + 1, j + 1] * c
                )
        return E[:, 1:-1, 1:-1] * g.view(-1, 1, 1), None


class PoincareSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                sq = p.pow(2).sum(-1, keepdim=True)
                rg = p.grad * ((1 - sq) ** 2 / 4)
                p.sub_(rg, alpha=g["lr"])
                n = p.norm(dim=-1, keepdim=True)
                p.copy_(torch.where(n >= 1, p / n * (1 - 1e-5), p))


def dist(u, v, eps=1e-7):
    a, b = (1 - u.square().sum(-1)).clamp(eps), (1 - v.square().sum(-1)).clamp(eps)
    return torch.acosh((1 + 2 * (u - v).square().sum(-1) / (a * b)).clamp_min(1 + eps))


def train(steps):
    gru = seeded(nn.GRU(2, 4, batch_first=True, bidirectional=True)).to(device)
    head = seeded(nn.Linear(8, 2)).to(device)
    x = torch.from_numpy(normal(3, 5, 2)).to(device)
    y = torch.from_numpy(normal(3, 6, 2, seed=5)).to(device)
    opt = torch.optim.RMSprop(
        [*gru.parameters(), *head.parameters()], lr=1e-2, centered=True, momentum=0.5
    )
    res = []
    for _ in range(min(steps, 8)):
        out = head(gru(x)[0])
        D = torch.cdist(out, y).pow(2)
        loss, _ = SoftDTW.apply(D, 0.5)
        loss = loss.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    emb = nn.Embedding(8, 2).to(device)
    with torch.no_grad():
        emb.weight.copy_(torch.from_numpy(normal(8, 2) * 0.1))
    edges = torch.tensor([[k, (k - 1) // 2] for k in range(1, 8)], device=device)
    opt = PoincareSGD(emb.parameters(), 0.3)
    for _ in range(steps):
        u, v = emb(edges[:, 0]), emb(edges[:, 1])
        neg = emb.weight[None].expand(len(edges), -1, -1)
        d = dist(u[:, None], neg)
        loss = (
            dist(u, v)
            + torch.logsumexp(
                -d.masked_fill(
                    torch.nn.functional.one_hot(edges[:, 0], 8).bool(), torch.inf
                ),
                1,
            )
        ).mean()
        emb.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    return [*res, emb.weight.norm(dim=1).max().item()]
