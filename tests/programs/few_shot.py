"""Prototypical, matching and relation networks on episodes: sampled classes, distances to means, batch norms without averages."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Glyphs(Dataset):
    def __init__(self, classes=8, each=6):
        base = normal(classes, 1, 1, 8, 8, seed=5)
        self.images = torch.from_numpy(
            base + 0.3 * normal(classes, each, 1, 8, 8)
        ).flatten(0, 1)
        self.labels = torch.arange(classes).repeat_interleave(each).tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class EpisodeSampler(Sampler):
    def __init__(self, labels, ways, each, episodes):
        labels = torch.as_tensor(labels)
        self.places = [torch.where(labels == c)[0] for c in labels.unique()]
        self.ways, self.each, self.episodes = ways, each, episodes

    def __len__(self):
        return self.episodes

    def __iter__(self):
        for episode in range(self.episodes):
            chosen = [
                (episode * 3 + 2 * k) % len(self.places) for k in range(self.ways)
            ]
            batch = [self.places[c].roll(episode)[: self.each] for c in chosen]
            yield torch.stack(batch).t().reshape(-1).tolist()


def conv_block(into, out):
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding="same", bias=False),
        nn.BatchNorm2d(out, track_running_stats=False, momentum=None),
        nn.ReLU(True),
        nn.MaxPool2d(2, ceil_mode=True),
    )


class Relation(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(conv_block(1, 6), conv_block(6, 8))
        self.relate = nn.Sequential(
            nn.Linear(64, 16),
            nn.GELU(approximate="tanh"),
            nn.Linear(16, 1),
            nn.Flatten(-2),
        )
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, support, query, ways):
        s = self.embed(support).flatten(1)
        q = self.embed(query).flatten(1)
        prototypes = s.view(-1, ways, s.size(-1)).mean(0)
        euclidean = -torch.cdist(q, prototypes).square() / s.size(-1)
        cosine = F.cosine_similarity(q.unsqueeze(1), s.unsqueeze(0), dim=-1).div(
            self.temperature
        )
        onehot = F.one_hot(torch.arange(len(s), device=s.device) % ways, ways).to(
            s.dtype
        )
        matching = (cosine.softmax(-1) @ onehot).clamp_min(1e-6).log()
        pairs = torch.cat(torch.broadcast_tensors(q[:, None], prototypes[None]), -1)
        return euclidean, matching, self.relate(pairs)


def train(steps):
    ways, shots, queries = 3, 2, 2
    data = Glyphs()
    sampler = EpisodeSampler(data.labels, ways, shots + queries, steps)
    loader = DataLoader(data, batch_sampler=sampler)
    model = seeded(Relation()).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.02, momentum=0.9, nesterov=True
    )
    results = [float(len(loader)), float("running_mean" in "".join(model.state_dict()))]
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        support, query = images.split([ways * shots, ways * queries])
        targets = torch.arange(ways, device=device).repeat(queries)
        euclidean, matching, relation = model(support, query, ways)
        losses = [
            F.cross_entropy(euclidean, targets),
            F.nll_loss(matching, targets),
            F.mse_loss(relation.sigmoid(), torch.eye(ways, device=device)[targets]),
        ]
        loss = sum(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits = (euclidean.argmax(-1) == targets).float().mean()
        results += [loss.item(), hits.item(), float(sum(labels.tolist()))]
    return results
