"""An equivariant graph network: energies, forces by double backward, and averages."""

import copy

import numpy as np
import torch
from torch import nn

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class RadialBasis(nn.Module):
    def __init__(self, count, cutoff):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centers", torch.linspace(0.0, cutoff, count))
        self.gamma = 1 / (self.centers[1] - self.centers[0]).item() ** 2

    def forward(self, distance):
        shape = torch.exp(-self.gamma * (distance[..., None] - self.centers) ** 2)
        smooth = 0.5 * (torch.cos(torch.pi * distance / self.cutoff) + 1)
        smooth = torch.where(distance < self.cutoff, smooth, smooth.new_zeros(()))
        return shape * smooth[..., None]


class Interaction(nn.Module):
    def __init__(self, width, basis):
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(2 * width + basis, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.gate = nn.Sequential(
            nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.update = nn.GRUCell(width, width)

    def forward(self, h, v, vectors, edges, basis):
        source, target = edges
        m = self.message(torch.cat((h[source], h[target], basis), dim=-1))
        total = torch.zeros_like(h).index_add_(0, target, m)
        push = self.gate(m) * vectors
        v = v.index_add(0, target, push)
        return self.update(total, h), v


class Potential(nn.Module):
    def __init__(self, kinds=4, width=12, layers=2, cutoff=3.0):
        super().__init__()
        self.embedding = nn.Embedding(kinds, width, padding_idx=0, max_norm=2.0)
        self.basis = RadialBasis(6, cutoff)
        self.layers = nn.ModuleList(Interaction(width, 6) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width + 1, width), nn.Softplus(beta=2))
        self.out = nn.Linear(width, 1)
        self.register_parameter("scale", nn.Parameter(torch.ones(())))

    def forward(self, kinds, positions, edges, batch, graphs):
        vectors = positions[edges[1]] - positions[edges[0]]
        distance = torch.linalg.vector_norm(vectors, dim=-1)
        basis = self.basis(distance)
        h, v = self.embedding(kinds), torch.zeros_like(positions)
        for layer in self.layers:
            h, v = layer(h, v, vectors / distance.unsqueeze(1), edges, basis)
        h = torch.hstack([h, v.pow(2).sum(1, keepdim=True)])
        atoms = self.out(self.head(h)).squeeze(-1) * self.scale
        energy = atoms.new_zeros(graphs)
        energy.scatter_add_(0, batch, atoms)
        return energy


def neighbours(positions, batch, cutoff):
    distance = torch.cdist(positions, positions)
    same = batch[:, None].eq(batch[None])
    close = (distance < cutoff) & same & ~torch.eye(len(batch), dtype=torch.bool)
    return close.nonzero(as_tuple=False).t().contiguous()


def reference(positions, batch, graphs):
    """Return energies of springs between all atoms, and forces."""
    positions = positions.clone().requires_grad_()
    distance = torch.pdist(positions)
    i, j = torch.triu_indices(len(positions), len(positions), offset=1)
    pair = torch.where(batch[i] == batch[j], (distance - 1.2) ** 2, 0.0)
    energy = torch.zeros(graphs).index_add(0, batch[i], pair)
    (slope,) = torch.autograd.grad(energy.sum(), positions)
    return energy.detach(), -slope


def train(steps):
    sizes = [3, 5, 4]
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    positions = torch.from_numpy(normal(12, 3))
    kinds = torch.from_numpy(np.arange(12) % 3 + 1)
    energies, forces = reference(positions, batch, 3)
    edges = neighbours(positions, batch, 3.0)
    model = seeded(Potential()).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, amsgrad=True)
    args = [t.to(device) for t in (edges, batch)]
    positions, kinds = positions.to(device), kinds.to(device)
    energies, forces = energies.to(device), forces.to(device)
    losses = []
    for _ in range(steps):
        x = positions.detach().requires_grad_(True)
        energy = model(kinds, x, *args, 3)
        force = -torch.autograd.grad(
            energy, x, torch.ones_like(energy), create_graph=True, retain_graph=True
        )[0]
        loss = nn.functional.smooth_l1_loss(energy, energies)
        loss += 0.5 * nn.functional.huber_loss(force, forces, delta=0.8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters()):
                old.lerp_(new, 0.1)
        losses.append(loss.item())
    turn, _ = torch.linalg.qr(torch.from_numpy(normal(3, 3, seed=7)))
    turned = average(kinds, positions @ turn.to(device), *args, 3)
    plain = average(kinds, positions, *args, 3)
    assert torch.allclose(turned, plain, atol=1e-4)
    return losses + plain.tolist()
