"""CycleGAN-like: two generators, an image pool, identity losses, a lambda schedule."""

import itertools
import random

import torch
import torch.nn as nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class ResidualBlock(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.block = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(features, features, 3),
            nn.InstanceNorm2d(features),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return x + self.block(x)


def generator():
    return nn.Sequential(
        nn.ReflectionPad2d(2),
        nn.Conv2d(3, 6, 5),
        nn.InstanceNorm2d(6),
        nn.ReLU(True),
        nn.Conv2d(6, 8, 3, stride=2, padding=1),
        ResidualBlock(8),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(8, 6, 3, stride=1, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 6, 3, stride=1, padding=1, output_padding=0),
        nn.ReflectionPad2d((1, 1, 1, 1)),
        nn.Conv2d(6, 3, 3),
        nn.Tanh(),
    )


def discriminator():
    return nn.Sequential(
        nn.Conv2d(3, 4, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2, inplace=True),
        nn.ZeroPad2d((1, 0, 1, 0)),
        nn.Conv2d(4, 1, 3, padding=1),
    )


class ReplayBuffer:
    def __init__(self, max_size=4):
        self.max_size, self.data, self.rng = max_size, [], random.Random(0)

    def push_and_pop(self, data):
        to_return = []
        for element in data.data:
            element = torch.unsqueeze(element, 0)
            if len(self.data) < self.max_size:
                self.data.append(element)
                to_return.append(element)
            elif self.rng.uniform(0, 1) > 0.5:
                i = self.rng.randint(0, self.max_size - 1)
                to_return.append(self.data[i].clone())
                self.data[i] = element
            else:
                to_return.append(element)
        return torch.cat(to_return)


class LambdaLR:
    def __init__(self, n, decay):
        self.n, self.decay = n, decay

    def step(self, epoch):
        return 1.0 - max(0, epoch - self.decay) / (self.n - self.decay)


def train(steps):
    G_AB, G_BA = seeded(generator(), 1).to(device), seeded(generator(), 2).to(device)
    D_A, D_B = (
        seeded(discriminator(), 3).to(device),
        seeded(discriminator(), 4).to(device),
    )
    gan, cycle, identity = torch.nn.MSELoss(), torch.nn.L1Loss(), torch.nn.L1Loss()
    opt_G = torch.optim.Adam(
        itertools.chain(G_AB.parameters(), G_BA.parameters()),
        lr=1e-3,
        betas=(0.5, 0.999),
    )
    opt_D = torch.optim.Adam(list(D_A.parameters()) + list(D_B.parameters()), lr=1e-3)
    n = steps // 4
    lr = torch.optim.lr_scheduler.LambdaLR(opt_G, lr_lambda=LambdaLR(n, 2).step)
    As = torch.tanh(torch.from_numpy(normal(n, 2, 3, 8, 8)))
    Bs = torch.tanh(torch.from_numpy(normal(n, 2, 3, 8, 8, seed=6)))
    pool_A, pool_B = ReplayBuffer(), ReplayBuffer()
    results = []
    for i in range(n):
        real_A, real_B = As[i].to(device), Bs[i].to(device)
        valid = torch.ones(
            (real_A.size(0), *D_A(real_A).shape[1:]), device=device, requires_grad=False
        )
        fake = torch.zeros_like(valid)
        opt_G.zero_grad()
        fake_B, fake_A = G_AB(real_A), G_BA(real_B)
        loss = (gan(D_B(fake_B), valid) + gan(D_A(fake_A), valid)) / 2
        loss += 10 * (cycle(G_BA(fake_B), real_A) + cycle(G_AB(fake_A), real_B)) / 2
        loss += (
            5 * (identity(G_BA(real_A), real_A) + identity(G_AB(real_B), real_B)) / 2
        )
        loss.backward()
        opt_G.step()
        opt_D.zero_grad()
        for D, real, fake_, pool in (
            (D_A, real_A, fake_A, pool_A),
            (D_B, real_B, fake_B, pool_B),
        ):
            loss_D = 0.5 * (
                gan(D(real), valid) + gan(D(pool.push_and_pop(fake_).detach()), fake)
            )
            loss_D.backward()
            results.append(loss_D.item())
        opt_D.step()
        lr.step()
        results += [loss.item(), opt_G.param_groups[0]["lr"]]
    return results
