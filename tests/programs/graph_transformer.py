"""A graph transformer: random-walk encodings, GIN with a virtual node, edge features as biases, softmax over edges."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def graphs(count):
    made = []
    for k in range(count):
        n = 4 + k % 3
        ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
        chord = torch.tensor([[0], [2 + k % (n - 2)]])
        edges = torch.cat([ring, chord, ring.flip(0), chord.flip(0)], 1)
        made.append(
            {
                "x": torch.from_numpy(normal(n, 3, seed=k)),
                "edge_index": torch.unique(edges, dim=1),
                "y": torch.tensor([float(k % 2)]),
            }
        )
    return made


def collate(batch):
    sizes = torch.tensor([len(g["x"]) for g in batch])
    starts = F.pad(sizes.cumsum(0), (1, 0))[:-1]
    return {
        "x": torch.cat([g["x"] for g in batch]),
        "edge_index": torch.cat(
            [g["edge_index"] + s for g, s in zip(batch, starts)], dim=1
        ),
        "batch": torch.repeat_interleave(torch.arange(len(batch)), sizes),
        "y": torch.stack([g["y"] for g in batch]).squeeze(1),
    }


def random_walks(edge_index, n, length):
    A = torch.zeros(n, n, device=edge_index.device)
    A.index_put_(
        tuple(edge_index),
        torch.ones(edge_index.size(1), device=A.device),
        accumulate=True,
    )
    P = A / A.sum(1, keepdim=True).clamp(min=1)
    return torch.stack(
        [torch.matrix_power(P, k).diagonal() for k in range(1, length + 1)], 1
    )


def scatter_softmax(src, index, n):
    high = src.new_full((n, *src.shape[1:]), -torch.inf)
    high = high.scatter_reduce(
        0, index[:, None].expand_as(src), src, "amax", include_self=False
    )
    out = (src - high.index_select(0, index)).exp()
    total = torch.zeros_like(high).nan_to_num().index_add_(0, index, out)
    return out / (total[index] + 1e-16)


class Layer(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.eps = nn.Parameter(torch.zeros(1))
        self.local = nn.Sequential(
            nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.ELU(), nn.Linear(dim, dim)
        )
        self.q, self.k, self.v = (
            nn.Linear(dim, dim),
            nn.Linear(dim, dim),
            nn.Linear(dim, dim, bias=False),
        )
        self.edge = nn.Bilinear(3, 3, heads)
        self.virtual = nn.GRUCell(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, x, edge_index, batch, v):
        row, col = edge_index
        n = h.size(0)
        h = h + v[batch]
        near = torch.zeros_like(h).index_add(0, col, F.relu(h[row]))
        local = self.local((1 + self.eps) * h + near)
        q, k, val = (f(h).view(n, self.heads, -1) for f in (self.q, self.k, self.v))
        score = (q[col] * k[row]).sum(-1) / k.size(-1) ** 0.5 + self.edge(
            x[row], x[col]
        )
        weight = scatter_softmax(score, col, n)
        mixed = torch.zeros_like(val).index_add_(
            0, col, weight.unsqueeze(-1) * val[row]
        )
        h = self.norm(h + local + mixed.flatten(1))
        pooled = torch.zeros_like(v).index_reduce(
            0, batch, h, "mean", include_self=False
        )
        return h, self.virtual(pooled, v)


class Network(nn.Module):
    def __init__(self, dim=8, walk=4):
        super().__init__()
        self.walk = walk
        self.embed = nn.Linear(3 + walk, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(2))
        self.virtual = nn.Embedding(1, dim)
        self.out = nn.Sequential(nn.Linear(3 * dim, dim), nn.PReLU(), nn.Linear(dim, 1))

    def forward(self, x, edge_index, batch):
        count = int(batch.max()) + 1
        h = self.embed(torch.cat([x, random_walks(edge_index, len(x), self.walk)], 1))
        v = self.virtual(batch.new_zeros(count))
        for layer in self.layers:
            h, v = layer(h, x, edge_index, batch, v)
        size = torch.bincount(batch, minlength=count).clamp(min=1)
        total = h.new_zeros(count, h.size(1)).scatter_add_(
            0, batch[:, None].expand_as(h), h
        )
        most = torch.full_like(total, -1e9).scatter_reduce_(
            0, batch[:, None].expand_as(h), h, reduce="amax"
        )
        return self.out(torch.cat([total / size[:, None], most, v], 1)).squeeze(-1)


def train(steps):
    loader = DataLoader(
        graphs(12), batch_size=5, shuffle=False, collate_fn=collate, drop_last=False
    )
    model = seeded(Network()).to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5, rho=0.8)
    results, step = [], 0
    while step < steps:
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            y = batch.pop("y")
            out = model(**batch)
            loss = F.binary_cross_entropy_with_logits(
                out, y, pos_weight=y.new_tensor(1.5)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            results += [loss.item(), float(((out > 0) == y.bool()).sum())]
            step += 1
            if step == steps:
                break
    return results
