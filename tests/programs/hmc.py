"""Hamiltonian Monte Carlo and Langevin sampling with autograd.grad; an energy model."""

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import grad

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def potential(q):
    return ((q[..., 0] ** 2 - 1) ** 2 + 0.5 * (q[..., 1] - 0.3 * q[..., 0]) ** 2).sum()


def leapfrog(q, p, step_size, n):
    q = q.clone().detach().requires_grad_()
    p = p - 0.5 * step_size * grad(potential(q), q)[0]
    for i in range(n):
        with torch.no_grad():
            q = q + step_size * p
        q.requires_grad_(True)
        (g,) = grad(potential(q), (q,))
        if i != n - 1:
            p -= step_size * g
    p -= 0.5 * step_size * g
    return q.detach(), -p


def train(steps):
    rng = np.random.default_rng(5)
    q, accepted, results = torch.zeros(2, device=device), 0, []
    for i in range(steps):
        p = torch.from_numpy(normal(2, seed=i)).to(device)
        new_q, new_p = leapfrog(q, p, 0.2, 5)
        h0 = potential(q) + 0.5 * p.dot(p)
        h1 = potential(new_q) + 0.5 * (new_p @ new_p)
        if rng.random() < torch.exp(h0 - h1).clamp(max=1.0):
            q, accepted = new_q, accepted + 1
        results += q.tolist()
    net = seeded(nn.Sequential(nn.Linear(2, 12), nn.ELU(), nn.Linear(12, 1))).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    real = torch.from_numpy(normal(10, 2, seed=77) * 0.3 + 1).to(device)
    buffer = torch.from_numpy(normal(30, 2, seed=78)).to(device)
    for i in range(steps):
        idx = torch.from_numpy(rng.permutation(30)[:10]).to(device)
        x = buffer[idx].clone()
        x.requires_grad = True
        for k in range(3):
            energy = net(x).sum()
            x.grad = None
            energy.backward(inputs=[x]) if k % 2 else energy.backward()
            x.data.add_(x.grad.data.clamp_(-0.5, 0.5), alpha=-0.5)
            x.data += 0.05 * torch.from_numpy(normal(10, 2, seed=100 * i + k)).to(
                device
            )
            x.grad.detach_()
            x.grad.zero_()
        x = x.detach()
        buffer[idx] = x
        optimizer.zero_grad()
        e_real, e_fake = net(real), net(x)
        loss = (e_real - e_fake).mean() + 0.1 * (e_real.pow(2) + e_fake**2).mean()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    return results + [float(accepted)]
