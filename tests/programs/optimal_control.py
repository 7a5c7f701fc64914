"""Iterative LQR by vmapped Jacobians and Hessians, and a policy trained through its horizon."""

import torch
from torch.func import grad, hessian, jacrev, vmap

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def dynamics(s, u):
    th, om = s.unbind(-1)
    om = om + 0.1 * (torch.sin(th) * 2.0 + u.squeeze(-1))
    return torch.stack([th + 0.1 * om, om], -1)


def cost(s, u):
    return (1 - torch.cos(s[..., 0])) + 0.1 * s[..., 1] ** 2 + 0.01 * u.square().sum(-1)


def rollout(s0, us):
    ss = [s0]
    for u in us:
        ss.append(dynamics(ss[-1], u))
    return torch.stack(ss)


def train(steps):
    T = 12
    s = torch.tensor([2.5, 0.0], device=device)
    us = torch.zeros(T, 1, device=device)
    res = []
    A = vmap(jacrev(dynamics, argnums=(0, 1)))
    c1 = vmap(grad(cost, argnums=(0, 1)))
    c2 = vmap(hessian(cost, argnums=(0, 1)))
    for it in range(min(steps, 10)):
        ss = rollout(s, us)
        total = cost(ss[:-1], us).sum() + 10 * cost(ss[-1], us[-1] * 0)
        Fx, Fu = A(ss[:-1], us)
        lx, lu = c1(ss[:-1], us)
        (lxx, lxu), (lux, luu) = c2(ss[:-1], us)
        Vx, Vxx = (
            10 * grad(cost)(ss[-1], us[-1] * 0),
            10 * hessian(cost)(ss[-1], us[-1] * 0),
        )
        ks, Ks = [None] * T, [None] * T
        for t in reversed(range(T)):
            Qx, Qu = lx[t] + Fx[t].mT @ Vx, lu[t] + Fu[t].mT @ Vx
            Qxx, Quu, Qux = (
                lxx[t] + Fx[t].mT @ Vxx @ Fx[t],
                luu[t] + Fu[t].mT @ Vxx @ Fu[t] + 0.1 * torch.eye(1, device=device),
                lux[t] + Fu[t].mT @ Vxx @ Fx[t],
            )
            ks[t] = -torch.linalg.solve(Quu, Qu)
            Ks[t] = -torch.linalg.solve(Quu, Qux)
            Vx = Qx + Ks[t].mT @ Quu @ ks[t] + Ks[t].mT @ Qu + Qux.mT @ ks[t]
            Vxx = Qxx + Ks[t].mT @ Quu @ Ks[t] + Ks[t].mT @ Qux + Qux.mT @ Ks[t]
        x, new = s, []
        for t in range(T):
            u = (us[t] + 0.5 * ks[t] + Ks[t] @ (x - ss[t])).clamp(-4, 4)
            new.append(u)
            x = dynamics(x, u)
        us = torch.stack(new)
        res += [total.item(), us.norm().item()]
    # model predictive policy: batched, trained through the horizon
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).to(device)
    seeded(net)
    opt = torch.optim.ASGD(net.parameters(), lr=0.01, t0=5)
    s0 = torch.from_numpy(normal(7, 2)).to(device)
    for _ in range(steps):
        x, J = s0, 0.0
        for t in range(6):
            u = 3 * torch.tanh(net(x))
            J = J + cost(x, u).mean()
            x = dynamics(x, u)
        opt.zero_grad()
        J.backward()
        opt.step()
        res.append(J.item())
    return res
