"""Glow: actnorm with data-dependent initialisation, LU-decomposed 1x1 convolutions, squeeze, split, bits per dimension."""

from math import log, pi
import numpy as np
from scipy import linalg as la
import torch
from torch import nn
from torch.nn import functional as F
from tests.programs.seeding import normal

device = torch.device("cpu")
logabs = lambda x: torch.log(torch.abs(x))


class ActNorm(nn.Module):
    def __init__(self, in_channel, logdet=True):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, in_channel, 1, 1))
        self.scale = nn.Parameter(torch.ones(1, in_channel, 1, 1))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))
        self.logdet = logdet

    def initialize(self, input):
        with torch.no_grad():
            flatten = input.permute(1, 0, 2, 3).contiguous().view(input.shape[1], -1)
            mean = (
                flatten.mean(1)
                .unsqueeze(1)
                .unsqueeze(2)
                .unsqueeze(3)
                .permute(1, 0, 2, 3)
            )
            std = (
                flatten.std(1)
                .unsqueeze(1)
                .unsqueeze(2)
                .unsqueeze(3)
                .permute(1, 0, 2, 3)
            )
            self.loc.data.copy_(-mean)
            self.scale.data.copy_(1 / (std + 1e-6))

    def forward(self, input):
        _, _, height, width = input.shape
        if self.initialized.item() == 0:
            self.initialize(input)
            self.initialized.fill_(1)
        logdet = height * width * torch.sum(logabs(self.scale))
        return self.scale * (input + self.loc), logdet

    def reverse(self, output):
        return output / self.scale - self.loc


class InvConv2dLU(nn.Module):
    def __init__(self, in_channel):
        super().__init__()
        weight = normal(in_channel, in_channel, seed=in_channel).astype(np.float64)
        q, _ = la.qr(weight)
        w_p, w_l, w_u = la.lu(q.astype(np.float32))
        w_s = np.diag(w_u)
        w_u = np.triu(w_u, 1)
        u_mask = np.triu(np.ones_like(w_u), 1)
        l_mask = u_mask.T
        w_p = torch.from_numpy(w_p)
        w_l = torch.from_numpy(w_l)
        w_s = torch.from_numpy(w_s.copy())
        w_u = torch.from_numpy(w_u)
        self.register_buffer("w_p", w_p.float())
        self.register_buffer("u_mask", torch.from_numpy(u_mask))
        self.register_buffer("l_mask", torch.from_numpy(l_mask))
        self.register_buffer("s_sign", torch.sign(w_s))
        self.register_buffer("l_eye", torch.eye(l_mask.shape[0]))
        self.w_l = nn.Parameter(w_l)
        self.w_s = nn.Parameter(logabs(w_s))
        self.w_u = nn.Parameter(w_u)

    def forward(self, input):
        _, _, height, width = input.shape
        weight = self.calc_weight()
        out = F.conv2d(input, weight)
        return out, height * width * torch.sum(self.w_s)

    def calc_weight(self):
        weight = (
            self.w_p
            @ (self.w_l * self.l_mask + self.l_eye)
            @ ((self.w_u * self.u_mask) + torch.diag(self.s_sign * torch.exp(self.w_s)))
        )
        return weight.unsqueeze(2).unsqueeze(3)

    def reverse(self, output):
        return F.conv2d(
            output, self.calc_weight().squeeze().inverse().unsqueeze(2).unsqueeze(3)
        )


class InvConv2d(nn.Module):
    def __init__(self, in_channel):
        super().__init__()
        q, _ = torch.linalg.qr(torch.from_numpy(normal(in_channel, in_channel, seed=8)))
        self.weight = nn.Parameter(q.unsqueeze(2).unsqueeze(3))

    def forward(self, input):
        h, w = input.shape[2:]
        return F.conv2d(input, self.weight), h * w * torch.slogdet(
            self.weight.squeeze().double()
        )[1].float()

    def reverse(self, y):
        return F.conv2d(y, self.weight.squeeze().inverse().unsqueeze(2).unsqueeze(3))


class ZeroConv2d(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=0)
        self.conv.weight.data.zero_()
        self.conv.bias.data.zero_()
        self.scale = nn.Parameter(torch.zeros(1, o, 1, 1))

    def forward(self, input):
        out = F.pad(input, [1, 1, 1, 1], value=1)
        return self.conv(out) * torch.exp(self.scale * 3)


class AffineCoupling(nn.Module):
    def __init__(self, c, f=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(c // 2, f, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(f, f, 1),
            nn.ReLU(inplace=True),
            ZeroConv2d(f, c),
        )
        self.net[0].weight.data.copy_(
            torch.from_numpy(normal(*self.net[0].weight.shape)) * 0.05
        )
        self.net[0].bias.data.zero_()
        self.net[2].weight.data.copy_(
            torch.from_numpy(normal(f, f, 1, 1, seed=3)) * 0.05
        )
        self.net[2].bias.data.zero_()

    def forward(self, input):
        in_a, in_b = input.chunk(2, 1)
        log_s, t = self.net(in_a).chunk(2, 1)
        s = F.sigmoid(log_s + 2)
        out_b = (in_b + t) * s
        return torch.cat([in_a, out_b], 1), torch.sum(
            torch.log(s).view(input.shape[0], -1), 1
        )

    def reverse(self, output):
        out_a, out_b = output.chunk(2, 1)
        log_s, t = self.net(out_a).chunk(2, 1)
        return torch.cat([out_a, out_b / F.sigmoid(log_s + 2) - t], 1)


class Flow(nn.Module):
    def __init__(self, c, lu):
        super().__init__()
        self.actnorm, self.invconv, self.coupling = (
            ActNorm(c),
            InvConv2dLU(c) if lu else InvConv2d(c),
            AffineCoupling(c),
        )

    def forward(self, x):
        out, logdet = self.actnorm(x)
        out, d1 = self.invconv(out)
        out, d2 = self.coupling(out)
        logdet = logdet + d1
        return out, logdet + d2 if d2 is not None else logdet

    def reverse(self, y):
        return self.actnorm.reverse(self.invconv.reverse(self.coupling.reverse(y)))


def gaussian_log_p(x, mean, log_sd):
    return -0.5 * log(2 * pi) - log_sd - 0.5 * (x - mean) ** 2 / torch.exp(2 * log_sd)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.flows = nn.ModuleList([Flow(c * 4, lu) for lu in (True, False)])
        self.prior = ZeroConv2d(c * 2, c * 4)

    def forward(self, input):
        b, c, h, w = input.shape
        out = (
            input.view(b, c, h // 2, 2, w // 2, 2)
            .permute(0, 1, 3, 5, 2, 4)
            .contiguous()
            .view(b, c * 4, h // 2, w // 2)
        )
        logdet = 0
        for flow in self.flows:
            out, det = flow(out)
            logdet = logdet + det
        out, z = out.chunk(2, 1)
        mean, log_sd = self.prior(out).chunk(2, 1)
        log_p = gaussian_log_p(z, mean, log_sd).view(b, -1).sum(1)
        return (
            out,
            logdet,
            log_p
            + gaussian_log_p(out, torch.zeros_like(out), torch.zeros_like(out)).sum(
                (1, 2, 3)
            ),
            z,
        )


def train(steps):
    model = Block(2).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = torch.from_numpy(normal(4, 2, 4, 4)).to(device)
    n_pixel, n_bins = 32, 2.0**5
    image = torch.floor(data.sigmoid() * 255 / 2**3) / n_bins - 0.5
    with torch.no_grad():
        model(image)
    out = []
    for i in range(steps):
        o, logdet, log_p, z = model(
            image
            + torch.from_numpy(normal(4, 2, 4, 4, seed=i)).to(device).mul(1 / n_bins)
        )
        logdet = logdet.mean()
        loss = (-(-log(n_bins) * n_pixel + logdet + log_p) / (log(2) * n_pixel)).mean()
        model.zero_grad()
        loss.backward()
        for g in opt.param_groups:
            g["lr"] = 1e-3 * min(1, (i + 1) / 5)
        opt.step()
        out += [loss.item(), logdet.item()]
    with torch.no_grad():
        x = (
            image.view(4, 2, 2, 2, 2, 2)
            .permute(0, 1, 3, 5, 2, 4)
            .contiguous()
            .view(4, 8, 2, 2)
        )
        back = model.flows[0].reverse(model.flows[0](x)[0])
    return out + [torch.allclose(back, x, atol=1e-4)]
