"""PointNet with T-Net, neural ODE with RK4 and an adjoint Function, farthest-point sampling."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class STN(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.conv, self.fc, self.k = nn.Conv1d(k, 16, 1), nn.Linear(16, k * k), k
        self.bn = nn.BatchNorm1d(16)

    def forward(self, x):
        b = x.size()[0]
        x = F.relu(self.bn(self.conv(x)))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 16)
        iden = (
            torch.from_numpy(np.eye(self.k).flatten().astype(np.float32))
            .view(1, self.k * self.k)
            .repeat(b, 1)
        )
        return (self.fc(x) + iden.to(x.device)).view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stn = STN()
        self.c1, self.c2 = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 32, 1)
        self.fc = nn.Linear(32, 4)

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = self.c2(F.relu(self.c1(x)))
        x, which = torch.max(x, dim=2)
        return F.log_softmax(self.fc(x), dim=1), trans, which


def regularizer(trans):
    d = trans.size()[1]
    eye = torch.eye(d)[None, :, :].to(trans.device)
    return torch.mean(
        torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - eye, dim=(1, 2))
    )


def farthest_point_sample(xyz, npoint):
    B, N, C = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long).to(xyz.device)
    distance = torch.ones(B, N).to(xyz.device) * 1e10
    farthest = torch.zeros(B, dtype=torch.long).to(xyz.device)
    batch = torch.arange(B, dtype=torch.long).to(xyz.device)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch, farthest, :].view(B, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = torch.max(distance, -1)[1]
    return centroids


def rk4(f, y, t0, t1, n):
    h = (t1 - t0) / n
    for i in range(n):
        t = t0 + i * h
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


class ODEAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, n, *params):
        ctx.func, ctx.n = func, n
        with torch.no_grad():
            y = rk4(func, y0, 0.0, 1.0, n)
        ctx.save_for_backward(y, *params)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        y, *params = ctx.saved_tensors
        h = 1.0 / ctx.n
        a = grad_y
        gp = [torch.zeros_like(p) for p in params]
        for i in reversed(range(ctx.n)):
            t = (i + 1) * h
            with torch.enable_grad():
                yy = y.detach().requires_grad_(True)
                f = ctx.func(t, yy)
                grads = torch.autograd.grad(f, (yy, *params), a, allow_unused=True)
            y = (y - h * f).detach()
            a = a + h * grads[0]
            gp = [g + h * d if d is not None else g for g, d in zip(gp, grads[1:])]
        return (None, a, None, *gp)


class ODEF(nn.Module):
    def __init__(self, d=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 12), nn.Tanh(), nn.Linear(12, d))
        self.nfe = 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y**3) + t * 0.1


def train(steps):
    pts = torch.from_numpy(normal(6, 3, 20)).to(device)
    y = torch.from_numpy(integers(4, 6)).to(device)
    net = seeded(PointNet()).to(device)
    opt = torch.optim.Adamax(net.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps // 2):
        opt.zero_grad()
        pred, trans, which = net(pts)
        loss = F.nll_loss(pred, y) + 0.001 * regularizer(trans)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(which.shape, farthest_point_sample(pts.transpose(1, 2), 5).tolist())
    f = seeded(ODEF(), 2).to(device)
    opt = torch.optim.Adadelta(f.parameters(), lr=1.0)
    y0 = torch.from_numpy(normal(16, 2)).to(device) * 0.5
    target = y0 @ torch.tensor([[0.9, 0.3], [-0.3, 0.9]], device=device)
    for i in range(steps // 2):
        opt.zero_grad()
        out = (
            rk4(f, y0, 0.0, 1.0, 3)
            if i % 2
            else ODEAdjoint.apply(f, y0, 4, *f.parameters())
        )
        loss = (out - target).abs().mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses + [f.nfe]
