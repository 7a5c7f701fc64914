"""The forward-forward algorithm: each layer has its own loss and optimizer."""

import torch
import torch.nn as nn
from torch.optim import Adam

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def overlay_y_on_x(x, y, classes=4):
    x_ = x.clone()
    x_[:, :classes] *= 0.0
    x_[range(x.shape[0]), y] = x.max()
    return x_


class Layer(nn.Linear):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.relu = torch.nn.ReLU()
        self.threshold = 2.0
        self.num_epochs = 5
        self.losses = []

    def forward(self, x):
        x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(x_direction, self.weight.T) + self.bias.unsqueeze(0))

    def train(self, x_pos, x_neg=None):
        if x_neg is None:
            return super().train(x_pos)
        self.opt = Adam(self.parameters(), lr=0.03)
        for _ in range(self.num_epochs):
            g_pos = self.forward(x_pos).pow(2).mean(1)
            g_neg = self.forward(x_neg).pow(2).mean(1)
            loss = torch.log(
                1
                + torch.exp(
                    torch.cat([-g_pos + self.threshold, g_neg - self.threshold])
                )
            ).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.losses.append(loss.item())
        return self.forward(x_pos).detach(), self.forward(x_neg).detach()


class Net(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = []
        for d in range(len(dims) - 1):
            self.layers += [seeded(Layer(dims[d], dims[d + 1]), d).to(device)]

    def predict(self, x):
        goodness_per_label = []
        for label in range(4):
            h = overlay_y_on_x(x, label)
            goodness = []
            for layer in self.layers:
                h = layer(h)
                goodness = goodness + [h.pow(2).mean(1)]
            goodness_per_label += [sum(goodness).unsqueeze(1)]
        goodness_per_label = torch.cat(goodness_per_label, 1)
        return goodness_per_label.argmax(1), goodness_per_label

    def train(self, x_pos, x_neg):
        h_pos, h_neg = x_pos, x_neg
        for layer in self.layers:
            h_pos, h_neg = layer.train(h_pos, h_neg)


def train(steps):
    x = torch.from_numpy(normal(16, 12)).to(device)
    y = torch.from_numpy(integers(4, 16)).to(device)
    y_neg = y.clone()
    for idx, y_samp in enumerate(y):
        allowed = list(range(4))
        allowed.remove(y_samp.item())
        y_neg[idx] = torch.tensor(allowed[idx % 3]).to(device)
    net = Net([12, 20, 10])
    for _ in range(steps // 10):
        net.train(overlay_y_on_x(x, y), overlay_y_on_x(x, y_neg))
    found, goodness = net.predict(x)
    error = 1.0 - found.eq(y).float().mean().item()
    return (
        sum([layer.losses for layer in net.layers], [])
        + [error]
        + goodness.flatten().tolist()
    )
