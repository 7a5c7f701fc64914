"""MAML by torch.func: vmap over tasks of grad of an inner loop; ensembles by stack_module_state; Laplace by hessian, per-sample gradients, NTK."""

import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(1, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(F.relu(self.fc1(x)))))


def train(steps):
    model = seeded(MLP()).to(device)
    params = {
        k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()
    }
    opt = torch.optim.Adam(params.values(), lr=1e-2)
    amp = torch.linspace(0.5, 2.0, 4, device=device)
    phase = torch.linspace(0, 3.0, 4, device=device)

    def net(p, x):
        return functional_call(model, p, (x,))

    def inner_loss(p, x, y):
        return F.mse_loss(net(p, x), y)

    def task_loss(p, x1, y1, x2, y2, alpha=0.1):
        for _ in range(2):
            grads = grad(inner_loss)(p, x1, y1)
            p = {k: p[k] - grads[k] * alpha for k in p}
        return inner_loss(p, x2, y2)

    out = []
    for step in range(steps):
        x1 = torch.tensor(normal(4, 5, 1, seed=step), device=device) * 2
        x2 = torch.tensor(normal(4, 5, 1, seed=step + 50), device=device) * 2
        y1, y2 = (
            amp[:, None, None] * torch.sin(x + phase[:, None, None]) for x in (x1, x2)
        )
        losses = vmap(task_loss, in_dims=(None, 0, 0, 0, 0))(params, x1, y1, x2, y2)
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        out += [loss.item(), losses.std().item()]
    models = [seeded(MLP(), s).to(device) for s in range(3)]
    stacked, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def fmodel(p, b, x):
        return functional_call(base, (p, b), (x,))

    x = torch.tensor(normal(6, 1), device=device)
    preds = vmap(fmodel, in_dims=(0, 0, None))(stacked, buffers, x)
    out += preds.mean((1, 2)).tolist()
    p0 = {k: v.detach() for k, v in params.items()}

    def sample_loss(p, xi, yi):
        return F.mse_loss(net(p, xi.unsqueeze(0)).squeeze(0), yi)

    per, val = vmap(grad_and_value(sample_loss), in_dims=(None, 0, 0))(p0, x, x.sin())
    out += [per["fc1.weight"].pow(2).sum().item(), val.sum().item()]
    clip = vmap(lambda g: (1.0 / (g.norm() + 1e-6)).clamp(max=1.0))(
        torch.cat([g.flatten(1) for g in per.values()], 1)
    )
    out += clip.tolist()

    def f1(xi):
        return net(p0, xi).squeeze()

    out += (
        vmap(jacrev(f1))(x).flatten().tolist() + vmap(hessian(f1))(x).flatten().tolist()
    )
    out += vmap(jacfwd(f1))(x).flatten().tolist()
    _, t = jvp(lambda z: net(p0, z), (x,), (torch.ones_like(x),))
    _, back = vjp(lambda z: net(p0, z).sum(), x)
    out += [t.sum().item(), back(torch.tensor(1.0, device=device))[0].sum().item()]

    def empirical_ntk(p, x1, x2):
        j1 = vmap(jacrev(net), (None, 0))(p, x1)
        j2 = vmap(jacrev(net), (None, 0))(p, x2)
        j1, j2 = (
            [j.flatten(2) for j in j1.values()],
            [j.flatten(2) for j in j2.values()],
        )
        return torch.stack(
            [torch.einsum("Naf,Mbf->NMab", a, b) for a, b in zip(j1, j2)]
        ).sum(0)

    out += empirical_ntk(p0, x[:3], x).flatten().tolist()
    return out
