"""A child-sum TreeLSTM over nested tuples, with dictionaries of tensors, one tree at a time."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import seeded

device = torch.device("cpu")
trees = [((1, 2), 3), (4, (5, (1, 3))), (2, 4, 1), ((3, 3), (2, 5))]


class ChildSumTreeLSTM(nn.Module):
    def __init__(self, vocab, in_dim, mem_dim):
        super().__init__()
        self.emb = nn.Embedding(
            vocab, in_dim, padding_idx=0, sparse=False, max_norm=2.0
        )
        self.ioux, self.iouh = (
            nn.Linear(in_dim, 3 * mem_dim),
            nn.Linear(mem_dim, 3 * mem_dim),
        )
        self.fx, self.fh = nn.Linear(in_dim, mem_dim), nn.Linear(mem_dim, mem_dim)
        self.mem_dim = mem_dim

    def node_forward(self, inputs, child_c, child_h):
        child_h_sum = torch.sum(child_h, dim=0, keepdim=True)
        iou = self.ioux(inputs) + self.iouh(child_h_sum)
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        f = torch.sigmoid(self.fh(child_h) + self.fx(inputs).repeat(len(child_h), 1))
        c = torch.mul(i, u) + torch.sum(torch.mul(f, child_c), dim=0, keepdim=True)
        return c, torch.mul(o, torch.tanh(c))

    def forward(self, tree):
        if isinstance(tree, int):
            inputs = self.emb(torch.tensor([tree], device=device))
            zeros = inputs.detach().new(1, self.mem_dim).fill_(0.0).requires_grad_()
            return self.node_forward(inputs, zeros, zeros.clone())
        states = [self(child) for child in tree]
        child_c, child_h = map(lambda x: torch.cat(x, dim=0), zip(*states))
        return self.node_forward(
            self.emb(torch.tensor([0]).to(device)), child_c, child_h
        )


def train(steps):
    model = seeded(ChildSumTreeLSTM(6, 4, 5), 1).to(device)
    head = seeded(nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(dim=-1)), 2).to(device)
    criterion = nn.KLDivLoss(reduction="batchmean")
    optimizer = torch.optim.Adagrad(
        [*model.parameters(), *head.parameters()], lr=0.05, weight_decay=1e-4
    )
    results, loss_sum = [], 0.0
    for step in range(steps):
        _, h = model(trees[step % 4])
        target = torch.zeros(1, 3)
        target[0, step % 3], target[0, (step + 1) % 3] = 0.7, 0.3
        loss = criterion(head(h), target.to(device))
        loss_sum += loss.item()
        loss.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
        results += [loss.item(), h.norm(p=1).item()]
    return results + [
        loss_sum,
        F.pairwise_distance(model.emb.weight[1:3], model.emb.weight[3:5]).sum().item(),
    ]
