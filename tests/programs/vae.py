"""A variational autoencoder."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(64, 32)
        self.fc21 = nn.Linear(32, 4)
        self.fc22 = nn.Linear(32, 4)
        self.fc3 = nn.Linear(4, 32)
        self.fc4 = nn.Linear(32, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar, eps)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train(steps):
    images = torch.sigmoid(torch.from_numpy(normal(16, 1, 8, 8)))
    noise = torch.from_numpy(normal(steps, 16, 4, seed=5))
    model = seeded(VAE()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    model.train()
    for step in range(steps):
        data = images.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data, noise[step].to(device))
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(data))
    with torch.no_grad():
        sample = torch.from_numpy(normal(2, 4, seed=6)).to(device)
        sample = model.decode(sample).cpu()
        losses.append(sample.view(2, 1, 8, 8).mean().item())
    return losses
