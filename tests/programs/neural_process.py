"""Conditional, latent and attentive neural processes: context sets of changing sizes, KL of Normals, predictions by samples."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MLP(nn.Sequential):
    def __init__(self, *sizes):
        layers = []
        for a, b in zip(sizes[:-1], sizes[1:]):
            layers += [nn.Linear(a, b), nn.LeakyReLU(0.1, inplace=True)]
        super().__init__(*layers[:-1])


class NeuralProcess(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.encoder, self.latent = MLP(2, 16, dim), MLP(2, 16, 2 * dim)
        self.cross = nn.MultiheadAttention(dim, 2, kdim=1, vdim=dim, batch_first=True)
        self.query = nn.Linear(1, dim)
        self.decoder = MLP(2 * dim + 1, 16, 16, 2)

    def posterior(self, x, y):
        mu, sigma = self.latent(torch.cat((x, y), -1)).mean(-2).chunk(2, -1)
        return Independent(Normal(mu, 0.1 + 0.9 * torch.sigmoid(sigma)), 1)

    def decode(self, x, z, cx, cy):
        r, _ = self.cross(
            self.query(x), cx, self.encoder(torch.cat((cx, cy), -1)), need_weights=False
        )
        z = z.unsqueeze(-2).expand(*z.shape[:-1], x.size(-2), z.shape[-1])
        r = r.expand_as(z)
        mu, log_sigma = self.decoder(
            torch.cat([x.expand(*z.shape[:-1], 1), r, z], -1)
        ).split(1, -1)
        return Normal(mu, 0.1 + 0.9 * nn.functional.softplus(log_sigma))


def train(steps):
    model = seeded(NeuralProcess()).to(device)
    optimizer = torch.optim.RAdam(model.parameters(), lr=4e-3)
    rng = np.random.default_rng(3)
    results = []
    for step in range(steps):
        number = int(rng.integers(2, 7))
        x = torch.from_numpy(
            np.sort(rng.uniform(-2, 2, (4, 9, 1)), axis=1).astype("f4")
        ).to(device)
        y = torch.sin(x * 2) + 0.1 * torch.from_numpy(normal(4, 9, 1, seed=step)).to(
            device
        )
        places = torch.from_numpy(rng.permutation(9)[:number]).to(device)
        cx, cy = x.index_select(1, places), y[:, places]
        prior, post = model.posterior(cx, cy), model.posterior(x, y)
        noise = torch.from_numpy(normal(3, 4, 8, seed=100 + step)).to(device)
        z = post.base_dist.loc + post.base_dist.scale * noise
        predicted = model.decode(x, z, cx, cy)
        log_p = predicted.log_prob(y).sum((-1, -2)).mean(0)
        kl = kl_divergence(post, prior)
        loss = -(log_p - kl).mean() / 9
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        results += [loss.item(), kl.mean().item()]
    with torch.no_grad():
        grid = torch.linspace(-2, 2, 11, device=device).view(1, -1, 1).expand(4, -1, -1)
        found = model.decode(grid, prior.mean[None], cx, cy)
        mixture = torch.logsumexp(found.log_prob(grid.cos()), 0) - np.log(1)
        results += [
            found.mean.std().item(),
            found.stddev.mean().item(),
            mixture.mean().item(),
        ]
        results += [float(found.batch_shape.numel()), prior.entropy().sum().item()]
    return results
