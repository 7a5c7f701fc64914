"""A deep equilibrium layer: Anderson-free fixed points, implicit gradients by a hook."""

import torch
import torch.nn as nn

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Cell(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w, self.u = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.norm = nn.GroupNorm(2, d)

    def forward(self, z, x):
        return self.norm(torch.tanh(0.3 * self.w(z) + self.u(x)))


def fixed_point(f, x0, max_iter=25, tol=1e-7):
    f0, res = f(x0), []
    for _ in range(max_iter):
        x = f0
        f0 = f(x)
        res.append((f0 - x).norm().item() / (1e-5 + f0.norm().item()))
        if res[-1] < tol:
            break
    return f0, res


class DEQ(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        with torch.no_grad():
            z, self.forward_res = fixed_point(
                lambda z: self.f(z, x), torch.zeros_like(x)
            )
        z = self.f(z, x)
        if not self.training:
            return z
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            g, self.backward_res = fixed_point(
                lambda y: torch.autograd.grad(f0, z0, y, retain_graph=True)[0] + grad,
                grad,
            )
            return g

        z.register_hook(backward_hook)
        return z


def train(steps):
    f = seeded(Cell(6), 1)
    f.w.weight.data.mul_(0.3)
    model = nn.Sequential(nn.Linear(4, 6), DEQ(f), nn.Linear(6, 3))
    seeded(model[0], 2), seeded(model[2], 3)
    model = model.to(device)
    x, y = (
        torch.from_numpy(normal(10, 4)).to(device),
        torch.from_numpy(integers(3, 10)).to(device),
    )
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5, nesterov=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        opt, "min", factor=0.5, patience=1
    )
    results = []
    for step in range(steps):
        model.train()
        yp = model(x)
        loss = nn.CrossEntropyLoss()(yp, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        scheduler.step(loss.item() if step % 5 else 9.0)
        results += [loss.item(), opt.param_groups[0]["lr"]]
    model.eval()
    return results + [(model(x).max(dim=1)[1] != y).sum().item()]
