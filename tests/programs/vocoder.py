"""A HiFi-GAN-like vocoder: weight-normed upsampling, period and scale critics, mel and STFT losses, Griffin-Lim."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import AvgPool1d, Conv1d, Conv2d, ConvTranspose1d
from torch.nn.utils import remove_weight_norm, spectral_norm, weight_norm

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")
LRELU_SLOPE = 0.1


class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super(AttrDict, self).__init__(*args, **kwargs)
        self.__dict__ = self


h = AttrDict(
    n_fft=32, hop_size=8, win_size=32, num_mels=8, sampling_rate=8000, fmin=0, fmax=4000
)


def mel_basis(sr, n_fft, n_mels, fmin, fmax):
    mels = torch.linspace(
        1127 * math.log1p(fmin / 700),
        1127 * math.log1p(fmax / 700),
        n_mels + 2,
        dtype=torch.float64,
    )
    freqs = 700 * torch.expm1(mels / 1127)
    bins = torch.linspace(0, sr / 2, n_fft // 2 + 1, dtype=torch.float64)
    down = (bins - freqs[:-2, None]) / (freqs[1:-1] - freqs[:-2])[:, None]
    up = (freqs[2:, None] - bins) / (freqs[2:] - freqs[1:-1])[:, None]
    return torch.maximum(
        torch.zeros(1, dtype=torch.float64), torch.minimum(down, up)
    ).float()


_cache = {}


def mel_spectrogram(y, center=False):
    key = str(h.fmax) + "_" + str(y.device)
    if key not in _cache:
        _cache[key] = mel_basis(
            h.sampling_rate, h.n_fft, h.num_mels, h.fmin, h.fmax
        ).to(y.device)
        _cache[str(y.device)] = torch.hann_window(h.win_size).to(y.device)
    pad = int((h.n_fft - h.hop_size) / 2)
    y = F.pad(y.unsqueeze(1), (pad, pad), mode="reflect").squeeze(1)
    spec = torch.stft(
        y,
        h.n_fft,
        hop_length=h.hop_size,
        win_length=h.win_size,
        window=_cache[str(y.device)],
        center=center,
        pad_mode="reflect",
        normalized=False,
        onesided=True,
        return_complex=True,
    )
    spec = torch.sqrt(torch.view_as_real(spec).pow(2).sum(-1) + (1e-9))
    return torch.log(torch.clamp(torch.matmul(_cache[key], spec), min=1e-5) * 1)


def init_weights(m, mean=0.0, std=0.01):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        m.weight.data.normal_(mean, std)


def get_padding(kernel_size, dilation=1):
    return int((kernel_size * dilation - dilation) / 2)


class ResBlock(nn.Module):
    def __init__(self, channels, kernel_size=3, dilation=(1, 3)):
        super().__init__()
        self.convs1 = nn.ModuleList(
            [
                weight_norm(
                    Conv1d(
                        channels,
                        channels,
                        kernel_size,
                        1,
                        dilation=d,
                        padding=get_padding(kernel_size, d),
                    )
                )
                for d in dilation
            ]
        )
        self.convs2 = nn.ModuleList(
            [
                weight_norm(
                    Conv1d(
                        channels,
                        channels,
                        kernel_size,
                        1,
                        dilation=1,
                        padding=get_padding(kernel_size, 1),
                    )
                )
                for _ in dilation
            ]
        )
        self.convs1.apply(init_weights)

    def forward(self, x):
        for c1, c2 in zip(self.convs1, self.convs2):
            xt = c2(F.leaky_relu(c1(F.leaky_relu(x, LRELU_SLOPE)), LRELU_SLOPE))
            x = xt + x
        return x

    def remove_weight_norm(self):
        for layer in [*self.convs1, *self.convs2]:
            remove_weight_norm(layer)


class Generator(nn.Module):
    def __init__(self, channels=8, rates=(4, 2), kernels=(8, 4)):
        super().__init__()
        self.conv_pre = weight_norm(Conv1d(h.num_mels, channels, 7, 1, padding=3))
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for i, (u, k) in enumerate(zip(rates, kernels)):
            self.ups.append(
                weight_norm(
                    ConvTranspose1d(
                        channels // (2**i),
                        channels // (2 ** (i + 1)),
                        k,
                        u,
                        padding=(k - u) // 2,
                    )
                )
            )
            self.resblocks.append(ResBlock(channels // (2 ** (i + 1))))
        self.conv_post = weight_norm(
            Conv1d(channels // 2 ** len(rates), 1, 7, 1, padding=3)
        )

    def forward(self, x):
        x = self.conv_pre(x)
        for up, block in zip(self.ups, self.resblocks):
            x = F.leaky_relu(x, LRELU_SLOPE)
            x = block(up(x))
        return torch.tanh(self.conv_post(F.leaky_relu(x)))

    def remove_weight_norm(self):
        for layer in self.ups:
            remove_weight_norm(layer)
        for layer in self.resblocks:
            layer.remove_weight_norm()
        remove_weight_norm(self.conv_pre)
        remove_weight_norm(self.conv_post)


class DiscriminatorP(nn.Module):
    def __init__(self, period, use_spectral_norm=False):
        super().__init__()
        self.period = period
        norm_f = weight_norm if use_spectral_norm == False else spectral_norm
        self.convs = nn.ModuleList(
            [
                norm_f(Conv2d(1, 4, (5, 1), (3, 1), padding=(get_padding(5, 1), 0))),
                norm_f(Conv2d(4, 6, (5, 1), 1, padding=(2, 0))),
            ]
        )
        self.conv_post = norm_f(Conv2d(6, 1, (3, 1), 1, padding=(1, 0)))

    def forward(self, x):
        fmap = []
        b, c, t = x.shape
        if t % self.period != 0:
            n_pad = self.period - (t % self.period)
            x = F.pad(x, (0, n_pad), "reflect")
            t = t + n_pad
        x = x.view(b, c, t // self.period, self.period)
        for layer in self.convs:
            x = F.leaky_relu(layer(x), LRELU_SLOPE)
            fmap.append(x)
        x = self.conv_post(x)
        fmap.append(x)
        return torch.flatten(x, 1, -1), fmap


class DiscriminatorS(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                weight_norm(Conv1d(1, 4, 15, 1, padding=7)),
                weight_norm(Conv1d(4, 8, 11, 2, groups=2, padding=5)),
            ]
        )
        self.conv_post = weight_norm(Conv1d(8, 1, 3, 1, padding=1))
        self.pool = AvgPool1d(4, 2, padding=2)

    def forward(self, x):
        fmap, x = [], self.pool(x)
        for layer in self.convs:
            x = F.leaky_relu(layer(x), LRELU_SLOPE)
            fmap.append(x)
        x = self.conv_post(x)
        return torch.flatten(x, 1, -1), [*fmap, x]


class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.discriminators = nn.ModuleList(
            [DiscriminatorP(2), DiscriminatorP(3), DiscriminatorS()]
        )

    def forward(self, y, y_hat):
        y_d_rs, y_d_gs, fmap_rs, fmap_gs = [], [], [], []
        for d in self.discriminators:
            y_d_r, fmap_r = d(y)
            y_d_g, fmap_g = d(y_hat)
            y_d_rs.append(y_d_r)
            fmap_rs.append(fmap_r)
            y_d_gs.append(y_d_g)
            fmap_gs.append(fmap_g)
        return y_d_rs, y_d_gs, fmap_rs, fmap_gs


def feature_loss(fmap_r, fmap_g):
    loss = 0
    for dr, dg in zip(fmap_r, fmap_g):
        for rl, gl in zip(dr, dg):
            loss += torch.mean(torch.abs(rl - gl))
    return loss * 2


def discriminator_loss(reals, fakes):
    loss = 0
    for dr, dg in zip(reals, fakes):
        loss += torch.mean((1 - dr) ** 2) + torch.mean(dg**2)
    return loss


def stft_loss(x, y, sizes=((16, 4), (32, 8))):
    total = x.new_zeros(())
    for n_fft, hop in sizes:
        window = torch.hann_window(n_fft, device=x.device)
        a, b = (
            torch.stft(z, n_fft, hop, window=window, return_complex=True)
            .abs()
            .clamp(min=1e-3)
            for z in (x, y)
        )
        total += torch.norm(b - a, p="fro") / torch.norm(b, p="fro") + F.l1_loss(
            a.log(), b.log()
        )
    return total / len(sizes)


def griffin_lim(magnitude, n_iter=4):
    window = torch.hann_window(h.n_fft, device=magnitude.device)
    angles = torch.full_like(magnitude, 0.5)
    spec = torch.polar(magnitude, angles)
    for _ in range(n_iter):
        wave = torch.istft(spec, h.n_fft, h.hop_size, window=window)
        rebuilt = torch.stft(
            wave, h.n_fft, h.hop_size, window=window, return_complex=True
        )
        spec = torch.polar(magnitude, rebuilt.angle())
    return torch.istft(spec, h.n_fft, h.hop_size, window=window)


def train(steps):
    torch.manual_seed(0)
    t = np.arange(160) / 160
    y = torch.FloatTensor(
        np.stack([np.sin(2 * np.pi * f * t * (1 + 0.3 * t)) for f in (9, 14)]) * 0.6
    ).to(device)
    y = y + 0.01 * torch.from_numpy(normal(2, 160)).to(device)
    mel = mel_spectrogram(y)
    generator, critics = seeded(Generator()).to(device), seeded(Critics(), 1).to(device)
    optim_g = torch.optim.AdamW(generator.parameters(), 2e-4, betas=[0.8, 0.99])
    optim_d = torch.optim.AdamW(critics.parameters(), 2e-4, betas=[0.8, 0.99])
    schedulers = [
        torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.99, last_epoch=-1)
        for o in (optim_g, optim_d)
    ]
    y, losses = y.unsqueeze(1), []
    for _ in range(steps // 2):
        fake = generator(mel)
        optim_d.zero_grad()
        real_d, fake_d, _, _ = critics(y, fake.detach())
        loss_d = discriminator_loss(real_d, fake_d)
        loss_d.backward()
        optim_d.step()
        optim_g.zero_grad()
        loss_mel = F.l1_loss(mel, mel_spectrogram(fake.squeeze(1))) * 45
        _, fake_d, fmap_r, fmap_g = critics(y, fake)
        adversarial = sum(torch.mean((1 - dg) ** 2) for dg in fake_d)
        loss_g = (
            adversarial
            + feature_loss(fmap_r, fmap_g)
            + loss_mel
            + stft_loss(fake.squeeze(1), y.squeeze(1))
        )
        loss_g.backward()
        optim_g.step()
        for scheduler in schedulers:
            scheduler.step()
        losses += [loss_d.item(), loss_g.item()]
    generator.eval()
    with torch.no_grad():
        before = generator(mel)
        generator.remove_weight_norm()
        assert "conv_pre.weight" in generator.state_dict()
        assert torch.allclose(before, generator(mel), atol=1e-5)
        spectrum = torch.stft(
            y[0, 0],
            h.n_fft,
            h.hop_size,
            window=torch.hann_window(h.n_fft, device=device),
            return_complex=True,
        ).abs()
        wave = griffin_lim(spectrum + 0.1)
    return [*losses, before.abs().mean().item(), wave.square().mean().item()]
