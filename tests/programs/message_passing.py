"""GCN with sparse-ish normalisation, GAT on edges, GraphSAGE, message passing with index_add_/scatter_reduce."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class MessagePassing(nn.Module):
    def __init__(self, aggr="add"):
        super().__init__()
        self.aggr = aggr

    def aggregate(self, msg, index, n):
        out = msg.new_zeros((n,) + msg.shape[1:])
        if self.aggr == "add":
            return out.index_add_(0, index, msg)
        if self.aggr == "mean":
            count = torch.zeros(n, device=msg.device).scatter_add_(
                0, index, torch.ones_like(index, dtype=msg.dtype)
            )
            return out.index_add(0, index, msg) / count.clamp(min=1).unsqueeze(-1)
        idx = index.unsqueeze(-1).expand_as(msg)
        return out.scatter_reduce(0, idx, msg, reduce="amax", include_self=False)


class GCNConv(MessagePassing):
    def __init__(self, i, o):
        super().__init__("add")
        self.lin, self.bias = nn.Linear(i, o, bias=False), nn.Parameter(torch.empty(o))
        self.reset_parameters()

    def reset_parameters(self):
        self.lin.reset_parameters()
        self.bias.data.zero_()

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n, device=x.device).repeat(2, 1)
        row, col = torch.cat([edge_index, loops], dim=1)
        deg = torch.bincount(col, minlength=n).to(x.dtype)
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        x = self.lin(x)
        return self.aggregate(norm.view(-1, 1) * x[row], col, n) + self.bias


class GATConv(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.h, self.o = heads, o
        self.lin = nn.Linear(i, heads * o, bias=False)
        self.att_src, self.att_dst = (
            nn.Parameter(torch.empty(1, heads, o)),
            nn.Parameter(torch.empty(1, heads, o)),
        )
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        n = x.shape[0]
        src, dst = edge_index[0], edge_index[1]
        h = self.lin(x).view(-1, self.h, self.o)
        alpha = F.leaky_relu(
            (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(dim=-1)[dst], 0.2
        )
        amax = torch.full((n, self.h), float("-inf"), device=x.device).scatter_reduce(
            0, dst[:, None].expand(-1, self.h), alpha.detach(), "amax"
        )
        alpha = (alpha - amax[dst]).exp()
        denom = torch.zeros(n, self.h, device=x.device).index_add(0, dst, alpha)
        alpha = alpha / (denom[dst] + 1e-16)
        out = torch.zeros(n, self.h, self.o, device=x.device).index_add(
            0, dst, h[src] * alpha.unsqueeze(-1)
        )
        return out.flatten(1)


class SAGEConv(MessagePassing):
    def __init__(self, i, o, aggr):
        super().__init__(aggr)
        self.lin_l, self.lin_r = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, edge_index):
        out = self.lin_l(self.aggregate(x[edge_index[0]], edge_index[1], x.size(0)))
        return F.normalize(out + self.lin_r(x), p=2.0, dim=-1)


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        mk = {
            "gcn": lambda i, o: GCNConv(i, o),
            "gat": lambda i, o: GATConv(i, o // 2, 2),
            "sage": lambda i, o: SAGEConv(i, o, "mean"),
            "max": lambda i, o: SAGEConv(i, o, "max"),
        }[kind]
        self.conv1, self.conv2 = mk(8, 12), mk(12, 4)

    def forward(self, x, e):
        return F.log_softmax(self.conv2(F.elu(self.conv1(x, e)), e), dim=1)


def train(steps):
    n = 20
    x = torch.from_numpy(normal(n, 8)).to(device)
    edges = torch.from_numpy(integers(n, 2, 60)).to(device)
    edges = torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)
    y = x[:, :4].argmax(1)
    train_mask = torch.zeros(n, dtype=torch.bool, device=device)
    train_mask[:14] = True
    losses = []
    for kind in ("gcn", "gat", "sage", "max"):
        model = seeded(Net(kind)).to(device)
        opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(steps // 4):
            model.train()
            opt.zero_grad()
            out = model(x, edges)
            loss = F.nll_loss(out[train_mask], y[train_mask])
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        pred = model(x, edges).argmax(dim=-1)
        acc = int((pred[~train_mask] == y[~train_mask]).sum()) / int(
            (~train_mask).sum()
        )
        losses.append(acc)
    adj = torch.zeros(n, n, device=device)
    adj[edges[0], edges[1]] = 1.0
    lap = torch.diag(adj.sum(1)) - adj
    losses += torch.linalg.eigvalsh(lap)[-3:].tolist()
    return losses
