"""A Fourier neural operator: complex weights, rfft2, relative Lp loss, a unit normalizer, Adam on complex."""

import operator
from functools import reduce
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from tests.programs.seeding import normal

device = torch.device("cpu")


class SpectralConv2d(nn.Module):
    def __init__(self, in_channels, out_channels, modes1, modes2):
        super(SpectralConv2d, self).__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.modes1, self.modes2 = modes1, modes2
        self.scale = 1 / (in_channels * out_channels)
        rng = np.random.default_rng(9)

        def weight():
            w = rng.random((in_channels, out_channels, modes1, modes2, 2)).astype(
                np.float32
            )
            return nn.Parameter(self.scale * torch.view_as_complex(torch.tensor(w)))

        self.weights1, self.weights2 = weight(), weight()

    def compl_mul2d(self, input, weights):
        return torch.einsum("bixy,ioxy->boxy", input, weights)

    def forward(self, x):
        batchsize = x.shape[0]
        x_ft = torch.fft.rfft2(x)
        out_ft = torch.zeros(
            batchsize,
            self.out_channels,
            x.size(-2),
            x.size(-1) // 2 + 1,
            dtype=torch.cfloat,
            device=x.device,
        )
        out_ft[:, :, : self.modes1, : self.modes2] = self.compl_mul2d(
            x_ft[:, :, : self.modes1, : self.modes2], self.weights1
        )
        out_ft[:, :, -self.modes1 :, : self.modes2] = self.compl_mul2d(
            x_ft[:, :, -self.modes1 :, : self.modes2], self.weights2
        )
        return torch.fft.irfft2(out_ft, s=(x.size(-2), x.size(-1)))


class FNO2d(nn.Module):
    def __init__(self, modes, width):
        super().__init__()
        self.padding = 2
        self.p = nn.Linear(3, width)
        self.convs = nn.ModuleList(
            SpectralConv2d(width, width, modes, modes) for _ in range(2)
        )
        self.ws = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))
        self.norm = nn.InstanceNorm2d(width)
        self.q = nn.Sequential(
            nn.Conv2d(width, width * 2, 1), nn.GELU(), nn.Conv2d(width * 2, 1, 1)
        )

    def get_grid(self, shape, device):
        b, sx, sy = shape[0], shape[1], shape[2]
        gridx = torch.tensor(np.linspace(0, 1, sx), dtype=torch.float)
        gridx = gridx.reshape(1, sx, 1, 1).repeat([b, 1, sy, 1])
        gridy = torch.tensor(np.linspace(0, 1, sy), dtype=torch.float)
        gridy = gridy.reshape(1, 1, sy, 1).repeat([b, sx, 1, 1])
        return torch.cat((gridx, gridy), dim=-1).to(device)

    def forward(self, x):
        x = torch.cat((x, self.get_grid(x.shape, x.device)), dim=-1)
        x = self.p(x).permute(0, 3, 1, 2)
        x = F.pad(x, [0, self.padding, 0, self.padding])
        for i, (conv, w) in enumerate(zip(self.convs, self.ws)):
            x = self.norm(conv(self.norm(x))) + w(x)
            if i + 1 < len(self.ws):
                x = F.gelu(x)
        x = x[..., : -self.padding, : -self.padding]
        return self.q(x).permute(0, 2, 3, 1)


class LpLoss(object):
    def __init__(self, d=2, p=2):
        self.d, self.p = d, p

    def rel(self, x, y):
        n = x.size()[0]
        diff = torch.norm(x.reshape(n, -1) - y.reshape(n, -1), self.p, 1)
        return torch.sum(diff / torch.norm(y.reshape(n, -1), self.p, 1))

    def __call__(self, x, y):
        return self.rel(x, y)


class UnitGaussianNormalizer:
    def __init__(self, x, eps=1e-5):
        self.mean, self.std, self.eps = torch.mean(x, 0), torch.std(x, 0), eps

    def encode(self, x):
        return (x - self.mean) / (self.std + self.eps)

    def decode(self, x):
        return x * (self.std + self.eps) + self.mean

    def to(self, d):
        self.mean, self.std = self.mean.to(d), self.std.to(d)
        return self


def count_params(model):
    c = 0
    for p in list(model.parameters()):
        c += reduce(operator.mul, list(p.size() + (2,) if p.is_complex() else p.size()))
    return c


def train(steps):
    x = torch.from_numpy(normal(8, 6, 6, 1))
    y = torch.from_numpy(normal(8, 6, 6, seed=4)).cumsum(1)
    xn, yn = UnitGaussianNormalizer(x), UnitGaussianNormalizer(y)
    x, y = xn.encode(x), yn.encode(y)
    loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=False)
    model = FNO2d(2, 4)
    for name, p in model.named_parameters():
        if not p.is_complex():
            p.data.copy_(torch.from_numpy(normal(*p.shape, seed=len(name))) * 0.3)
    model.to(device)
    yn.to(device)
    out = [count_params(model)]
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    myloss = LpLoss()
    for ep in range(steps // 2):
        model.train()
        for xx, yy in loader:
            xx, yy = xx.to(device), yy.to(device)
            opt.zero_grad()
            pred = model(xx).reshape(4, 6, 6)
            pred, yy = yn.decode(pred), yn.decode(yy)
            loss = myloss(pred.view(4, -1), yy.view(4, -1))
            loss.backward()
            opt.step()
            out.append(loss.item())
        sched.step()
    spectrum = torch.fft.fftshift(torch.fft.fft2(pred.detach())).abs().log1p()
    return (
        out
        + spectrum[0, :2].flatten().tolist()
        + [model.convs[0].weights1.grad.abs().sum().item()]
    )
