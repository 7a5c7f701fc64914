"""WGAN-GP: gradient penalty by autograd.grad, several critic steps, spectral norm."""

import torch
import torch.nn as nn
from torch import autograd
from torch.autograd import Variable

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(4, 8, normalize=False), *block(8, 16), nn.Linear(16, 36), nn.Tanh()
        )

    def forward(self, z):
        img = self.model(z)
        return img.view(img.shape[0], *(1, 6, 6))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, 2, 1)
        self.model = nn.Sequential(
            nn.InstanceNorm2d(4, affine=True),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.LayerNorm(36),
            nn.Linear(36, 8),
            nn.SiLU(),
            nn.Linear(8, 1),
        )

    def forward(self, img):
        return self.model(self.conv(img))


def compute_gradient_penalty(D, real_samples, fake_samples, alpha):
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(
        True
    )
    d_interpolates = D(interpolates)
    fake = Variable(
        torch.ones(real_samples.shape[0], 1, device=device), requires_grad=False
    )
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def train(steps):
    generator, critic = (
        seeded(Generator(), 1).to(device),
        seeded(Critic(), 2).to(device),
    )
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    reals = torch.from_numpy(normal(steps, 6, 1, 6, 6)).to(device)
    noises = torch.from_numpy(normal(steps, 6, 4, seed=3)).to(device)
    alphas = torch.sigmoid(torch.from_numpy(normal(steps, 6, 1, 1, 1, seed=9))).to(
        device
    )
    results = []
    for i in range(steps):
        real_imgs = Variable(reals[i])
        opt_d.zero_grad()
        z = Variable(noises[i])
        fake_imgs = generator(z)
        gp = compute_gradient_penalty(critic, real_imgs.data, fake_imgs.data, alphas[i])
        d_loss = (
            -torch.mean(critic(real_imgs)) + torch.mean(critic(fake_imgs)) + 10 * gp
        )
        d_loss.backward()
        opt_d.step()
        results.append(d_loss.item())
        if i % 3 == 0:
            for p in critic.parameters():
                p.requires_grad = False
            opt_g.zero_grad()
            g_loss = -torch.mean(critic(generator(z)))
            g_loss.backward()
            opt_g.step()
            for p in critic.parameters():
                p.requires_grad = True
            results.append(g_loss.item())
    return results
