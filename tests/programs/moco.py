"""MoCo: a key encoder by momentum, a queue with a pointer buffer, SimCLR and BYOL losses."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MoCo(nn.Module):
    def __init__(self, base_encoder, dim=8, K=16, m=0.9, T=0.2):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = base_encoder
        self.encoder_k = copy.deepcopy(base_encoder)
        for param_q, param_k in zip(
            self.encoder_q.parameters(), self.encoder_k.parameters()
        ):
            param_k.data.copy_(param_q.data)
            param_k.requires_grad = False
        self.register_buffer("queue", torch.from_numpy(normal(dim, K, seed=7)))
        self.queue = nn.functional.normalize(self.queue, dim=0)
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update_key_encoder(self):
        for param_q, param_k in zip(
            self.encoder_q.parameters(), self.encoder_k.parameters()
        ):
            param_k.data = param_k.data * self.m + param_q.data * (1.0 - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        batch_size = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.K % batch_size == 0
        self.queue[:, ptr : ptr + batch_size] = keys.T
        ptr = (ptr + batch_size) % self.K
        self.queue_ptr[0] = ptr

    def forward(self, im_q, im_k, shuffle):
        q = nn.functional.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update_key_encoder()
            idx_unshuffle = torch.argsort(shuffle)
            k = self.encoder_k(im_k[shuffle])
            k = nn.functional.normalize(k, dim=1)[idx_unshuffle]
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1)
        logits /= self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long).to(logits.device)
        self._dequeue_and_enqueue(k)
        return logits, labels, q, k


def info_nce(features, n_views=2, temperature=0.5):
    labels = torch.cat(
        [torch.arange(len(features) // 2) for i in range(n_views)], dim=0
    )
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float().to(features.device)
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool).to(features.device)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    return logits / temperature, torch.zeros(logits.shape[0], dtype=torch.long).to(
        features.device
    )


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        batch_size = target.size(0)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [
            correct[:k]
            .reshape(-1)
            .float()
            .sum(0, keepdim=True)
            .mul_(100.0 / batch_size)
            for k in topk
        ]


def train(steps):
    encoder = seeded(
        nn.Sequential(
            nn.Linear(6, 16),
            nn.BatchNorm1d(16),
            nn.ReLU(inplace=True),
            nn.Linear(16, 8),
        )
    )
    model = MoCo(encoder).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(
        filter(lambda p: p.requires_grad, model.parameters()),
        0.05,
        momentum=0.9,
        weight_decay=1e-4,
    )
    data = torch.from_numpy(normal(8, 6)).to(device)
    noise = 0.2 * torch.from_numpy(normal(steps, 2, 8, 6, seed=3)).to(device)
    shuffle = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4]).to(device)
    results = []
    for i in range(steps):
        batch = slice(0, 8) if i % 2 else slice(0, 4)
        order = shuffle if i % 2 else torch.tensor([2, 0, 3, 1]).to(device)
        if i % 4 == 2:
            order = torch.arange(3, -1, -1, device=device)
        output, target, q, k = model(
            data[batch] + noise[i, 0, batch], data[batch] + noise[i, 1, batch], order
        )
        loss = criterion(output, target)
        features = torch.cat(
            [model.encoder_q(data + v) for v in noise[i].unbind(0)], dim=0
        )
        logits, labels = info_nce(features)
        loss = (
            loss
            + 0.5 * criterion(logits, labels)
            + (2 - 2 * F.cosine_similarity(q, k, dim=-1)).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        results += [
            loss.item(),
            acc1[0].item(),
            acc5.cpu().numpy()[0],
            float(model.queue_ptr),
        ]
        if (i + 1) % 4 in (1, 3):
            model.queue_ptr.fill_(8 * (i // 2 % 2))
    return results + model.queue.sum(1).tolist()
