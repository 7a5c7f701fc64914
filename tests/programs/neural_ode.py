"""A neural ODE by Runge-Kutta steps, with an adjoint as a custom autograd Function."""

import torch
import torch.nn as nn

from tests.programs.seeding import seeded

device = torch.device("cpu")


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y**3) * (1 + 0.1 * t)


def rk4_step(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y0, t, flat, func):
        ctx.func = func
        with torch.no_grad():
            ys = [y0]
            for t0, t1 in zip(t[:-1], t[1:]):
                ys.append(ys[-1] + rk4_step(func, t0, t1 - t0, ys[-1]))
            ys = torch.stack(ys)
        ctx.save_for_backward(t, ys, flat)
        return ys

    @staticmethod
    def backward(ctx, grad_ys):
        t, ys, flat = ctx.saved_tensors
        func, params = ctx.func, tuple(ctx.func.parameters())
        adj, total = grad_ys[-1], torch.zeros_like(flat)
        for i in range(len(t) - 1, 0, -1):
            with torch.enable_grad():
                y = ys[i - 1].detach().requires_grad_(True)
                out = y + rk4_step(func, t[i - 1], t[i] - t[i - 1], y)
                grads = torch.autograd.grad(out, (y,) + params, adj, allow_unused=True)
            adj = grads[0] + grad_ys[i - 1]
            total += torch.cat(
                [
                    g.contiguous().view(-1)
                    if g is not None
                    else torch.zeros_like(p).view(-1)
                    for g, p in zip(grads[1:], params)
                ]
            )
        return adj, None, total, None


def train(steps):
    true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]).to(device)
    t = torch.linspace(0.0, 1.0, 6).to(device)
    y = torch.tensor([[2.0, 0.0]]).to(device)
    truth = torch.stack([y @ torch.matrix_exp(true_A * ti) for ti in t])[:, 0] * 0.5
    func = seeded(ODEFunc()).to(device)
    optimizer = torch.optim.RMSprop(func.parameters(), lr=5e-3)
    results = []
    for step in range(steps):
        optimizer.zero_grad()
        y0 = truth[0:1]
        if step % 2:
            flat = torch.nn.utils.parameters_to_vector(func.parameters())
            pred = Adjoint.apply(y0, t, flat, func)
        else:
            ys = [y0]
            for t0, t1 in zip(t[:-1], t[1:]):
                ys.append(ys[-1] + rk4_step(func, t0, t1 - t0, ys[-1]))
            pred = torch.stack(ys, dim=0)
        loss = torch.mean(torch.abs(pred[:, 0] - truth))
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return results
