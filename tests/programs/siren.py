"""A SIREN fits an image and its gradients and Laplacian: derivatives of derivatives."""

import numpy as np
import torch
from torch import nn

from tests.programs.seeding import seeded

device = torch.device("cpu")


class SineLayer(nn.Module):
    def __init__(self, in_features, out_features, is_first=False, omega_0=30):
        super().__init__()
        self.omega_0, self.is_first, self.in_features = omega_0, is_first, in_features
        self.linear = nn.Linear(in_features, out_features)
        self.init_weights()

    def init_weights(self):
        with torch.no_grad():
            if self.is_first:
                self.linear.weight.uniform_(-1 / self.in_features, 1 / self.in_features)
            else:
                bound = np.sqrt(6 / self.in_features) / self.omega_0
                self.linear.weight.uniform_(-bound, bound)

    def forward(self, input):
        return torch.sin(self.omega_0 * self.linear(input))


def gradient(y, x, grad_outputs=None):
    if grad_outputs is None:
        grad_outputs = torch.ones_like(y)
    return torch.autograd.grad(y, [x], grad_outputs=grad_outputs, create_graph=True)[0]


def divergence(y, x):
    div = 0.0
    for i in range(y.shape[-1]):
        div += torch.autograd.grad(
            y[..., i], x, torch.ones_like(y[..., i]), create_graph=True
        )[0][..., i : i + 1]
    return div


def get_mgrid(sidelen, dim=2):
    tensors = tuple(dim * [torch.linspace(-1, 1, steps=sidelen)])
    mgrid = torch.stack(torch.meshgrid(*tensors, indexing="ij"), dim=-1)
    return mgrid.reshape(-1, dim)


def train(steps):
    net = nn.Sequential(
        SineLayer(2, 8, is_first=True, omega_0=3),
        SineLayer(8, 8, omega_0=3),
        nn.Linear(8, 1),
    )
    seeded(net)
    for layer in net[:2]:
        layer.linear.weight.data /= 3
    net.to(device)
    coords = get_mgrid(5).to(device)
    truth = torch.cos(3 * coords[:, :1]) * coords[:, 1:]
    optim = torch.optim.Adam(lr=1e-3, params=net.parameters())
    results = []
    for step in range(steps):
        model_input = coords.clone().detach().requires_grad_(True)
        output = net(model_input)
        grads = gradient(output, model_input)
        lap = divergence(grads, model_input)
        loss = (
            ((output - truth) ** 2).mean()
            + 0.1 * (grads.norm(dim=-1) - 1).abs().mean()
            + 1e-3 * (lap**2).mean()
        )
        optim.zero_grad()
        loss.backward()
        optim.step()
        results += [loss.item(), lap.abs().mean().item()]
    return results
