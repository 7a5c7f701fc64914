"""Optimizers that users write with _foreach functions, by layers, and by Kronecker factors."""

import math
import torch
from torch import nn
from torch.optim.optimizer import Optimizer, required

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Adan(Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.98, 0.92, 0.99),
        eps=1e-8,
        weight_decay=0.0,
        max_grad_norm=1.0,
    ):
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            max_grad_norm=max_grad_norm,
        )
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups:
            g.setdefault("no_prox", False)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        norms = torch._foreach_norm(
            [p.grad for g in self.param_groups for p in g["params"]]
        )
        total = torch.linalg.vector_norm(torch.stack(norms))
        clip = torch.clamp(self.defaults["max_grad_norm"] / (total + 1e-6), max=1.0)
        for g in self.param_groups:
            b1, b2, b3 = g["betas"]
            g["step"] = g.get("step", 0) + 1
            bc1, bc2, bc3 = (1 - b ** g["step"] for b in g["betas"])
            ps, gs, m, d, n, prev = [], [], [], [], [], []
            for p in g["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if len(st) == 0:
                    st["m"], st["d"], st["n"] = (
                        torch.zeros_like(p, memory_format=torch.preserve_format)
                        for _ in range(3)
                    )
                if "prev" not in st or g["step"] == 1:
                    st["prev"] = p.grad.clone().mul_(-clip)
                ps.append(p)
                gs.append(p.grad)
                m.append(st["m"])
                d.append(st["d"])
                n.append(st["n"])
                prev.append(st["prev"])
            torch._foreach_mul_(gs, clip)
            torch._foreach_add_(prev, gs)
            torch._foreach_mul_(m, b1)
            torch._foreach_add_(m, gs, alpha=1 - b1)
            torch._foreach_mul_(d, b2)
            torch._foreach_add_(d, prev, alpha=1 - b2)
            torch._foreach_mul_(prev, b2)
            torch._foreach_add_(prev, gs)
            torch._foreach_mul_(n, b3)
            torch._foreach_addcmul_(n, prev, prev, value=1 - b3)
            den = torch._foreach_sqrt(n)
            torch._foreach_div_(den, math.sqrt(bc3))
            torch._foreach_add_(den, g["eps"])
            torch._foreach_addcdiv_(ps, m, den, value=-g["lr"] / bc1)
            torch._foreach_addcdiv_(ps, d, den, value=-g["lr"] * b2 / bc2)
            torch._foreach_div_(ps, 1 + g["lr"] * g["weight_decay"])
            torch._foreach_zero_(prev)
            torch._foreach_sub_(prev, gs)
        return loss


class LARS(Optimizer):
    def __init__(self, params, lr=required, momentum=0.9, trust=0.001):
        super().__init__(params, dict(lr=lr, momentum=momentum, trust=trust))

    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                dp = p.grad.data
                if p.ndim > 1:
                    pn, gn = torch.norm(p.data), torch.norm(dp)
                    one = torch.ones_like(pn)
                    q = torch.where(
                        pn > 0.0, torch.where(gn > 0, g["trust"] * pn / gn, one), one
                    )
                    dp = dp.mul(q)
                st = self.state[p]
                if "mu" not in st:
                    st["mu"] = torch.zeros_like(p.data)
                mu = st["mu"]
                mu.mul_(g["momentum"]).add_(dp)
                p.data.add_(mu, alpha=-g["lr"])


class KFACish(Optimizer):
    def __init__(self, model, lr):
        self.mods = [m for m in model.modules() if isinstance(m, nn.Linear)]
        self.a, self.g = {}, {}
        for m in self.mods:
            m.register_forward_pre_hook(self._a)
            m.register_full_backward_hook(self._g)
        super().__init__(model.parameters(), dict(lr=lr))

    def _a(self, m, i):
        x = i[0].detach()
        x = torch.cat([x, x.new_ones(x.size(0), 1)], 1)
        self.a[m] = x.t() @ x / x.size(0)

    def _g(self, m, gi, go):
        g = go[0].detach() * go[0].size(0)
        self.g[m] = g.t() @ g / g.size(0)

    @torch.no_grad()
    def step(self):
        lr = self.param_groups[0]["lr"]
        for m in self.mods:
            A = self.a[m] + 0.1 * torch.eye(len(self.a[m]), device=self.a[m].device)
            G = self.g[m] + 0.1 * torch.eye(len(self.g[m]), device=self.a[m].device)
            grad = torch.cat([m.weight.grad, m.bias.grad[:, None]], 1)
            nat = torch.linalg.inv(G) @ grad @ torch.inverse(A)
            m.weight.add_(nat[:, :-1], alpha=-lr)
            m.bias.sub_(lr * nat[:, -1])


def train(steps):
    x = torch.from_numpy(normal(16, 5)).to(device)
    y = torch.from_numpy(normal(16, 3, seed=4)).to(device)
    res = []
    for make in (
        lambda m: Adan(m.parameters(), lr=5e-3, weight_decay=0.02),
        lambda m: LARS(m.parameters(), lr=0.5),
        lambda m: KFACish(m, 0.05),
    ):
        m = seeded(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))).to(
            device
        )
        opt = make(m)
        for _ in range(steps):
            opt.zero_grad()
            loss = nn.functional.mse_loss(m(x), y)
            loss.backward()
            opt.step()
            res.append(loss.item())
        res.append(float(len(opt.state)))
        s = opt.state_dict()
        opt.load_state_dict(s)
        res.append(float(len(repr(opt)) > 10))
    return res
