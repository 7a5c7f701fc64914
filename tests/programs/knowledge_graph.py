"""Link prediction on a knowledge graph: TransE, DistMult, ComplEx, RotatE, TuckER; filtered ranks."""

from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.nn import Parameter
from torch.nn import functional as F
from torch.nn.init import xavier_normal_, xavier_uniform_
from torch.utils.data import DataLoader, SequentialSampler, TensorDataset

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class KGEModel(nn.Module):
    def __init__(self, nentity, nrelation, dim, gamma, name):
        super(KGEModel, self).__init__()
        self.model_name, self.epsilon = name, 2.0
        self.gamma = nn.Parameter(torch.Tensor([gamma]), requires_grad=False)
        self.embedding_range = nn.Parameter(
            torch.Tensor([(self.gamma.item() + self.epsilon) / dim]),
            requires_grad=False,
        )
        double_e, double_r = name in ("RotatE", "ComplEx"), name == "ComplEx"
        self.entity_embedding = nn.Parameter(
            torch.zeros(nentity, dim * 2 if double_e else dim)
        )
        self.relation_embedding = nn.Parameter(
            torch.zeros(nrelation, dim * 2 if double_r else dim)
        )
        nn.init.uniform_(
            tensor=self.entity_embedding,
            a=-self.embedding_range.item(),
            b=self.embedding_range.item(),
        )
        nn.init.uniform_(
            tensor=self.relation_embedding,
            a=-self.embedding_range.item(),
            b=self.embedding_range.item(),
        )

    def forward(self, sample, mode="single"):
        if mode == "single":
            head = torch.index_select(
                self.entity_embedding, dim=0, index=sample[:, 0]
            ).unsqueeze(1)
            tail = torch.index_select(
                self.entity_embedding, dim=0, index=sample[:, 2]
            ).unsqueeze(1)
            relation = torch.index_select(
                self.relation_embedding, dim=0, index=sample[:, 1]
            ).unsqueeze(1)
        else:
            positive, others = sample
            batch_size, count = others.size(0), others.size(1)
            relation = torch.index_select(
                self.relation_embedding, dim=0, index=positive[:, 1]
            ).unsqueeze(1)
            many = torch.index_select(
                self.entity_embedding, dim=0, index=others.view(-1)
            ).view(batch_size, count, -1)
            fixed = positive[:, 2] if mode == "head-batch" else positive[:, 0]
            one = torch.index_select(
                self.entity_embedding, dim=0, index=fixed
            ).unsqueeze(1)
            head, tail = (many, one) if mode == "head-batch" else (one, many)
        return getattr(self, self.model_name)(head, relation, tail)

    def TransE(self, head, relation, tail):
        score = (head + relation) - tail
        return self.gamma.item() - torch.norm(score, p=1, dim=2)

    def DistMult(self, head, relation, tail):
        return (head * relation * tail).sum(dim=2)

    def ComplEx(self, head, relation, tail):
        h, r, t = (
            torch.complex(*torch.chunk(x, 2, dim=2)) for x in (head, relation, tail)
        )
        return (h * r * t.conj()).real.sum(dim=-1)

    def RotatE(self, head, relation, tail):
        re_head, im_head = torch.chunk(head, 2, dim=2)
        re_tail, im_tail = torch.chunk(tail, 2, dim=2)
        phase = relation / (self.embedding_range.item() / 3.14159265)
        rotation = torch.polar(torch.ones_like(phase), phase)
        moved = torch.view_as_real(torch.complex(re_head, im_head) * rotation)
        score = torch.stack([moved[..., 0] - re_tail, moved[..., 1] - im_tail], dim=0)
        return self.gamma.item() - score.norm(dim=0).sum(dim=2)


class TuckER(nn.Module):
    def __init__(self, n, r, d1, d2):
        super().__init__()
        self.E = nn.Embedding(n, d1, padding_idx=0)
        self.R = nn.Embedding(r, d2, max_norm=1.0)
        self.W = Parameter(
            torch.tensor(
                np.random.RandomState(1).uniform(-1, 1, (d2, d1, d1)),
                dtype=torch.float,
                requires_grad=True,
            )
        )
        self.bn0, self.bn1 = nn.BatchNorm1d(d1), nn.BatchNorm1d(d1)
        self.register_parameter("b", Parameter(torch.zeros(n)))

    def init(self):
        xavier_normal_(self.E.weight.data)
        xavier_uniform_(self.R.weight.data)

    def forward(self, e1_idx, r_idx):
        e1 = self.E(e1_idx)
        x = self.bn0(e1).view(-1, 1, e1.size(1))
        r = self.R(r_idx)
        W_mat = torch.mm(r, self.W.view(r.size(1), -1)).view(-1, e1.size(1), e1.size(1))
        x = self.bn1(torch.bmm(x, W_mat).view(-1, e1.size(1)))
        x = torch.mm(x, self.E.weight.transpose(1, 0)) + self.b.expand(len(x), -1)
        return torch.sigmoid(x)


def train_step(
    model,
    optimizer,
    positive,
    negative,
    weight,
    mode,
    adversarial=1.0,
    regularization=1e-3,
):
    model.train()
    optimizer.zero_grad()
    negative_score = model((positive, negative), mode=mode)
    negative_score = (
        F.softmax(negative_score * adversarial, dim=1).detach()
        * F.logsigmoid(-negative_score)
    ).sum(dim=1)
    positive_score = F.logsigmoid(model(positive)).squeeze(dim=1)
    loss = (
        -(weight * positive_score).sum() / weight.sum()
        - (weight * negative_score).sum() / weight.sum()
    ) / 2
    if regularization != 0.0:
        reg = regularization * (
            model.entity_embedding.norm(p=3) ** 3
            + model.relation_embedding.norm(p=3).norm(p=3) ** 3
        )
        loss = loss + reg
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def ranks(model, triples, filters, nentity):
    model.eval()
    found = []
    loader = DataLoader(
        TensorDataset(triples), sampler=SequentialSampler(triples), batch_size=4
    )
    for (batch,) in loader:
        batch = batch.to(device)
        candidates = (
            torch.arange(nentity, device=device)
            .expand(len(batch), nentity)
            .contiguous()
        )
        score = model((batch, candidates), "tail-batch")
        for i, (h, r, t) in enumerate(batch.tolist()):
            target = score[i, t].item()
            score[i, list(filters[h, r])] = -1e6
            score[i, t] = target
        argsort = torch.argsort(
            score.double().round(decimals=4), dim=1, descending=True, stable=True
        )
        for i in range(len(batch)):
            ranking = (argsort[i, :] == batch[i, 2]).nonzero(as_tuple=False)
            assert ranking.size(0) == 1
            found.append(1.0 / (1 + ranking.item()))
    return {
        "MRR": sum(found) / len(found),
        "HITS@3": float(np.mean([x >= 1 / 3 for x in found])),
    }


def train(steps):
    torch.manual_seed(1)
    nentity, nrelation = 12, 3
    triples = torch.from_numpy(
        np.stack(
            [
                integers(nentity, 24, seed=5),
                integers(nrelation, 24, seed=6),
                integers(nentity, 24, seed=7),
            ],
            1,
        )
    )
    triples = torch.unique(triples, dim=0)
    filters, counts = defaultdict(set), defaultdict(lambda: 3)
    for h, r, t in triples.tolist():
        filters[h, r].add(t)
        counts[h, r] += 1
    weights = torch.tensor(
        [counts[h, r] for h, r, _ in triples.tolist()], dtype=torch.float
    ).rsqrt()
    losses = []
    for name in ("TransE", "DistMult", "ComplEx", "RotatE"):
        model = KGEModel(nentity, nrelation, 4, 6.0, name).to(device)
        with torch.no_grad():
            for parameter in filter(lambda p: p.requires_grad, model.parameters()):
                parameter.copy_(
                    torch.from_numpy(0.5 * normal(*parameter.shape)).to(device)
                )
        optimizer = torch.optim.Adam(
            filter(lambda p: p.requires_grad, model.parameters()), lr=0.05
        )
        for step in range(steps // 4):
            pick = torch.from_numpy(integers(len(triples), 6, seed=step))
            batch = triples[pick].to(device)
            negative = torch.from_numpy(integers(nentity, 6, 5, seed=100 + step)).to(
                device
            )
            mode = "head-batch" if step % 2 == 0 else "tail-batch"
            losses.append(
                train_step(
                    model, optimizer, batch, negative, weights[pick].to(device), mode
                )
            )
        losses += ranks(model, triples, filters, nentity).values()
    tucker = seeded(TuckER(nentity, nrelation, 4, 3)).to(device)
    optimizer = torch.optim.Adam(tucker.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    pairs = list(filters)
    targets = np.zeros((len(pairs), nentity), np.float32)
    for row, pair in enumerate(pairs):
        targets[row, list(filters[pair])] = 1.0
    targets = torch.FloatTensor(targets).to(device)
    targets = ((1.0 - 0.1) * targets) + (1.0 / targets.size(1))
    index = torch.tensor(pairs, device=device)
    criterion = nn.BCELoss()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = criterion(tucker(index[:, 0], index[:, 1]), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
