"""Offline reinforcement learning: CQL and IQL on stored transitions, expectiles, vectorised critics, importance weights, polyak averages."""

import torch
from torch import nn
from torch.distributions import (
    Categorical,
    Independent,
    Normal,
    TanhTransform,
    TransformedDistribution,
)
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class VectorizedLinear(nn.Module):
    def __init__(self, into, out, ensemble):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(ensemble, into, out))
        self.bias = nn.Parameter(torch.empty(ensemble, 1, out))
        for layer in range(ensemble):
            nn.init.kaiming_uniform_(self.weight[layer], a=5**0.5)
        bound = into**-0.5
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        return x @ self.weight + self.bias

    def extra_repr(self):
        return f"ensemble={self.weight.shape[0]}"


class Critics(nn.Module):
    def __init__(self, state, action, hidden=8, number=3):
        super().__init__()
        self.number = number
        self.net = nn.Sequential(
            VectorizedLinear(state + action, hidden, number),
            nn.Softsign(),
            VectorizedLinear(hidden, 1, number),
        )

    def forward(self, state, action):
        both = torch.cat([state, action], -1)
        if both.dim() == 2:
            both = both.unsqueeze(0).repeat_interleave(self.number, dim=0)
        return self.net(both).squeeze(-1)


def asymmetric_l2(u, tau):
    return torch.mean(torch.abs(tau - (u < 0).float()) * u**2)


def soft_update(target, source, tau):
    for target_param, source_param in zip(target.parameters(), source.parameters()):
        target_param.data.copy_((1 - tau) * target_param.data + tau * source_param.data)


def train(steps):
    n = 32
    arrays = [
        normal(n, 3),
        normal(n, 2, seed=2).clip(-2, 2) / 2.1,
        normal(n, seed=3),
        normal(n, 3, seed=4),
    ]
    data = TensorDataset(
        *map(torch.from_numpy, arrays), torch.from_numpy(integers(2, n)).bool()
    )
    loader = DataLoader(data, batch_size=8)
    critics, target = (
        seeded(Critics(3, 2)).to(device),
        seeded(Critics(3, 2)).to(device).requires_grad_(False),
    )
    value = seeded(
        nn.Sequential(nn.Linear(3, 8), nn.Hardswish(), nn.Linear(8, 1), nn.Flatten(0)),
        1,
    ).to(device)
    actor = seeded(nn.Sequential(nn.Linear(3, 8), nn.CELU(0.5), nn.Linear(8, 4)), 2).to(
        device
    )
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    groups = [
        {"params": m.parameters(), "lr": lr}
        for m, lr in ((critics, 3e-3), (value, 1e-3), (actor, 2e-3))
    ]
    optimizer = torch.optim.Adam([*groups, {"params": [log_alpha], "lr": 1e-2}])
    results = []
    stored = iter(loader)
    for step in range(steps):
        try:
            batch = next(stored)
        except StopIteration:
            stored = iter(loader)
            batch = next(stored)
        s, a, r, s2, done = (each.to(device) for each in batch)
        with torch.no_grad():
            q = target(s, a).amin(0)
            next_v = value(s2)
        v = value(s)
        adv = q - v
        value_loss = asymmetric_l2(adv, 0.7)
        goal = r + (~done).float() * 0.99 * next_v
        preds = critics(s, a)
        critic_loss = (
            F.huber_loss(preds, goal.detach().expand_as(preds), reduction="none")
            .mean(1)
            .sum()
        )
        others = torch.from_numpy(normal(5, 8, 2, seed=70 + step)).to(device).tanh()
        spread = torch.stack([critics(s, each) for each in others], 1)
        gap = torch.logsumexp(torch.cat([spread, preds.unsqueeze(1)], 1), 1) - preds
        conservative = log_alpha.exp().clamp(0, 100) * (gap.mean() - 1.0)
        mean, log_std = actor(s).chunk(2, -1)
        policy = TransformedDistribution(
            Independent(Normal(mean, log_std.clamp(-5, 1).exp()), 1),
            TanhTransform(cache_size=1),
        )
        weight = torch.exp(3.0 * adv.detach()).clamp(max=100.0)
        actor_loss = -(weight * policy.log_prob(a.clamp(-0.999, 0.999))).mean()
        loss = value_loss + critic_loss + actor_loss
        optimizer.zero_grad(set_to_none=True)
        (loss + conservative).backward(retain_graph=False)
        log_alpha.grad.neg_()
        optimizer.step()
        soft_update(target, critics, 0.05)
        results += [loss.item(), conservative.item(), weight.max().item()]
    with torch.no_grad():
        logits = critics(s, a).t()
        choice = Categorical(logits=logits)
        results += [
            choice.entropy().mean().item(),
            choice.log_prob(logits.argmin(-1)).sum().item(),
            log_alpha.item(),
        ]
    results.append(float("ensemble=3" in repr(critics)))
    return results
