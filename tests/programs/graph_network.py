"""A graph convolution with scatter and degree normalisation, and attention on edges."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def scatter_softmax(src, index, num_nodes):
    high = torch.full((num_nodes,), float("-inf"), device=src.device)
    high = high.scatter_reduce(0, index, src.detach(), reduce="amax")
    out = (src - high.index_select(0, index)).exp()
    total = torch.zeros(num_nodes, device=src.device).scatter_add_(0, index, out)
    return out / (total[index] + 1e-16)


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.empty(out_channels))
        nn.init.zeros_(self.bias)

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.bincount(col, minlength=x.size(0)).to(x.dtype)
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        x = self.lin(x)
        out = torch.zeros_like(x)
        out.index_add_(0, col, norm.view(-1, 1) * x[row])
        return out + self.bias


class GATConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, out_channels))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        h = self.lin(x)
        alpha = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = scatter_softmax(F.leaky_relu(alpha, 0.2), dst, x.size(0))
        message = alpha.unsqueeze(-1) * h.index_select(0, src)
        index = dst.unsqueeze(-1).expand_as(message)
        return torch.zeros_like(h).scatter_add(0, index, message)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(6, 12)
        self.conv2 = GATConv(12, 3)

    def forward(self, x, edge_index):
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.0, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=1)


def train(steps):
    nodes = 15
    x = torch.from_numpy(normal(nodes, 6)).to(device)
    edges = torch.from_numpy(integers(nodes, 2, 40))
    loops = torch.arange(nodes).unsqueeze(0).repeat(2, 1)
    edge_index = torch.cat([edges, loops], dim=1).to(device)
    y = torch.from_numpy(integers(3, nodes, seed=3)).to(device)
    train_mask = torch.zeros(nodes, dtype=torch.bool)
    train_mask[:10] = True
    train_mask = train_mask.to(device)
    model = seeded(Net()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        out = model(x, edge_index)
        loss = F.nll_loss(out[train_mask], y[train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    model.eval()
    pred = model(x, edge_index).argmax(dim=-1)
    correct = int((pred[~train_mask] == y[~train_mask]).sum())
    return [*losses, correct / int((~train_mask).sum())]
