"""Noisy, duelling, distributional Q-learning with prioritised replay and a projected target."""

import math
import random

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
ATOMS = 7


class NoisyLinear(nn.Module):
    def __init__(self, in_features, out_features, std_init=0.4):
        super().__init__()
        self.in_features, self.out_features, self.std_init = (
            in_features,
            out_features,
            std_init,
        )
        self.weight_mu = nn.Parameter(torch.empty(out_features, in_features))
        self.weight_sigma = nn.Parameter(torch.empty(out_features, in_features))
        self.register_buffer("weight_epsilon", torch.empty(out_features, in_features))
        self.bias_mu, self.bias_sigma = (
            nn.Parameter(torch.empty(out_features)),
            nn.Parameter(torch.empty(out_features)),
        )
        self.register_buffer("bias_epsilon", torch.empty(out_features))
        self.rng = np.random.RandomState(in_features)
        mu_range = 1 / math.sqrt(in_features)
        self.weight_mu.data.uniform_(-mu_range, mu_range)
        self.weight_sigma.data.fill_(std_init / math.sqrt(in_features))
        self.reset_noise()

    def _scale_noise(self, size):
        x = torch.from_numpy(self.rng.randn(size).astype(np.float32)).to(
            self.weight_mu.device
        )
        return x.sign().mul_(x.abs().sqrt_())

    def reset_noise(self):
        epsilon_in, epsilon_out = (
            self._scale_noise(self.in_features),
            self._scale_noise(self.out_features),
        )
        self.weight_epsilon.copy_(epsilon_out.ger(epsilon_in))
        self.bias_epsilon.copy_(epsilon_out)

    def forward(self, input):
        if self.training:
            return F.linear(
                input,
                self.weight_mu + self.weight_sigma * self.weight_epsilon,
                self.bias_mu + self.bias_sigma * self.bias_epsilon,
            )
        return F.linear(input, self.weight_mu, self.bias_mu)


class DQN(nn.Module):
    def __init__(self, actions=3):
        super().__init__()
        self.actions = actions
        self.convs = nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=0), nn.ReLU())
        self.fc_h_v, self.fc_h_a = NoisyLinear(36, 8), NoisyLinear(36, 8)
        self.fc_z_v, self.fc_z_a = (
            NoisyLinear(8, ATOMS),
            NoisyLinear(8, actions * ATOMS),
        )

    def forward(self, x, log=False):
        x = self.convs(x)
        x = x.view(-1, 36)
        v, a = self.fc_z_v(F.relu(self.fc_h_v(x))), self.fc_z_a(F.relu(self.fc_h_a(x)))
        v, a = v.view(-1, 1, ATOMS), a.view(-1, self.actions, ATOMS)
        q = v + a - a.mean(1, keepdim=True)
        return F.log_softmax(q, dim=2) if log else F.softmax(q, dim=2)

    def reset_noise(self):
        for name, module in self.named_children():
            if "fc" in name:
                module.reset_noise()


def train(steps):
    random.seed(1)
    online, target = seeded(DQN(), 1), DQN()
    for m in online.modules():
        if isinstance(m, NoisyLinear):
            m.weight_sigma.data.fill_(0.1)
    online, target = online.to(device=device), target.to(device=device)
    online.train()
    target.load_state_dict(online.state_dict())
    for param in target.parameters():
        param.requires_grad = False
    Vmin, Vmax = -2, 2
    support = torch.linspace(Vmin, Vmax, ATOMS).to(device=device)
    delta_z = (Vmax - Vmin) / (ATOMS - 1)
    optimiser = optim.Adam(online.parameters(), lr=1e-3, eps=1.5e-4)
    data = torch.from_numpy(normal(20, 2, 8, 8))
    priorities = np.ones(20)
    rng, results, B = np.random.RandomState(0), [], 5
    for step in range(steps // 2):
        probs = priorities / priorities.sum()
        idxs = rng.choice(20, B, p=probs, replace=False)
        weights = torch.tensor(
            (20 * probs[idxs]) ** -0.4, dtype=torch.float32, device=device
        )
        weights /= weights.max()
        states = data[idxs].to(dtype=torch.float32, device=device).div_(2)
        next_states = data[(idxs + 1) % 20].to(device).div(2)
        actions = torch.tensor(
            [int(i) % 3 for i in idxs], dtype=torch.int64, device=device
        )
        returns = torch.tensor(idxs / 10 - 1, dtype=torch.float32).to(device)
        nonterminals = torch.tensor(
            [[i % 5 != 0] for i in idxs], dtype=torch.float32, device=device
        )
        log_ps_a = online(states, log=True)[range(B), actions]
        with torch.no_grad():
            pns = online(next_states)
            dns = support.expand_as(pns) * pns
            argmax_indices_ns = dns.sum(2).argmax(1)
            target.reset_noise()
            pns_a = target(next_states)[range(B), argmax_indices_ns]
            Tz = returns.unsqueeze(1) + nonterminals * (0.99**3) * support.unsqueeze(0)
            Tz = Tz.clamp(min=Vmin, max=Vmax)
            b = (Tz - Vmin) / delta_z
            low, high = b.floor().to(torch.int64), b.ceil().to(torch.int64)
            low[(high > 0) * (low == high)] -= 1
            high[(low < (ATOMS - 1)) * (low == high)] += 1
            m = states.new_zeros(B, ATOMS)
            offset = (
                torch.linspace(0, ((B - 1) * ATOMS), B)
                .unsqueeze(1)
                .expand(B, ATOMS)
                .to(actions)
            )
            m.view(-1).index_add_(
                0, (low + offset).view(-1), (pns_a * (high.float() - b)).view(-1)
            )
            m.view(-1).index_add_(
                0, (high + offset).view(-1), (pns_a * (b - low.float())).view(-1)
            )
        loss = -torch.sum(m * log_ps_a, 1)
        online.zero_grad()
        (weights * loss).mean().backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimiser.step()
        online.reset_noise()
        priorities[idxs] = np.power(loss.detach().cpu().numpy(), 0.5)
        results += loss.tolist() + [m.sum().item()]
        if step % 4 == 3:
            target.load_state_dict(online.state_dict())
    return results
