"""A PINN for Burgers with LBFGS after Adam, learned viscosity."""

import numpy as np
import torch
from torch import nn

from tests.programs.seeding import seeded

device = torch.device("cpu")


class PINN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.act = nn.Tanh()
        self.linears = nn.ModuleList(
            [nn.Linear(layers[i], layers[i + 1]) for i in range(len(layers) - 1)]
        )
        self.lambda_1 = nn.Parameter(torch.tensor([0.0]))
        for i in range(len(layers) - 1):
            nn.init.xavier_normal_(self.linears[i].weight.data, gain=1.0)
            nn.init.zeros_(self.linears[i].bias.data)
        self.register_parameter("lambda_2", nn.Parameter(torch.tensor([-3.0])))

    def u(self, x, t):
        a = torch.hstack([x, t])
        for linear in self.linears[:-1]:
            a = self.act(linear(a))
        return self.linears[-1](a)

    def f(self, x, t):
        u = self.u(x, t)
        u_t = torch.autograd.grad(
            u, t, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True
        )[0]
        u_x = torch.autograd.grad(
            u, x, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True
        )[0]
        u_xx = torch.autograd.grad(
            u_x,
            x,
            grad_outputs=torch.ones_like(u_x),
            retain_graph=True,
            create_graph=True,
        )[0]
        return u_t + self.lambda_1 * u * u_x - torch.exp(self.lambda_2) * u_xx


def train(steps):
    rng = np.random.default_rng(0)
    xf, tf = rng.uniform(-1, 1, (30, 1)), rng.uniform(0, 1, (30, 1))
    x0 = np.linspace(-1, 1, 20)[:, None]

    def ten(a):
        return torch.tensor(a, requires_grad=True, dtype=torch.float32).to(device)

    net = seeded(PINN([2, 12, 12, 1])).to(device)
    xf, tf, x0t = ten(xf), ten(tf), ten(x0)
    u0 = -torch.sin(np.pi * x0t).detach()
    history = []

    def loss_func():
        mse_u = torch.mean((net.u(x0t, torch.zeros_like(x0t)) - u0) ** 2)
        return mse_u + torch.mean(net.f(xf, tf) ** 2)

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = loss_func()
        adam.zero_grad()
        loss.backward()
        adam.step()
        history.append(loss.item())
    lbfgs = torch.optim.LBFGS(
        net.parameters(),
        lr=0.5,
        max_iter=6,
        max_eval=10,
        history_size=10,
        tolerance_grad=1e-5,
        tolerance_change=np.finfo(float).eps,
        line_search_fn="strong_wolfe",
    )

    def closure():
        lbfgs.zero_grad()
        loss = loss_func()
        loss.backward()
        history.append(loss.item())
        return loss

    lbfgs.step(closure)
    return history[: steps + 4] + [net.lambda_1.item()]
