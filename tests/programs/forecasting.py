"""TCN with weight norm, N-BEATS, DeepAR, DLinear decomposition, on windows by unfold."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import weight_norm
from torch.utils.data import DataLoader, TensorDataset

from tests.programs.seeding import seeded

device = torch.device("cpu")


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, i, o, k, dilation):
        super().__init__()
        p = (k - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(i, o, k, padding=p, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(o, o, k, padding=p, dilation=dilation))
        self.net = nn.Sequential(
            self.conv1,
            Chomp1d(p),
            nn.ReLU(),
            nn.Dropout(0.0),
            self.conv2,
            Chomp1d(p),
            nn.ReLU(),
        )
        self.downsample = nn.Conv1d(i, o, 1) if i != o else None

    def forward(self, x):
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return F.relu(out + res)


class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.tcn = nn.Sequential(
            *[TemporalBlock(1 if i == 0 else 6, 6, 2, 2**i) for i in range(3)]
        )
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return self.linear(self.tcn(x.unsqueeze(1))[:, :, -1])


class NBeatsBlock(nn.Module):
    def __init__(self, back, fore, width=12, kind="generic"):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(back, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.kind = kind
        if kind == "trend":
            self.theta = nn.Linear(width, 6, bias=False)
            t = torch.linspace(0, 1, back + fore)
            self.register_buffer("T", torch.stack([t**i for i in range(3)], 0))
        else:
            self.theta = nn.Linear(width, back + fore)
        self.back = back

    def forward(self, x):
        th = self.theta(self.fc(x))
        if self.kind == "trend":
            b, f = th.chunk(2, dim=-1)
            return b.mm(self.T[:, : self.back]), f.mm(self.T[:, self.back :])
        return th[..., : self.back], th[..., self.back :]


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList(
            [NBeatsBlock(12, 4, kind="trend"), NBeatsBlock(12, 4), NBeatsBlock(12, 4)]
        )

    def forward(self, x):
        forecast = torch.zeros(x.size(0), 4, device=x.device)
        for s in self.stacks:
            b, f = s(x)
            x = x - b
            forecast = forecast + f
        return forecast


class DeepAR(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(1, 8)
        self.mu, self.sigma = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, y):
        b = x.size(0)
        h, c = x.new_zeros(b, 8), x.new_zeros(b, 8)
        seq, loss = torch.cat([x, y], 1), 0
        for t in range(seq.size(1) - 1):
            h, c = self.cell(seq[:, t : t + 1], (h, c))
            d = torch.distributions.StudentT(
                5.0, self.mu(h), F.softplus(self.sigma(h)) + 1e-3
            )
            loss = loss - d.log_prob(seq[:, t + 1 : t + 2]).mean()
        return loss / seq.size(1)


class DLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.avg = nn.AvgPool1d(kernel_size=5, stride=1, padding=0)
        self.s, self.t = nn.Linear(12, 4), nn.Linear(12, 4)
        self.s.weight = nn.Parameter((1 / 12) * torch.ones([4, 12]))

    def forward(self, x):
        front, end = x[:, :1].repeat(1, 2), x[:, -1:].repeat(1, 2)
        trend = self.avg(torch.cat([front, x, end], dim=1).unsqueeze(1)).squeeze(1)
        return self.s(x - trend) + self.t(trend)


def smape(p, t):
    return 200 * ((p - t).abs() / (p.abs() + t.abs() + 1e-6)).mean()


def train(steps):
    t = torch.arange(60, dtype=torch.float32)
    series = torch.sin(t / 3) + 0.02 * t
    windows = series.unfold(0, 16, 2)
    x, y = windows[:, :12].contiguous(), windows[:, 12:].contiguous()
    mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True)
    x, y = (x - mean) / (std + 1e-5), (y - mean) / (std + 1e-5)
    loader = DataLoader(
        TensorDataset(x, y),
        batch_size=8,
        shuffle=False,
        num_workers=0,
        pin_memory=False,
    )
    losses = []
    for model in (TCN(), NBeats(), DeepAR(), DLinear()):
        seeded(model).to(device)
        opt = torch.optim.Adam(model.parameters(), lr=2e-3)
        sched = torch.optim.lr_scheduler.ReduceLROnPlateau(
            opt, mode="min", factor=0.5, patience=0, threshold=0.5
        )
        for epoch in range(2):
            running = 0.0
            for xb, yb in loader:
                xb, yb = (
                    xb.to(device, non_blocking=True),
                    yb.to(device, non_blocking=True),
                )
                opt.zero_grad()
                if isinstance(model, DeepAR):
                    loss = model(xb, yb)
                else:
                    out = model(xb)
                    loss = F.mse_loss(out, yb) + 0.01 * F.smooth_l1_loss(
                        out, yb, beta=0.5
                    )
                loss.backward()
                nn.utils.clip_grad_norm_(
                    model.parameters(), 0.5, norm_type=float("inf")
                )
                opt.step()
                running += loss.item() * xb.size(0)
                losses.append(loss.item())
            sched.step(running / len(loader.dataset))
            print(
                type(model).__name__,
                f"{running / len(loader.dataset):.4f}",
                opt.param_groups[0]["lr"],
            )
    with torch.no_grad():
        losses.append(smape(model(x.to(device)), y.to(device)).item())
    return losses
