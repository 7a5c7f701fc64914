"""Mixture density recurrent network, ConvLSTM cell, straight-through Gumbel categories, KL balancing."""

import torch
import torch.distributions as td
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class ConvLSTMCell(nn.Module):
    def __init__(self, cin, hidden):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(cin + hidden, 4 * hidden, (3, 3), padding=(1, 1))

    def forward(self, x, state):
        h, c = state
        i, f, o, g = torch.split(
            self.conv(torch.cat([x, h], dim=1)), self.hidden, dim=1
        )
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return torch.sigmoid(o) * torch.tanh(c), c

    def init_hidden(self, b, size):
        return (
            torch.zeros(b, self.hidden, *size, device=self.conv.weight.device),
            torch.zeros(b, self.hidden, *size, device=self.conv.weight.device),
        )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = ConvLSTMCell(1, 3)
        self.prior, self.post = nn.Linear(12, 8), nn.Linear(27, 8)
        self.rnn = nn.GRUCell(8, 12)
        self.mdn = nn.Linear(20, 3 * (2 * 2 + 1))

    def forward(self, frames, uniform):
        B, T = frames.shape[:2]
        state, h = self.cell.init_hidden(B, (3, 3)), frames.new_zeros(B, 12)
        kls, nll = [], 0
        for t in range(T):
            state = self.cell(frames[:, t], state)
            prior = td.Independent(
                td.OneHotCategorical(logits=self.prior(h).view(B, 2, 4)), 1
            )
            logits = self.post(state[0].flatten(1)).view(B, 2, 4)
            gumbel = -torch.log(-torch.log(uniform[t]))
            soft = F.softmax((logits + gumbel) / 0.7, dim=-1)
            index = soft.max(-1, keepdim=True)[1]
            hard = torch.zeros_like(logits).scatter_(-1, index, 1.0)
            z = (hard - soft.detach() + soft).flatten(1)
            post = td.Independent(td.OneHotCategorical(logits=logits), 1)
            sg = td.Independent(td.OneHotCategorical(logits=logits.detach()), 1)
            kls.append(
                0.8 * td.kl_divergence(sg, prior) + 0.2 * td.kl_divergence(post, prior)
            )
            h = self.rnn(z, h)
            out = self.mdn(torch.cat([h, z], -1))
            mu, log_sigma, pi = torch.split(out, [6, 6, 3], dim=-1)
            mu, sigma = mu.view(B, 3, 2), log_sigma.view(B, 3, 2).exp()
            mix = td.MixtureSameFamily(
                td.Categorical(logits=pi), td.Independent(td.Normal(mu, sigma), 1)
            )
            nll = nll - mix.log_prob(frames[:, (t + 1) % T, 0, 0, :2])
        return torch.stack(kls), nll


def train(steps):
    model = seeded(Model()).to(device)
    frames = torch.from_numpy(normal(3, 4, 1, 3, 3)).to(device)
    uniform = torch.from_numpy(normal(4, 3, 2, 4, seed=9)).sigmoid().to(device)
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3)
    results = []
    for _ in range(steps // 2):
        kl, nll = model(frames, uniform)
        loss = torch.maximum(kl.mean(), torch.tensor(0.05).to(device)) + nll.mean() / 4
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        results += [loss.item(), kl.mean().item(), nll.std().item()]
    return results
