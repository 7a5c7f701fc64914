"""TabNet: sparsemax and entmax as Functions over sorted rows, ghost batch norms, masks that are used up, oblivious trees."""

import math

import torch
from torch import nn
from torch.autograd import Function

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class SparsemaxFunction(Function):
    @staticmethod
    def forward(ctx, input, dim=-1):
        ctx.dim = dim
        max_val, _ = input.max(dim=dim, keepdim=True)
        input -= max_val
        tau, supp_size = SparsemaxFunction._threshold_and_support(input, dim=dim)
        output = torch.clamp(input - tau, min=0)
        ctx.save_for_backward(supp_size, output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        supp_size, output = ctx.saved_tensors
        dim = ctx.dim
        grad_input = grad_output.clone()
        grad_input[output == 0] = 0
        v_hat = grad_input.sum(dim=dim) / supp_size.to(output.dtype).squeeze()
        v_hat = v_hat.unsqueeze(dim)
        return torch.where(output != 0, grad_input - v_hat, grad_input), None

    @staticmethod
    def _threshold_and_support(input, dim=-1):
        input_srt, _ = torch.sort(input, descending=True, dim=dim)
        input_cumsum = input_srt.cumsum(dim) - 1
        d = input.size(dim)
        view = [1] * input.dim()
        view[0] = -1
        rhos = (
            torch.arange(1, d + 1, device=input.device, dtype=input.dtype)
            .view(view)
            .transpose(0, dim)
        )
        support = rhos * input_srt > input_cumsum
        support_size = support.sum(dim=dim).unsqueeze(dim)
        tau = input_cumsum.gather(dim, support_size - 1)
        tau /= support_size.to(input.dtype)
        return tau, support_size


class Entmoid15(Function):
    @staticmethod
    def forward(ctx, input):
        x = 0.5 * abs(input)
        tau = (x + torch.sqrt(torch.relu(8 - x**2))) / 2
        tau.masked_fill_(tau <= x, 2.0)
        y_neg = 0.25 * torch.relu(tau - x) ** 2
        output = torch.where(input >= 0, 1 - y_neg, y_neg)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        (output,) = ctx.saved_tensors
        gppr0, gppr1 = output.sqrt(), (1 - output).sqrt()
        grad_input = grad_output * gppr0
        q = grad_input / (gppr0 + gppr1)
        return grad_input - q * gppr0


class GBN(nn.Module):
    def __init__(self, input_dim, virtual_batch_size=4, momentum=0.01):
        super().__init__()
        self.virtual_batch_size = virtual_batch_size
        self.bn = nn.BatchNorm1d(input_dim, momentum=momentum)

    def forward(self, x):
        chunks = x.chunk(int(math.ceil(x.shape[0] / self.virtual_batch_size)), 0)
        return torch.cat([self.bn(x_) for x_ in chunks], dim=0)


class TabNet(nn.Module):
    def __init__(self, n=6, n_d=4, n_a=4, steps=3, gamma=1.3):
        super().__init__()
        self.n_d, self.gamma, self.epsilon = n_d, gamma, 1e-15
        self.initial_bn = nn.BatchNorm1d(n, momentum=0.01)
        shared = nn.Linear(n, 2 * (n_d + n_a), bias=False)
        self.transformers = nn.ModuleList()
        self.attentive = nn.ModuleList()
        for _ in range(steps + 1):
            self.transformers.append(nn.ModuleList([shared, GBN(2 * (n_d + n_a))]))
        for _ in range(steps):
            self.attentive.append(nn.Sequential(nn.Linear(n_a, n, bias=False), GBN(n)))
        self.final = nn.Linear(n_d, 3, bias=False)
        self.trees = nn.Parameter(torch.zeros(3, n))
        self.thresholds = nn.Parameter(torch.zeros(3))
        self.leaves = nn.Parameter(torch.zeros(8, 3))
        self.register_buffer(
            "codes", torch.stack([torch.arange(8) >> k & 1 for k in range(3)]).float()
        )

    def transform(self, x, k):
        lin, bn = self.transformers[k]
        return nn.functional.glu(bn(lin(x)), dim=-1)

    def tree(self, x):
        split = (
            x @ SparsemaxFunction.apply(self.trees.clone(), -1).t() - self.thresholds
        )
        right = Entmoid15.apply(split).unsqueeze(-1)
        return (
            torch.prod(right * self.codes + (1 - right) * (1 - self.codes), dim=1)
            @ self.leaves
        )

    def forward(self, x):
        x = self.initial_bn(x)
        prior = torch.ones(x.shape, device=x.device)
        M_loss, out = 0, []
        att = self.transform(x, 0)[:, self.n_d :]
        for k, attend in enumerate(self.attentive):
            M = SparsemaxFunction.apply(torch.mul(attend(att), prior), -1)
            M_loss += torch.mean(
                torch.sum(torch.mul(M, torch.log(M + self.epsilon)), dim=1)
            )
            prior = torch.mul(self.gamma - M, prior)
            made = self.transform(torch.mul(M, x), k + 1)
            out.append(torch.relu(made[:, : self.n_d]))
            att = made[:, self.n_d :]
        res = torch.sum(torch.stack(out, dim=0), dim=0)
        return self.final(res) + self.tree(x), M_loss / len(self.attentive), prior


def train(steps):
    model = seeded(TabNet()).to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=3
    )
    x = torch.from_numpy(normal(12, 6)).to(device)
    y = torch.from_numpy(integers(3, 12)).to(device)
    results = []
    for _ in range(steps):
        out, m_loss, prior = model(x)
        loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5], device=device))(
            out, y
        )
        loss = loss - 1e-3 * m_loss
        for param in model.parameters():
            param.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step(loss.detach())
        results += [loss.item(), (prior == 1.3**3).float().mean().item()]
    results += [
        optimizer.param_groups[0]["lr"],
        model.transformers[1][1].bn.num_batches_tracked.item(),
    ]
    return results
