"""Capsules with dynamic routing, margin loss and a reconstruction from masked capsules."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def squash(tensor, dim=-1):
    squared_norm = (tensor**2).sum(dim=dim, keepdim=True)
    scale = squared_norm / (1 + squared_norm)
    return scale * tensor / torch.sqrt(squared_norm + 1e-8)


class CapsuleLayer(nn.Module):
    def __init__(
        self, num_capsules, num_routes, in_channels, out_channels, num_iterations=3
    ):
        super().__init__()
        self.num_iterations = num_iterations
        self.route_weights = nn.Parameter(
            torch.randn(num_capsules, num_routes, in_channels, out_channels)
        )

    def forward(self, x):
        priors = x[None, :, :, None, :] @ self.route_weights[:, None, :, :, :]
        logits = torch.zeros(*priors.size()).to(x.device)
        for i in range(self.num_iterations):
            probs = F.softmax(logits, dim=2)
            outputs = squash((probs * priors).sum(dim=2, keepdim=True))
            if i != self.num_iterations - 1:
                delta_logits = (priors * outputs).sum(dim=-1, keepdim=True)
                logits = logits + delta_logits
        return outputs


class CapsuleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.primary = nn.ModuleList([nn.Conv2d(1, 3, 3, stride=2) for _ in range(4)])
        self.digits = CapsuleLayer(3, 27, 4, 5)
        self.decoder = nn.Sequential(
            nn.Linear(15, 16), nn.ReLU(inplace=True), nn.Linear(16, 49), nn.Sigmoid()
        )

    def forward(self, x, y=None):
        u = [capsule(x).view(x.size(0), -1, 1) for capsule in self.primary]
        u = squash(torch.cat(u, dim=-1))
        x = self.digits(u).squeeze().transpose(0, 1)
        classes = (x**2).sum(dim=-1) ** 0.5
        if y is None:
            _, max_length_indices = classes.max(dim=1)
            y = (
                torch.eye(3)
                .to(x.device)
                .index_select(dim=0, index=max_length_indices.data)
            )
        reconstructions = self.decoder((x * y[:, :, None]).reshape(x.size(0), -1))
        return F.softmax(classes, dim=-1), classes, reconstructions


def train(steps):
    model = seeded(CapsuleNet()).to(device)
    images = torch.from_numpy(normal(5, 1, 7, 7)).sigmoid().to(device)
    labels = torch.eye(3).index_select(0, torch.from_numpy(integers(3, 5))).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    results = []
    for _ in range(steps):
        _, classes, reconstructions = model(images, labels)
        left = F.relu(0.9 - classes, inplace=True) ** 2
        right = F.relu(classes - 0.1, inplace=True) ** 2
        margin_loss = (labels * left + 0.5 * (1.0 - labels) * right).sum()
        assert torch.numel(images) == torch.numel(reconstructions)
        images_ = images.view(reconstructions.size()[0], -1)
        rec_loss = nn.MSELoss(reduction="sum")(reconstructions, images_)
        loss = (margin_loss + 0.0005 * rec_loss) / images.size(0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.item())
    probs, _, rec = model(images)
    return results + probs.flatten().tolist() + [rec.mean().item()]
