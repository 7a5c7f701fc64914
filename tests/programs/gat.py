"""Graph attention by hand: a dense mask with -9e15, leaky attention, several heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.parameter import Parameter

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / self.weight.size(1) ** 0.5
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        return output + self.bias if self.bias is not None else output

    def __repr__(self):
        return self.__class__.__name__ + " -> " + str(self.weight.shape[1])


class GraphAttention(nn.Module):
    def __init__(self, in_features, out_features, heads, concat=True, dropout=0.0):
        super().__init__()
        self.n_hidden = out_features // heads if concat else out_features
        self.heads, self.concat, self.dropout = heads, concat, dropout
        self.W = nn.Parameter(torch.empty(size=(in_features, self.n_hidden * heads)))
        self.a = nn.Parameter(torch.empty(size=(heads, 2 * self.n_hidden, 1)))
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)
        self.leakyrelu = nn.LeakyReLU(0.2)

    def forward(self, h, adj_mat):
        n_nodes = h.shape[0]
        h = torch.mm(h, self.W)
        h = F.dropout(h, p=self.dropout, training=self.training)
        h = h.view(n_nodes, self.heads, self.n_hidden).permute(1, 0, 2)
        source = torch.matmul(h, self.a[:, : self.n_hidden, :])
        target = torch.matmul(h, self.a[:, self.n_hidden :, :])
        e = self.leakyrelu(source + target.mT)
        mask = -9e16 * torch.ones_like(e)
        e = torch.where(adj_mat > 0, e, mask)
        attention = F.softmax(e, dim=-1)
        out = torch.matmul(attention, h)
        if self.concat:
            return out.permute(1, 0, 2).contiguous().view(n_nodes, -1)
        return out.mean(dim=0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc = GraphConvolution(6, 8)
        self.gat1 = GraphAttention(8, 8, heads=4)
        self.gat2 = GraphAttention(8, 3, heads=1, concat=False)

    def forward(self, x, norm, adj):
        x = F.relu(self.gc(x, norm))
        x = F.elu(self.gat1(x, adj))
        return F.log_softmax(self.gat2(x, adj), dim=1)


def train(steps):
    features = torch.from_numpy(normal(12, 6)).to(device)
    edges = torch.from_numpy(integers(12, 2, 30))
    labels = torch.LongTensor(integers(3, 12, seed=8)).to(device)
    adj = torch.zeros(12, 12)
    adj[edges[0], edges[1]] = 1
    adj[(edges[1], edges[0])] = 1.0
    adj = adj + adj.t().multiply(adj.t() > adj) - adj.multiply(adj.t() > adj)
    adj += torch.eye(12)
    adj.fill_diagonal_(1)
    degree_inv = adj.sum(1).pow(-0.5)
    degree_inv[torch.isinf(degree_inv)] = 0.0
    norm = torch.diag(degree_inv) @ adj @ torch.diag(degree_inv)
    adj, norm = adj.to(device), norm.to(device)
    idx = torch.arange(12)
    idx_train, idx_val = idx[:8], idx[8:]
    model = seeded(Net()).to(device)
    assert repr(model.gc) == "GraphConvolution -> 8"
    optimizer = optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    results = []
    for _ in range(steps):
        model.train()
        optimizer.zero_grad()
        output = model(features, norm, adj)
        loss = F.nll_loss(output[idx_train], labels[idx_train])
        loss.backward()
        optimizer.step()
        preds = output[idx_val].max(1)[1].type_as(labels)
        correct = preds.eq(labels[idx_val]).double().sum()
        results += [loss.item(), correct.item()]
    return results
