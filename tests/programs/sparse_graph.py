"""GCN on a sparse adjacency, scatter-style message passing, GATv2, link prediction, early stopping, graph pooling."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Linear, Parameter
from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def normalize(adj):
    rowsum = np.array(adj.sum(1))
    inv = np.power(rowsum, -1).flatten()
    inv[np.isinf(inv)] = 0.0
    return np.diag(inv) @ adj


def to_sparse(adj):
    idx = np.vstack(adj.nonzero()).astype(np.int64)
    return torch.sparse_coo_tensor(
        torch.from_numpy(idx),
        torch.from_numpy(adj[adj.nonzero()].astype(np.float32)),
        torch.Size(adj.shape),
    )


def scatter(src, index, dim_size, reduce="sum"):
    idx = index.view(-1, *[1] * (src.dim() - 1)).expand_as(src)
    if reduce in ("sum", "add"):
        return src.new_zeros(dim_size, *src.shape[1:]).scatter_add_(0, idx, src)
    if reduce == "mean":
        count = (
            src.new_zeros(dim_size)
            .scatter_add_(0, index, src.new_ones(src.size(0)))
            .clamp_(min=1)
        )
        return scatter(src, index, dim_size) / count.view(-1, *[1] * (src.dim() - 1))
    return src.new_zeros(dim_size, *src.shape[1:]).scatter_reduce_(
        0, idx, src, reduce="amax", include_self=False
    )


def softmax(src, index, num):
    src_max = scatter(src.detach(), index, num, "max")
    out = (src - src_max.index_select(0, index)).exp()
    return out / (scatter(out, index, num) + 1e-16).index_select(0, index)


class GraphConvolution(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(i, o))
        self.bias = Parameter(torch.FloatTensor(o))
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / np.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, x, adj):
        return torch.spmm(adj, torch.mm(x, self.weight)) + self.bias

    def __repr__(self):
        return (
            self.__class__.__name__
            + " ("
            + str(self.weight.size(0))
            + " -> "
            + str(self.weight.size(1))
            + ")"
        )


class GATv2(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.h, self.o = heads, o
        self.lin_l, self.lin_r = Linear(i, heads * o), Linear(i, heads * o, bias=False)
        self.att = Parameter(torch.empty(1, heads, o))
        nn.init.xavier_uniform_(
            self.att, gain=nn.init.calculate_gain("leaky_relu", 0.2)
        )

    def forward(self, x, edge_index):
        src, dst = edge_index
        l, r = (
            self.lin_l(x).view(-1, self.h, self.o),
            self.lin_r(x).view(-1, self.h, self.o),
        )
        e = (F.leaky_relu(l[src] + r[dst], 0.2) * self.att).sum(-1)
        a = softmax(e, dst, x.size(0))
        return scatter(l[src] * a.unsqueeze(-1), dst, x.size(0)).flatten(1), a


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gat = GraphConvolution(5, 6), GATv2(6, 3, 2)
        self.cls = nn.Linear(6, 3)

    def forward(self, x, adj, edge_index):
        x = F.dropout(F.relu(self.gc1(x, adj)), 0.0, training=self.training)
        z, a = self.gat(x, edge_index)
        return F.log_softmax(self.cls(F.elu(z)), dim=1), z, a


def train(steps):
    rng = np.random.default_rng(3)
    n = 12
    adj = (rng.random((n, n)) < 0.25).astype(np.float64)
    adj = adj + adj.T * (adj.T > adj) - adj * (adj.T > adj)
    adj = normalize(adj + np.eye(n) * (np.diag(adj) == 0))
    sp = to_sparse(adj).coalesce().to(device)
    edge_index = sp.indices()
    x = torch.FloatTensor(normal(n, 5)).to(device)
    labels = torch.LongTensor(integers(3, n)).to(device)
    idx_train = torch.LongTensor(range(8)).to(device)
    train_mask = (
        torch.zeros(n, dtype=torch.bool)
        .index_fill_(0, torch.arange(8), True)
        .to(device)
    )
    net = seeded(Net()).to(device)
    net.att_scale = 1
    opt = torch.optim.Adam(
        [
            dict(params=net.gc1.parameters(), weight_decay=5e-4),
            dict(params=net.gat.parameters()),
            dict(params=net.cls.parameters()),
        ],
        lr=0.01,
        eps=1e-4,
    )
    batch = torch.tensor([0] * 5 + [1] * 4 + [2] * 3, device=device)
    out = []
    for epoch in range(steps):
        net.train()
        opt.zero_grad()
        logits, z, a = net(x, sp, edge_index)
        nll = F.nll_loss(logits[idx_train], labels[idx_train])
        pos = (z[edge_index[0]] * z[edge_index[1]]).sum(-1)
        neg_src = torch.arange(n, device=device)
        neg = (z[neg_src] * z[neg_src.roll(5)]).sum(dim=-1)
        link = F.binary_cross_entropy_with_logits(
            torch.cat([pos, neg]),
            torch.cat([torch.ones_like(pos), torch.zeros_like(neg)]),
            pos_weight=torch.tensor(0.5, device=device),
        )
        pooled = torch.cat(
            [scatter(z, batch, 3, r) for r in ("mean", "max", "sum")], -1
        )
        loss = nll + 0.1 * link + 1e-3 * pooled.pow(2).mean()
        loss.backward()
        opt.step()
        with torch.no_grad():
            preds = logits.max(1)[1].type_as(labels)
            acc = preds.eq(labels).double()[~train_mask].sum() / (~train_mask).sum()
        out += [loss.item(), nll.item(), acc.item(), a.max().item()]
    deg = torch.sparse.sum(sp, dim=1).to_dense()
    two_hop = torch.sparse.mm(sp, sp).to_dense()
    return (
        out
        + deg.tolist()
        + two_hop.diagonal().tolist()
        + list(torch.bincount(edge_index[1], minlength=n).tolist())
        + torch.unique(edge_index[0], return_counts=True)[1].tolist()
    )
