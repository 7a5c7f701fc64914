"""Survival analysis: Cox by logcumsumexp, discrete hazards, DeepHit's ranking, a Hawkes process."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Exponential, LogNormal, Weibull
from torch.utils.data import DataLoader, Dataset

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
NUM_BINS = 6


class SurvivalData(Dataset):
    def __init__(self, n, features):
        rng = np.random.default_rng(3)
        self.x = torch.from_numpy(normal(n, features))
        self.time = torch.as_tensor(rng.exponential(2.0, n) + 0.05, dtype=torch.float32)
        self.event = torch.as_tensor(rng.random(n) < 0.7).bool()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {
            "x": self.x[index],
            "time": self.time[index],
            "event": self.event[index],
        }


class Net(nn.Module):
    def __init__(self, in_features, hidden, out):
        super().__init__()
        layers = []
        for h in hidden:
            layers += [
                nn.Linear(in_features, h),
                nn.SELU(inplace=True),
                nn.BatchNorm1d(h),
            ]
            in_features = h
        self.body = nn.Sequential(*layers)
        self.risk = nn.Linear(in_features, 1, bias=False)
        self.hazard = nn.Linear(in_features, out)
        self.weibull = nn.Linear(in_features, 2)

    def forward(self, x):
        h = self.body(x)
        return self.risk(h), self.hazard(h), self.weibull(h)


def cox_ph_loss(log_h, durations, events, eps=1e-7):
    idx = durations.sort(descending=True)[1]
    events = events[idx].float().view(-1)
    log_h = log_h[idx].view(-1)
    gamma = log_h.max()
    log_cumsum_h = log_h.sub(gamma).exp().cumsum(0).add(eps).log().add(gamma)
    other = torch.logcumsumexp(log_h, 0)
    assert torch.allclose(log_cumsum_h, other, atol=1e-4)
    return -log_h.sub(log_cumsum_h).mul(events).sum().div(events.sum())


def efron_loss(log_h, durations, events):
    uniq, inverse, counts = torch.unique(
        durations, sorted=True, return_inverse=True, return_counts=True
    )
    risk = torch.zeros(len(uniq), device=log_h.device).index_add_(
        0, inverse, log_h.exp()
    )
    at_risk = risk.flip(0).cumsum(0).flip(0)
    dead = torch.zeros(len(uniq), device=log_h.device).scatter_add_(
        0, inverse, events.float()
    )
    return (dead * at_risk.log()).sum() / counts.sum() - (log_h * events).mean()


def nll_logistic_hazard(phi, idx_durations, events):
    events = events.float().view(-1, 1)
    idx_durations = idx_durations.view(-1, 1)
    y_bce = torch.zeros_like(phi).scatter(1, idx_durations, events)
    bce = F.binary_cross_entropy_with_logits(phi, y_bce, reduction="none")
    return bce.cumsum(1).gather(1, idx_durations).view(-1).mean()


def deephit_rank(pmf, idx, events, sigma=0.2):
    n = idx.shape[0]
    order = (idx[:, None] < idx[None, :]) | (
        (idx[:, None] == idx[None, :]) & ~events[None, :]
    )
    rank_mat = (order & events[:, None]).float()
    y = torch.zeros_like(pmf)
    y[torch.arange(n), idx] = 1.0
    cif = pmf.cumsum(1)
    r = cif.matmul(y.transpose(0, 1))
    diag = r.diagonal().view(1, -1)
    r = (torch.ones((n, 1), device=r.device).matmul(diag) - r).transpose(0, 1)
    return (rank_mat * torch.exp(-r / sigma)).mean(1, keepdim=True).mean()


def concordance(risk, time, event):
    first = (time[:, None] < time[None]) & event[:, None]
    higher = (risk[:, None] > risk[None]).double() + 0.5 * (
        risk[:, None] == risk[None]
    ).double()
    return (higher[first].sum() / first.sum()).item()


def kaplan_meier(time, event):
    order = torch.argsort(time)
    d = event[order].to(torch.float64)
    n = torch.arange(len(time), 0, -1, dtype=torch.float64, device=time.device)
    return torch.cumprod(1 - d / n, dim=0)


class Hawkes(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.ParameterDict(
            {
                k: nn.Parameter(torch.tensor(v))
                for k, v in {"mu": 0.1, "alpha": -0.5, "beta": 0.3}.items()
            }
        )

    def forward(self, t, T):
        mu, alpha, beta = (F.softplus(self.raw[k]) for k in ("mu", "alpha", "beta"))
        dt = t[:, None] - t[None, :]
        mask = torch.ones_like(dt, dtype=torch.bool).tril(-1)
        kernel = torch.where(
            mask, (-beta * dt.masked_fill(~mask, 0.0)).exp(), torch.zeros_like(dt)
        )
        intensity = mu + alpha * kernel.sum(-1)
        compensator = mu * T + (alpha / beta) * torch.sum(-torch.expm1(-beta * (T - t)))
        return -(intensity.log().sum() - compensator)


def train(steps):
    torch.manual_seed(0)
    data = SurvivalData(40, 5)
    loader = DataLoader(data, batch_size=20, shuffle=False, drop_last=True)
    net = seeded(Net(5, [8, 8], NUM_BINS)).to(device)
    hawkes = Hawkes().to(device)
    cuts = torch.quantile(data.time, torch.linspace(0, 1, NUM_BINS)[1:-1]).to(device)
    optimizer = torch.optim.NAdam(
        [*net.parameters(), *hawkes.parameters()], lr=0.01, weight_decay=1e-4
    )
    arrivals = (
        torch.from_numpy(np.cumsum(np.random.default_rng(8).exponential(0.4, 15)))
        .float()
        .to(device)
    )
    losses = []
    iterator = iter(loader)
    for _ in range(steps):
        try:
            batch = next(iterator)
        except StopIteration:
            iterator = iter(loader)
            batch = next(iterator)
        x, time, event = (batch[k].to(device) for k in ("x", "time", "event"))
        idx = torch.bucketize(time, cuts, right=True)
        risk, phi, raw = net(x)
        k, lam = F.softplus(raw).add(1e-3).unbind(-1)
        law = Weibull(lam, k)
        full = torch.where(event, law.log_prob(time), -((time / lam) ** k)).mean()
        pmf = F.softmax(F.pad(phi, (0, 1)), dim=1)[:, :-1]
        prior = Exponential(torch.tensor(1.0, device=device)).log_prob(lam).mean()
        prior = prior + LogNormal(0.0, 1.0).log_prob(k).mean()
        parts = [
            cox_ph_loss(risk, time, event),
            efron_loss(risk.squeeze(-1), time.round(decimals=1), event),
            nll_logistic_hazard(phi, idx, event),
            0.5 * deephit_rank(pmf, idx, event),
            -full,
            -0.01 * prior,
            0.05 * hawkes(arrivals, arrivals[-1] + 0.5),
        ]
        loss = torch.stack([p.squeeze() for p in parts]).sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), clip_value=1.0)
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.inference_mode():
        risk, phi, _ = net(data.x.to(device))
        surv = (1 - phi.sigmoid()).add(1e-7).log().cumsum(1).exp()
        losses.append(
            concordance(
                risk.flatten().round(decimals=3),
                data.time.to(device),
                data.event.to(device),
            )
        )
        losses.append(torch.trapezoid(surv.mean(0)).item())
    losses += kaplan_meier(data.time, data.event)[::10].tolist()
    return losses
