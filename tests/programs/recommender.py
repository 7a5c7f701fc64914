"""DLRM with EmbeddingBag, DeepFM, matrix factorisation with SparseAdam-like rows, k-means."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class DLRM(nn.Module):
    def __init__(self, m=4, sizes=(10, 12, 8)):
        super().__init__()
        self.emb_l = nn.ModuleList()
        for n in sizes:
            e = nn.EmbeddingBag(n, m, mode="sum", sparse=False)
            W = np.random.uniform(
                low=-np.sqrt(1 / n), high=np.sqrt(1 / n), size=(n, m)
            ).astype(np.float32)
            e.weight.data = torch.tensor(W, requires_grad=True)
            self.emb_l.append(e)
        self.bot_l = nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, m), nn.ReLU()
        )
        self.top_l = nn.Sequential(
            nn.Linear(m + 6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid()
        )

    def interact(self, x, ly):
        (batch_size, d) = x.shape
        T = torch.cat([x] + ly, dim=1).view((batch_size, -1, d))
        Z = torch.bmm(T, torch.transpose(T, 1, 2))
        _, ni, nj = Z.shape
        li = torch.tensor([i for i in range(ni) for j in range(i)])
        lj = torch.tensor([j for i in range(nj) for j in range(i)])
        return torch.cat([x] + [Z[:, li, lj]], dim=1)

    def forward(self, dense, offsets, indices):
        x = self.bot_l(dense)
        ly = [self.emb_l[k](indices[k], offsets[k]) for k in range(len(indices))]
        return self.top_l(self.interact(x, ly))


class DeepFM(nn.Module):
    def __init__(self, field_dims, d=4):
        super().__init__()
        self.register_buffer(
            "offsets",
            torch.tensor(np.array((0, *np.cumsum(field_dims)[:-1]), dtype=np.int64)),
        )
        self.embedding, self.linear = (
            nn.Embedding(sum(field_dims), d),
            nn.Embedding(sum(field_dims), 1),
        )
        self.bias = nn.Parameter(torch.zeros((1,)))
        self.mlp = nn.Sequential(
            nn.Linear(len(field_dims) * d, 8),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Linear(8, 1),
        )

    def forward(self, x):
        x = x + self.offsets.unsqueeze(0)
        e = self.embedding(x)
        fm = 0.5 * (e.sum(dim=1) ** 2 - (e**2).sum(1)).sum(dim=1, keepdim=True)
        return torch.sigmoid(
            (
                self.linear(x).sum(dim=1)
                + self.bias
                + fm
                + self.mlp(e.view(e.size(0), -1))
            ).squeeze(1)
        )


class MF(nn.Module):
    def __init__(self, users, items, k=6):
        super().__init__()
        self.u, self.i = nn.Embedding(users, k, max_norm=2.0), nn.Embedding(items, k)
        self.ub, self.ib = nn.Embedding(users, 1), nn.Embedding(items, 1)

    def forward(self, u, i):
        return (
            (self.u(u) * self.i(i)).sum(1) + self.ub(u).squeeze() + self.ib(i).squeeze()
        )


def kmeans(x, k, iters=5):
    c = x[:k].clone()
    for _ in range(iters):
        a = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
        c.zero_()
        c.scatter_add_(0, a[:, None].repeat(1, x.size(1)), x)
        n = torch.bincount(a, minlength=k).type_as(x).view(k, 1)
        c /= n.clamp_min(1)
    return c, a


def train(steps):
    np.random.seed(0)
    losses = []
    n = 8
    net = DLRM()
    seeded(net.bot_l), seeded(net.top_l, 1)
    net.to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    dense = torch.from_numpy(normal(n, 5)).to(device)
    off = [torch.arange(0, 2 * n, 2, device=device) for _ in range(3)]
    idx = [torch.from_numpy(integers(s, 2 * n, seed=s)).to(device) for s in (10, 12, 8)]
    y = (dense[:, :1] > 0).float()
    for _ in range(steps // 3):
        z = net(dense, off, idx)
        loss = nn.BCELoss(reduction="mean")(z, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    fm = seeded(DeepFM([10, 12, 8])).to(device)
    opt = torch.optim.Adam(fm.parameters(), lr=1e-2, weight_decay=1e-6)
    f = torch.stack([i[:n] for i in idx], 1)
    for _ in range(steps // 3):
        loss = F.binary_cross_entropy(fm(f), y.squeeze(1))
        fm.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    mf = seeded(MF(10, 12)).to(device)
    opt = torch.optim.Adagrad(mf.parameters(), lr=0.1)
    r = torch.from_numpy(integers(5, 16, seed=7)).float().to(device) + 1
    for _ in range(steps // 3):
        loss = F.mse_loss(mf(idx[0], idx[1]), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    c, a = kmeans(dense, 3)
    scores = mf.u.weight @ mf.i.weight.t()
    top = scores.topk(3, dim=1).indices
    hits = (top == idx[1][:10, None]).any(1).float().mean()
    return losses + c.flatten().tolist() + [hits.item()]
