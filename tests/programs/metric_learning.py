"""Embeddings trained with triplets and a contrastive loss; nearest neighbours by cdist."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Triplets(Dataset):
    def __init__(self):
        centers = normal(4, 10, seed=1) * 2
        self.data = centers[:, None] + normal(4, 12, 10, seed=2)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        label = index % 4
        other = (label + 1 + index // 4 % 3) % 4
        anchor, positive = (
            self.data[label, index % 12],
            self.data[label, (index + 5) % 12],
        )
        return {
            "anchor": torch.from_numpy(anchor),
            "positive": torch.from_numpy(positive),
            "negative": torch.from_numpy(self.data[other, index % 12]),
            "label": label,
        }


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.PReLU(), nn.Linear(32, 6))

    def forward(self, x):
        return F.normalize(self.net(x), p=2, dim=1)


def info_nce(a, b, temperature=0.1):
    logits = a @ b.T / temperature
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def train(steps):
    loader = DataLoader(Triplets(), batch_size=8, drop_last=True)
    model = seeded(Embedder()).to(device)
    triplet = nn.TripletMarginLoss(margin=0.3, p=2)
    cosine = nn.CosineEmbeddingLoss(margin=0.2)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    losses = []
    while len(losses) < steps:
        for batch in loader:
            a, p, n = (
                model(batch[key].to(device))
                for key in ("anchor", "positive", "negative")
            )
            same = torch.ones(len(a), device=device)
            loss = triplet(a, p, n) + info_nce(a, p)
            loss = loss + 0.5 * (cosine(a, p, same) + cosine(a, n, -same))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with torch.no_grad():
        items = next(iter(DataLoader(Triplets(), batch_size=24)))
        embedded = model(items["anchor"].to(device))
        distances = torch.cdist(embedded, embedded)
        distances.fill_diagonal_(float("inf"))
        nearest = distances.topk(1, largest=False).indices.squeeze(1).cpu()
        hits = (items["label"][nearest] == items["label"]).float().mean()
    return [*losses[:steps], hits.item()]
