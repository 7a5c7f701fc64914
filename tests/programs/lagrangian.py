"""Lagrangian and Hamiltonian networks: accelerations by hessians and jacobians of torch.func, trajectories by autograd.functional."""

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Lagrangian(nn.Module):
    def __init__(self, d=2, hidden=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 * d, hidden),
            nn.Softplus(),
            nn.Linear(hidden, hidden),
            nn.Softplus(),
            nn.Linear(hidden, 1),
        )

    def forward(self, q, v):
        kinetic = 0.5 * (v * v).sum(-1)
        return kinetic + self.net(torch.cat([q, v], -1)).squeeze(-1)


def acceleration(model, params, q, v):
    def energy(q, v):
        return functional_call(model, params, (q, v))

    mass = hessian(energy, argnums=1)(q, v)
    mixed = jacrev(grad(energy, argnums=1), argnums=0)(q, v)
    force = grad(energy, argnums=0)(q, v) - mixed @ v
    return torch.linalg.solve(mass, force)


class Hamiltonian(nn.Module):
    def __init__(self, d=2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 * d, 16), nn.Tanh(), nn.Linear(16, 1, bias=False)
        )
        self.register_buffer(
            "J", torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).kron(torch.eye(d))
        )

    def forward(self, t, x):
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_(True)
            (dH,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return dH @ self.J.t()


def rk4(f, x, t, dt):
    k1 = f(t, x)
    k2 = f(t + dt / 2, x + dt / 2 * k1)
    k3 = f(t + dt / 2, x + dt / 2 * k2)
    k4 = f(t + dt, x + dt * k3)
    return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def train(steps):
    first, second = seeded(Lagrangian()).to(device), seeded(Hamiltonian(), 1).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=5e-3)
    q, v = (torch.from_numpy(normal(8, 2, seed=k)).to(device) for k in (1, 2))
    target = -torch.sin(q) - 0.1 * v
    results = []
    for step in range(steps):
        params = dict(first.named_parameters())
        found = vmap(lambda q, v: acceleration(first, params, q, v))(q, v)
        loss = (found - target).pow(2).mean()
        x = torch.cat([q, v], 1)
        path = [x]
        for k in range(3):
            path.append(rk4(second, path[-1], k * 0.1, 0.1))
        flow = torch.stack(path)
        wanted = torch.stack(
            [x + 0.1 * k * torch.cat([v, -torch.sin(q)], 1) for k in range(4)]
        )
        loss = loss + torch.nn.functional.smooth_l1_loss(flow, wanted, beta=0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    detached = {k: p.detach() for k, p in first.named_parameters()}

    def energy(state):
        return functional_call(first, detached, tuple(state.chunk(2)))

    state = torch.cat([q[0], v[0]])
    one = torch.autograd.functional.hessian(energy, state)
    other = jacfwd(jacrev(energy))(state)
    results += [one.sum().item(), (one - other).abs().max().round(decimals=4).item()]
    _, product = torch.autograd.functional.vhp(energy, state, torch.ones_like(state))
    jacobian = torch.autograd.functional.jacobian(
        lambda x: rk4(second, x, 0.0, 0.1), state[None], vectorize=False
    )
    results += [product.norm().item(), torch.linalg.det(jacobian.squeeze()).item()]
    return results
