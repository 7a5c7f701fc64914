"""StyleGAN-like: modulated convolutions by groups, equalised rates, blur, path length, R1."""

import math

import torch
from torch import autograd, nn
from torch.nn import functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class EqualLinear(nn.Module):
    def __init__(self, i, o, lr_mul=1, bias_init=0):
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(o, i).div_(lr_mul)),
            nn.Parameter(torch.zeros(o).fill_(bias_init)),
        )
        self.scale, self.lr_mul = (1 / math.sqrt(i)) * lr_mul, lr_mul

    def forward(self, x):
        return F.leaky_relu(
            F.linear(x, self.weight * self.scale, bias=self.bias * self.lr_mul), 0.2
        ) * math.sqrt(2)


class ModulatedConv2d(nn.Module):
    def __init__(self, i, o, k, style, upsample=False):
        super().__init__()
        self.i, self.o, self.k, self.upsample = i, o, k, upsample
        self.weight, self.scale = (
            nn.Parameter(torch.randn(1, o, i, k, k)),
            1 / math.sqrt(i * k**2),
        )
        self.modulation = EqualLinear(style, i, bias_init=1)
        kernel = torch.tensor([1.0, 3, 3, 1])
        kernel = kernel[None, :] * kernel[:, None]
        kernel /= kernel.sum()
        self.register_buffer("kernel", kernel * 4)

    def forward(self, x, style):
        b, c, h, w = x.shape
        style = self.modulation(style).view(b, 1, c, 1, 1)
        weight = self.scale * self.weight * style
        demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)
        weight = (weight * demod.view(b, self.o, 1, 1, 1)).view(
            b * self.o, c, self.k, self.k
        )
        x = x.reshape(1, b * c, h, w)
        if self.upsample:
            weight = (
                weight.view(b, self.o, c, self.k, self.k)
                .transpose(1, 2)
                .reshape(b * c, self.o, self.k, self.k)
            )
            out = F.conv_transpose2d(x, weight, padding=0, stride=2, groups=b)
            _, _, h, w = out.shape
            out = out.view(b * self.o, 1, h, w)
            out = F.conv2d(
                F.pad(out, [1, 1, 1, 1]), torch.flip(self.kernel, [0, 1])[None, None]
            )
            return out.view(b, self.o, *out.shape[2:])
        out = F.conv2d(x, weight, padding=self.k // 2, groups=b)
        return out.view(b, self.o, out.shape[-2], out.shape[-1])


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.style = nn.Sequential(*[EqualLinear(6, 6, 0.5) for _ in range(2)])
        self.input = nn.Parameter(torch.randn(1, 4, 4, 4))
        self.conv1, self.conv2 = (
            ModulatedConv2d(4, 4, 3, 6),
            ModulatedConv2d(4, 4, 3, 6, upsample=True),
        )
        self.noise, self.to_rgb = (
            nn.Parameter(torch.zeros(1)),
            ModulatedConv2d(4, 3, 1, 6),
        )

    def forward(self, styles, noise, inject=2):
        styles = [
            s * torch.rsqrt(torch.mean(s**2, dim=1, keepdim=True) + 1e-8)
            for s in styles
        ]
        w = [self.style(s) for s in styles]
        latent = torch.cat(
            [
                w[0].unsqueeze(1).repeat(1, inject, 1),
                w[1].unsqueeze(1).repeat(1, 3 - inject, 1),
            ],
            1,
        )
        x = self.conv1(self.input.repeat(latent.shape[0], 1, 1, 1), latent[:, 0])
        x = F.leaky_relu(x + self.noise * noise, 0.2)
        return torch.tanh(
            self.to_rgb(self.conv2(x, latent[:, 1]), latent[:, 2])
        ), latent


def minibatch_std(x):
    y = x.view(2, -1, *x.shape[1:])
    y = torch.sqrt(y.var(0, unbiased=False) + 1e-8).mean([1, 2, 3], keepdim=True)
    return torch.cat([x, y.repeat(2, 1, *x.shape[2:])], 1)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(5, 4, 3, 2, 1)
        self.c = nn.LazyLinear(1)

    def forward(self, x):
        return self.c(
            F.softplus(self.b(minibatch_std(F.softplus(self.a(x))))).flatten(1)
        )


def train(steps):
    g, d = seeded(Generator(), 1).to(device), Discriminator().to(device)
    real = torch.tanh(torch.from_numpy(normal(4, 3, 7, 7))).to(device)
    d(real)
    seeded(d, 2)
    g_opt, d_opt = (
        torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.0, 0.99)),
        torch.optim.Adam(d.parameters(), lr=2e-3, betas=(0.0, 0.99)),
    )
    mean_path, results = torch.zeros((), device=device), []
    for step in range(steps // 2):
        z = torch.from_numpy(normal(2, 4, 6, seed=step)).to(device)
        noise = torch.from_numpy(normal(4, 1, 4, 4, seed=step + 99)).to(device)
        fake, latent = g(z.unbind(0), noise, inject=1 + step % 2)
        fake = fake[..., :7, :7]
        d_loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        real.requires_grad = True
        (grad_real,) = autograd.grad(
            outputs=d(real).sum(), inputs=real, create_graph=True
        )
        r1 = grad_real.pow(2).reshape(grad_real.shape[0], -1).sum(1).mean()
        d_opt.zero_grad()
        (d_loss + 5.0 * r1).backward()
        d_opt.step()
        real = real.detach()
        pl_noise = torch.from_numpy(normal(4, 3, 7, 7, seed=step + 7)).to(
            device
        ) / math.sqrt(49)
        (grad,) = autograd.grad(
            outputs=(fake * pl_noise).sum(), inputs=latent, create_graph=True
        )
        lengths = torch.sqrt(grad.pow(2).sum(2).mean(1))
        path_mean = mean_path + 0.1 * (lengths.mean() - mean_path)
        penalty = (lengths - path_mean).pow(2).mean()
        mean_path = path_mean.detach()
        g_loss = F.softplus(-d(fake)).mean() + penalty
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        results += [d_loss.item(), r1.item(), g_loss.item(), mean_path.item()]
    return results
