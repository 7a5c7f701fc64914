"""Folds, a weighted sampler, a collate function, early stopping, an LR finder, groups; tabular data."""

import copy
import math
import os
import tempfile
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.utils.data as data
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR, _LRScheduler
from torch.utils.data import WeightedRandomSampler, default_collate

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


@dataclass
class Config:
    epochs: int = 3
    patience: int = 1
    sizes: List[int] = field(default_factory=lambda: [5, 4])


class Table(data.Dataset):
    def __init__(self, rows: int) -> None:
        self.numbers = normal(rows, 3)
        self.codes = np.stack([integers(5, rows), integers(4, rows, seed=4)], 1)
        self.y = (self.numbers[:, 0] + 0.4 * self.codes[:, 0] > 0.9).astype(int)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> Dict[str, Tensor]:
        return {
            "numbers": torch.tensor(self.numbers[i]),
            "codes": self.codes[i],
            "y": int(self.y[i]),
            "name": f"row{i}",
            "list": list(range(i % 3 + 1)),
        }


def collate(batch):
    lists = [b.pop("list") for b in batch]
    lengths = torch.tensor([len(each) for each in lists])
    out = default_collate(batch)
    out["list"] = nn.utils.rnn.pad_sequence(
        [torch.tensor(each, dtype=torch.float) for each in lists],
        batch_first=True,
        padding_value=-1,
    )
    out["lengths"] = lengths
    return out


class Net(nn.Module):
    def __init__(self, config: Config, dropout: Optional[float] = 0.0):
        super().__init__()
        self.embeds = nn.ModuleList(
            [nn.Embedding(n, min(50, (n + 1) // 2)) for n in config.sizes]
        )
        n = sum(e.embedding_dim for e in self.embeds)
        self.bn = nn.BatchNorm1d(3, momentum=0.1, eps=1e-5)
        self.lins = nn.Sequential(
            nn.Linear(n + 4, 8), nn.PReLU(), nn.Dropout(dropout), nn.Linear(8, 1)
        )

    def forward(self, x: Tensor, codes: Tensor, extra: Tensor) -> Tuple[Tensor, ...]:
        e = [emb(codes[:, i]) for i, emb in enumerate(self.embeds)]
        out = self.lins(torch.cat([*e, self.bn(x), extra], dim=-1))
        return (out.squeeze(-1),)


class EarlyStopping:
    def __init__(self, patience, path):
        self.patience, self.path, self.best, self.counter = patience, path, math.inf, 0

    def __call__(self, loss, model):
        if loss < self.best:
            self.best, self.counter = loss, 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
        return self.counter > self.patience


class PolynomialLR(_LRScheduler):
    def __init__(self, optimizer, max_iter, power=0.9, last_epoch=-1):
        self.max_iter, self.power = max_iter, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [
            base * (1 - self.last_epoch / self.max_iter) ** self.power
            for base in self.base_lrs
        ]


def step(model, criterion, batch):
    batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}
    mask = (
        torch.arange(batch["list"].size(1), device=device)[None]
        < batch["lengths"][:, None]
    )
    extra = (batch["list"] * mask).sum(1, keepdim=True) / batch["lengths"].unsqueeze(1)
    (out,) = model(batch["numbers"], batch["codes"], extra)
    assert isinstance(batch["name"], list)
    return criterion(out, batch["y"].float()), torch.sigmoid(out).round(), batch["y"]


def train(steps):
    config, table, results = Config(), Table(24), []
    indices, since = np.random.RandomState(0).permutation(24), time.time()
    folds = np.array_split(indices, 3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0])).to(device)
    with tempfile.TemporaryDirectory() as folder:
        for k, held in enumerate(folds):
            chosen = np.concatenate([f for j, f in enumerate(folds) if j != k])
            loaders = {
                p: data.DataLoader(
                    data.Subset(table, ids),
                    batch_size=6,
                    shuffle=False,
                    collate_fn=collate,
                )
                for p, ids in (("train", chosen), ("val", held))
            }
            model = seeded(Net(config), k).to(device)
            optimizer = (
                torch.optim.Adagrad(model.parameters(), lr=0.1)
                if k == 2
                else torch.optim.Rprop(model.parameters())
                if k
                else torch.optim.SGD(
                    model.parameters(), lr=0.1, momentum=0.9, dampening=0.1
                )
            )
            if k == 1:
                scheduler = PolynomialLR(optimizer, 20)
            elif k == 0:
                scheduler = OneCycleLR(
                    optimizer,
                    max_lr=0.2,
                    steps_per_epoch=len(loaders["train"]),
                    epochs=config.epochs,
                )
            else:
                scheduler = torch.optim.lr_scheduler.CyclicLR(
                    optimizer, 0.01, 0.1, step_size_up=3, cycle_momentum=False
                )
            stop = EarlyStopping(config.patience, os.path.join(folder, f"fold{k}.pt"))
            for epoch in range(config.epochs):
                for phase, loader in loaders.items():
                    model.train(phase == "train")
                    losses, right, confusion = (
                        [],
                        0,
                        torch.zeros(2, 2, dtype=torch.long),
                    )
                    with torch.set_grad_enabled(model.training):
                        for batch in loader:
                            loss, predicted, y = step(model, criterion, batch)
                            if model.training:
                                optimizer.zero_grad()
                                loss.backward()
                                optimizer.step()
                                scheduler.step()
                            losses.append(loss.detach())
                            right += (predicted == y).sum().item()
                            for t, p in zip(y.view(-1), predicted.view(-1)):
                                confusion[t.long(), p.long()] += 1
                    results += [
                        torch.stack(losses).mean().item(),
                        right / len(loader.dataset),
                        float(confusion.diag().sum()),
                        optimizer.param_groups[0]["lr"],
                    ]
                if stop(results[-4], model):
                    break
            model.load_state_dict(torch.load(stop.path, weights_only=True))
            results.append(sum(p.abs().sum() for p in model.parameters()).item())
    weights = 1.0 / torch.bincount(torch.from_numpy(table.y)).float()
    sampler = WeightedRandomSampler(
        weights[torch.from_numpy(table.y)], num_samples=40, replacement=True
    )
    assert len(list(sampler)) == 40
    assert time.time() >= since
    model, lr = copy.deepcopy(model), 1e-4
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for batch in loaders["train"]:
        for group in optimizer.param_groups:
            group["lr"] = lr = lr * 3
        loss, _, _ = step(model, criterion, batch)
        loss.backward(), optimizer.step(), optimizer.zero_grad()
        results.append(loss.item())
    return results
