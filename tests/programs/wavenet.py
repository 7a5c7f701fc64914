"""WaveNet: dilated causal convolutions, gates, mu-law, weight norm, a generation queue."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import weight_norm

from tests.programs.seeding import seeded

device = torch.device("cpu")
Q = 16


def mu_law(x, mu=Q - 1):
    x_mu = torch.sign(x) * torch.log1p(mu * torch.abs(x)) / np.log1p(mu)
    return ((x_mu + 1) / 2 * mu + 0.5).long()


def inverse_mu_law(code, mu=Q - 1):
    x = 2 * (code.float() / mu) - 1
    return torch.sign(x) / mu * ((1 + mu) ** torch.abs(x) - 1)


class CausalConv1d(nn.Conv1d):
    def __init__(self, in_channels, out_channels, kernel_size, dilation=1, **kwargs):
        self.__padding = (kernel_size - 1) * dilation
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            padding=self.__padding,
            dilation=dilation,
            **kwargs,
        )

    def forward(self, input):
        result = super().forward(input)
        if self.__padding != 0:
            return result[:, :, : -self.__padding]
        return result


class WaveNet(nn.Module):
    def __init__(self, channels=6, layers=3):
        super().__init__()
        self.input = CausalConv1d(Q, channels, 2)
        self.filters, self.gates = nn.ModuleList(), nn.ModuleList()
        self.residual, self.skip = nn.ModuleList(), nn.ModuleList()
        for i in range(layers):
            self.filters.append(CausalConv1d(channels, channels, 2, dilation=2**i))
            self.gates.append(
                CausalConv1d(channels, channels, 2, dilation=2**i, bias=False)
            )
            self.residual.append(nn.Conv1d(channels, channels, 1))
            self.skip.append(nn.Conv1d(channels, 8, kernel_size=1))
        self.end = nn.Sequential(
            nn.ReLU(), weight_norm(nn.Conv1d(8, 8, 1)), nn.ReLU(), nn.Conv1d(8, Q, 1)
        )

    def forward(self, x):
        x, skips = self.input(x), 0
        for f, g, r, s in zip(self.filters, self.gates, self.residual, self.skip):
            h = torch.tanh(f(x)) * torch.sigmoid(g(x))
            skips = skips + s(h)
            x = (x + r(h)) * np.sqrt(0.5)
        return self.end(skips)


def train(steps):
    t = torch.arange(0, 33, dtype=torch.float32)
    wave = torch.stack([torch.sin(t * f) for f in (0.3, 0.41, 0.7)]) * 0.9
    codes = mu_law(wave).to(device)
    results = inverse_mu_law(codes).sum(1).tolist()
    model = seeded(WaveNet()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    for _ in range(steps):
        one_hot = F.one_hot(codes[:, :-1], num_classes=Q).transpose(1, 2).float()
        logits = model(one_hot)
        loss = F.cross_entropy(logits, codes[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        results.append(loss.item())
    model.eval()
    generated = codes[:1, :4].clone()
    with torch.no_grad():
        for _ in range(6):
            x = torch.zeros(1, Q, generated.size(1), device=device).scatter_(
                1, generated.unsqueeze(1), 1.0
            )
            generated = torch.cat(
                (generated, model(x)[:, :, -1].argmax(1, keepdim=True)), dim=1
            )
    torch.nn.utils.remove_weight_norm(model.end[1])
    results.append(F.cross_entropy(model(one_hot), codes[:, 1:]).item())
    return results + generated.float().view(-1).tolist()
