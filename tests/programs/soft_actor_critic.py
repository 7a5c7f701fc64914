"""Soft actor-critic: a squashed Gaussian, twin critics, soft updates, learnt temperature."""

import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def weights_init_(m):
    if isinstance(m, nn.Linear):
        torch.nn.init.xavier_uniform_(m.weight, gain=1)
        torch.nn.init.constant_(m.bias, 0)


class Actor(nn.Module):
    def __init__(self, action_scale=torch.tensor(2.0), action_bias=torch.tensor(0.5)):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
        self.apply(weights_init_)
        self.action_scale, self.action_bias = action_scale, action_bias

    def sample(self, state, eps):
        mean, log_std = self.net(state).chunk(2, dim=-1)
        log_std = torch.clamp(log_std, min=-20, max=2)
        dist = Normal(mean, log_std.exp())
        x_t = dist.loc + dist.scale * eps
        y_t = torch.tanh(x_t)
        action = y_t * self.action_scale + self.action_bias
        log_prob = dist.log_prob(x_t)
        log_prob -= torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        squashed = TransformedDistribution(dist, [TanhTransform(cache_size=1)])
        return (
            action,
            log_prob.sum(1, keepdim=True),
            squashed.log_prob(y_t.clamp(-0.99, 0.99)).sum(-1),
        )

    def to(self, device):
        self.action_scale, self.action_bias = (
            self.action_scale.to(device),
            self.action_bias.to(device),
        )
        return super().to(device)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        for i in (1, 2):
            setattr(
                self,
                f"q{i}",
                nn.Sequential(nn.Linear(5, 16), nn.Mish(), nn.Linear(16, 1)),
            )

    def forward(self, s, a):
        xu = torch.cat([s, a], 1)
        return self.q1(xu), self.q2(xu)


def soft_update(target, source, tau):
    for target_param, param in zip(target.parameters(), source.parameters()):
        target_param.data.copy_(target_param.data * (1.0 - tau) + param.data * tau)


def train(steps):
    actor, critic = seeded(Actor(), 1).to(device), seeded(Critic(), 2).to(device)
    actor.net[2].weight.data.mul_(0.1)
    target = copy.deepcopy(critic)
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    target_entropy = -torch.prod(torch.Tensor((2,)).to(device)).item()
    opts = [
        torch.optim.Adam(p, lr=3e-3)
        for p in (actor.parameters(), critic.parameters(), [log_alpha])
    ]
    memory = np.concatenate(
        [
            normal(40, 3),
            normal(40, 2, seed=3),
            normal(40, 1, seed=4),
            normal(40, 3, seed=5),
        ],
        1,
    )
    rng, results = np.random.RandomState(0), []
    for step in range(steps):
        batch = torch.FloatTensor(memory[rng.randint(0, 40, size=8)]).to(device)
        s, a, r, s2 = batch.split((3, 2, 1, 3), dim=1)
        mask = (r > -1).float()
        eps = torch.from_numpy(normal(2, 8, 2, seed=step)).to(device)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            a2, logp2, _ = actor.sample(s2, eps[0])
            q_next = torch.min(*target(s2, a2)) - alpha * logp2
            y = r + mask * 0.99 * q_next
        q1, q2 = critic(s, a)
        q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        opts[1].zero_grad()
        q_loss.backward()
        opts[1].step()
        for p in critic.parameters():
            p.requires_grad_(False)
        pi, logp, other = actor.sample(s, eps[1])
        pi_loss = (
            (alpha * logp) - torch.min(*critic(s, pi))
        ).mean() - 1e-3 * other.mean()
        opts[0].zero_grad()
        pi_loss.backward()
        opts[0].step()
        critic.requires_grad_(True)
        alpha_loss = -(log_alpha * (logp + target_entropy).detach()).mean()
        opts[2].zero_grad()
        alpha_loss.backward()
        opts[2].step()
        soft_update(target, critic, 0.05)
        results += [
            q_loss.item(),
            pi_loss.item(),
            alpha_loss.item(),
            float(log_alpha.exp()),
        ]
    return results
