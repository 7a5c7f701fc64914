"""MAML with second order by autograd.grad, Reptile, and the same with torch.func."""

from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

from tests.programs.seeding import seeded

device = torch.device("cpu")


class Sinusoid:
    def __init__(self, seed):
        r = np.random.RandomState(seed)
        self.a, self.p, self.r = r.uniform(0.1, 5.0), r.uniform(0, np.pi), r

    def sample(self, k):
        x = self.r.uniform(-5, 5, (k, 1)).astype(np.float32)
        return torch.from_numpy(x).to(device), torch.from_numpy(
            (self.a * np.sin(x - self.p)).astype(np.float32)
        ).to(device)


class MAMLModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            OrderedDict(
                [
                    ("l1", nn.Linear(1, 16)),
                    ("relu1", nn.ReLU()),
                    ("l2", nn.Linear(16, 16)),
                    ("relu2", nn.ReLU()),
                    ("l3", nn.Linear(16, 1)),
                ]
            )
        )

    def forward(self, x):
        return self.model(x)

    def parameterised(self, x, weights):
        x = F.relu(F.linear(x, weights[0], weights[1]))
        x = F.relu(F.linear(x, weights[2], weights[3]))
        return F.linear(x, weights[4], weights[5])


def inner_loop(net, task, first_order=False):
    temp = [w.clone() for w in net.parameters()]
    x, y = task.sample(8)
    for step in range(2):
        loss = F.mse_loss(net.parameterised(x, temp), y)
        g = torch.autograd.grad(loss, temp, create_graph=not first_order)
        temp = [w - 0.01 * gg for w, gg in zip(temp, g)]
    x, y = task.sample(8)
    return F.mse_loss(net.parameterised(x, temp), y)


def train(steps):
    net = seeded(MAMLModel()).to(device)
    opt = torch.optim.Adam(list(net.parameters()), 1e-3)
    losses = []
    for it in range(steps // 2):
        meta = torch.tensor(0.0, device=device)
        for i in range(2):
            meta = meta + inner_loop(
                net, Sinusoid(10 * it + i), first_order=it % 5 == 4
            )
        grads = torch.autograd.grad(meta, list(net.parameters()))
        for w, g in zip(net.parameters(), grads):
            w.grad = g
        opt.step()
        losses.append(meta.item() / 2)
    weights_before = {k: v.clone() for k, v in net.state_dict().items()}
    for it in range(steps // 4):
        x, y = Sinusoid(500 + it).sample(10)
        sgd = torch.optim.SGD(net.parameters(), lr=0.02)
        for i in range(2):
            net.zero_grad()
            loss = (net(x) - y).pow(2).mean()
            loss.backward()
            sgd.step()
        after = net.state_dict()
        eps = 0.1 * (1 - it / steps)
        net.load_state_dict(
            {
                name: weights_before[name] + (after[name] - weights_before[name]) * eps
                for name in weights_before
            }
        )
        weights_before = {k: v.clone() for k, v in net.state_dict().items()}
        losses.append(loss.item())
    params = {k: v.detach() for k, v in net.named_parameters()}

    def task_loss(p, x, y, x2, y2):
        g = grad(lambda q: F.mse_loss(functional_call(net, q, (x,)), y))(p)
        fast = {k: v - 0.01 * g[k] for k, v in p.items()}
        return F.mse_loss(functional_call(net, fast, (x2,)), y2)

    for it in range(steps // 4):
        data = [
            sum((Sinusoid(900 + it + j).sample(6) for _ in range(2)), ())
            for j in range(3)
        ]
        batch = [torch.stack(d) for d in zip(*data)]

        def loss_fn(p):
            return vmap(task_loss, in_dims=(None, 0, 0, 0, 0))(p, *batch).mean()

        g, value = torch.func.grad_and_value(loss_fn)(params)
        params = {k: v - 1e-3 * g[k] for k, v in params.items()}
        losses.append(value.item())
    return losses
