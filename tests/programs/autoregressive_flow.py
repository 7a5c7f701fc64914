"""A neural ODE by Euler and odeint of a torch-like API, FFJORD's trace, NICE, IAF/MAF with MADE, spline-free; VI with distributions and kl."""

import numpy as np
import torch
from torch import nn
from torch.distributions import (
    Normal,
    MultivariateNormal,
    Independent,
    TransformedDistribution,
    AffineTransform,
    SigmoidTransform,
    Uniform,
    kl_divergence,
)
from torch.nn import functional as F
from torch.nn.parameter import Parameter

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MaskedLinear(nn.Linear):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__(in_features, out_features, bias)
        self.register_buffer("mask", torch.ones(out_features, in_features))

    def set_mask(self, mask):
        self.mask.data.copy_(torch.from_numpy(mask.astype(np.uint8).T))

    def forward(self, input):
        return F.linear(input, self.mask * self.weight, self.bias)


class MADE(nn.Module):
    def __init__(self, nin, hidden, nout):
        super().__init__()
        self.nin = nin
        hs = [nin] + hidden + [nout]
        self.net = []
        for h0, h1 in zip(hs, hs[1:]):
            self.net.extend([MaskedLinear(h0, h1), nn.ReLU()])
        self.net.pop()
        self.net = nn.Sequential(*self.net)
        rng = np.random.RandomState(0)
        m = {-1: np.arange(nin)}
        for l in range(len(hidden)):
            m[l] = rng.randint(m[l - 1].min(), nin - 1, size=hidden[l])
        masks = [m[l - 1][:, None] <= m[l][None, :] for l in range(len(hidden))]
        masks.append(m[len(hidden) - 1][:, None] < m[-1][None, :])
        masks[-1] = np.concatenate([masks[-1]] * (nout // nin), axis=1)
        for l, mm in zip(
            [l for l in self.net.modules() if isinstance(l, MaskedLinear)], masks
        ):
            l.set_mask(mm)

    def forward(self, x):
        return self.net(x)


class MAF(nn.Module):
    def __init__(self, dim, parity):
        super().__init__()
        self.dim, self.parity = dim, parity
        self.net = MADE(dim, [12, 12], 2 * dim)

    def forward(self, x):
        st = self.net(x)
        s, t = st.split(self.dim, dim=1)
        z = x * torch.exp(s) + t
        z = z.flip(dims=(1,)) if self.parity else z
        return z, torch.sum(s, dim=1)

    def backward(self, z):
        x = torch.zeros_like(z)
        log_det = torch.zeros(z.size(0), device=z.device)
        z = z.flip(dims=(1,)) if self.parity else z
        for i in range(self.dim):
            st = self.net(x.clone())
            s, t = st.split(self.dim, dim=1)
            x[:, i] = (z[:, i] - t[:, i]) * torch.exp(-s[:, i])
            log_det += -s[:, i]
        return x, log_det


class ODEFunc(nn.Module):
    def __init__(self, dim=2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, 10), nn.Softplus(beta=2.0), nn.Linear(10, dim)
        )
        self.nfe = 0

    def forward(self, t, states):
        self.nfe += 1
        z = states[0]
        with torch.set_grad_enabled(True):
            z.requires_grad_(True)
            t = torch.ones(z.size(0), 1).to(z) * t.clone().detach().requires_grad_(
                True
            ).type_as(z)
            dx = self.net(torch.cat([z, t], -1))
            trace = 0.0
            for i in range(z.shape[1]):
                trace += (
                    torch.autograd.grad(dx[:, i].sum(), z, create_graph=True)[0]
                    .contiguous()[:, i]
                    .contiguous()
                )
        return (dx, -trace.view(-1, 1))


def odeint_euler(func, y0, t):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        dy = func(t0, ys[-1])
        ys.append(tuple(y + (t1 - t0) * d for y, d in zip(ys[-1], dy)))
    return tuple(torch.stack(s) for s in zip(*ys))


class BayesLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.mu, self.rho = (
            Parameter(torch.Tensor(o, i).normal_(0, 0.1)),
            Parameter(torch.full((o, i), -2.0)),
        )

    @property
    def q(self):
        return Normal(self.mu, F.softplus(self.rho))

    def kl(self):
        return kl_divergence(
            self.q, Normal(torch.zeros_like(self.mu), torch.ones_like(self.rho))
        ).sum()

    def forward(self, x, eps):
        return x @ (self.q.loc + self.q.scale * eps).t()


def train(steps):
    x = torch.from_numpy(
        normal(16, 2) @ np.array([[1.0, 0.5], [0.0, 0.4]], np.float32) + 0.3
    ).to(device)
    prior = MultivariateNormal(
        torch.zeros(2, device=device), torch.eye(2, device=device)
    )
    logistic = TransformedDistribution(
        Uniform(torch.zeros(2, device=device), torch.ones(2, device=device)),
        [
            SigmoidTransform().inv,
            AffineTransform(
                loc=torch.zeros(2, device=device),
                scale=0.7 * torch.ones(2, device=device),
            ),
        ],
    )
    flows = nn.ModuleList([seeded(MAF(2, i % 2), i) for i in range(3)]).to(device)
    ode = seeded(ODEFunc(), 9).to(device)
    bayes = seeded(BayesLinear(2, 1), 5).to(device)
    bayes.rho.data.fill_(-2)
    opt = torch.optim.Adamax(
        [
            {"params": flows.parameters()},
            {"params": list(ode.parameters()) + list(bayes.parameters()), "lr": 1e-2},
        ],
        lr=5e-3,
    )
    t = torch.linspace(1.0, 0.0, 4).to(device)
    eps = torch.from_numpy(normal(steps, 1, 2, seed=11)).to(device)
    res = []
    for i in range(steps):
        opt.zero_grad()
        z, ld = x, torch.zeros(16, device=device)
        for f in flows:
            z, l = f(z)
            ld = ld + l
        nll = (
            -(prior.log_prob(z) + ld).mean()
            - 0.1 * Independent(logistic, 0).log_prob(z).clamp(min=-50).sum(-1).mean()
        )
        zs, dl = odeint_euler(ode, (x.clone(), torch.zeros(16, 1).type_as(x)), t)
        nll2 = -(prior.log_prob(zs[-1]) - dl[-1].squeeze(1)).mean()
        like = Normal(bayes(x, eps[i]), 0.5)
        elbo = like.log_prob(x[:, :1] * 2 - x[:, 1:]).sum() - bayes.kl() / 8
        loss = nll + nll2 - 0.05 * elbo
        loss.backward()
        torch.nn.utils.clip_grad_value_(flows.parameters(), clip_value=1.0)
        opt.step()
        res += [nll.item(), nll2.item(), elbo.item()]
    with torch.no_grad():
        y, _ = flows[0].backward(flows[0](x)[0])
        res.append((y - x).abs().max().item() < 1e-4)
    assert ode.nfe == 3 * steps
    return res
