"""A neural Turing machine and a DNC-like memory; slot attention; an LSTM cell with zoneout and layer norm."""

from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import List, NamedTuple, Optional, Tuple

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")
LSTMState = namedtuple("LSTMState", ["hx", "cx"])


class LayerNormLSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size, decompose_layernorm=False):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden_size, hidden_size))
        self.layernorm_i = nn.LayerNorm(4 * hidden_size)
        self.layernorm_h = nn.LayerNorm(4 * hidden_size)
        self.layernorm_c = nn.LayerNorm(hidden_size)

    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hx, cx = state
        igates = self.layernorm_i(torch.mm(input, self.weight_ih.t()))
        hgates = self.layernorm_h(torch.mm(hx, self.weight_hh.t()))
        ingate, forgetgate, cellgate, outgate = (igates + hgates).chunk(4, 1)
        ingate, forgetgate, outgate = (
            torch.sigmoid(ingate),
            torch.sigmoid(forgetgate),
            torch.sigmoid(outgate),
        )
        cy = self.layernorm_c((forgetgate * cx) + (ingate * torch.tanh(cellgate)))
        hy = outgate * torch.tanh(cy)
        return hy, (hy, cy)


def _convolve(w, s):
    assert s.size(0) == 3
    t = torch.cat([w[-1:], w, w[:1]])
    return F.conv1d(t.view(1, 1, -1), s.view(1, 1, -1)).view(-1)


class NTMMemory(nn.Module):
    def __init__(self, N, M):
        super().__init__()
        self.N, self.M = N, M
        self.register_buffer("mem_bias", torch.Tensor(N, M))
        stdev = 1 / (N + M) ** 0.5
        nn.init.uniform_(self.mem_bias, -stdev, stdev)
        self.mem_bias.copy_(torch.from_numpy(normal(N, M)) * stdev)

    def reset(self, batch_size):
        self.batch_size = batch_size
        self.memory = self.mem_bias.clone().repeat(batch_size, 1, 1)

    def read(self, w):
        return torch.matmul(w.unsqueeze(1), self.memory).squeeze(1)

    def write(self, w, e, a):
        self.prev_mem = self.memory
        self.memory = torch.Tensor(self.batch_size, self.N, self.M).to(w.device)
        erase = torch.matmul(w.unsqueeze(-1), e.unsqueeze(1))
        add = torch.matmul(w.unsqueeze(-1), a.unsqueeze(1))
        self.memory = self.prev_mem * (1 - erase) + add

    def address(self, k, beta, g, s, gamma, w_prev):
        k = k.view(self.batch_size, 1, -1)
        wc = F.softmax(
            beta * F.cosine_similarity(self.memory + 1e-16, k + 1e-16, dim=-1), dim=1
        )
        wg = g * wc + (1 - g) * w_prev
        result = torch.zeros(wg.size(), device=wg.device)
        for b in range(self.batch_size):
            result[b] = _convolve(wg[b], s[b])
        w = result**gamma
        return torch.div(w, torch.sum(w, dim=1).view(-1, 1) + 1e-16)


def _split_cols(mat, lengths):
    assert mat.size()[1] == sum(lengths), "Lengths must be summed to num columns"
    offsets = torch.cumsum(torch.LongTensor([0] + lengths), dim=0)
    results = []
    for s, e in zip(offsets[:-1], offsets[1:]):
        results += [mat[:, s:e]]
    return results


class NTM(nn.Module):
    def __init__(self, num_inputs, num_outputs, controller, memory):
        super().__init__()
        self.controller, self.memory = controller, memory
        size = controller.hidden_size
        self.lengths = [memory.M, 1, 1, 3, 1, memory.M, memory.M]
        self.fc_read = nn.Linear(size, sum(self.lengths[:5]))
        self.fc_write = nn.Linear(size, sum(self.lengths))
        self.fc_out = nn.Linear(size + memory.M, num_outputs)
        self.h_bias = nn.Parameter(torch.randn(1, size) * 0.05)

    def init_sequence(self, batch_size):
        self.memory.reset(batch_size)
        w = torch.zeros(batch_size, self.memory.N, device=self.h_bias.device)
        w.index_fill_(1, torch.tensor([0], device=w.device), 1.0)
        hx = self.h_bias.expand(batch_size, -1).contiguous()
        self.previous = (
            torch.zeros_like(w[:, : self.memory.M]),
            (w, w.clone()),
            LSTMState(hx, torch.zeros_like(hx)),
        )

    def _address(self, k, b, g, s, y, w_prev):
        return self.memory.address(
            k.clone(),
            F.softplus(b),
            torch.sigmoid(g),
            F.softmax(s, dim=1),
            1 + F.softplus(y),
            w_prev,
        )

    def forward(self, x=None):
        read, (wr, ww), state = self.previous
        if x is None:
            x = torch.zeros(
                self.memory.batch_size,
                self.controller.input_size - read.size(1),
                device=read.device,
            )
        out, state = self.controller(torch.cat([x, read], dim=1), state)
        k, b, g, s, y = _split_cols(self.fc_read(out), self.lengths[:5])
        wr = self._address(k, b, g, s, y, wr)
        read = self.memory.read(wr)
        k, b, g, s, y, e, a = _split_cols(self.fc_write(out), self.lengths)
        ww = self._address(k, b, g, s, y, ww)
        self.memory.write(ww, torch.sigmoid(e), a)
        self.previous = read, (wr, ww), LSTMState(*state)
        return torch.sigmoid(self.fc_out(torch.cat([out, read], dim=1)))


class Allocation(NamedTuple):
    usage: Tensor
    weights: Tensor


def allocation(
    usage: Tensor, write: Tensor, free: Optional[List[Tensor]] = None
) -> Allocation:
    usage = usage + (1 - usage) * (1 - torch.prod(1 - write.unsqueeze(1), 1))
    for gate in free or []:
        usage = usage * (1 - gate)
    usage = 1e-6 + (1 - 1e-6) * usage
    sorted_usage, phi = torch.topk(usage, usage.shape[1], dim=1, largest=False)
    cumprod = torch.cumprod(
        torch.cat((sorted_usage.new_ones(len(usage), 1), sorted_usage), 1), 1
    )[:, :-1]
    sorted_allocation = (1 - sorted_usage) * cumprod.squeeze()
    _, phi_rev = torch.topk(phi, k=usage.shape[1], dim=1, largest=False)
    return Allocation(usage, sorted_allocation.gather(1, phi_rev.long()))


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=2, eps=1e-8, hidden_dim=8):
        super().__init__()
        self.num_slots, self.iters, self.eps, self.scale = (
            num_slots,
            iters,
            eps,
            dim**-0.5,
        )
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.xavier_uniform_(self.slots_logsigma)
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden_dim),
            nn.ReLU(inplace=True),
            nn.Linear(hidden_dim, dim),
        )
        self.norm_input, self.norm_slots, self.norm_pre_ff = (
            nn.LayerNorm(dim) for _ in range(3)
        )

    def forward(self, inputs, num_slots=None):
        b, n, d, dtype = *inputs.shape, inputs.dtype
        n_s = num_slots if num_slots is not None else self.num_slots
        mu, sigma = (
            self.slots_mu.expand(b, n_s, -1),
            self.slots_logsigma.exp().expand(b, n_s, -1),
        )
        slots = mu + sigma * torch.from_numpy(normal(*mu.shape)).to(mu.device, dtype)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(
                b, -1, d
            )
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots


class SlotAutoEncoder(nn.Module):
    def __init__(self, resolution, dim):
        super().__init__()
        self.resolution = resolution
        self.encoder = nn.Conv2d(3, dim, 5, padding="same")
        self.position = nn.Linear(4, dim)
        axes = [torch.linspace(0.0, 1.0, steps=r) for r in resolution]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        self.register_buffer(
            "grid", torch.cat([grid, 1.0 - grid], dim=-1).unsqueeze(0), persistent=False
        )
        self.slots = SlotAttention(3, dim)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, 6, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(6, 4, 3, padding=1),
        )

    def forward(self, image):
        x = self.encoder(image).permute(0, 2, 3, 1) + self.position(self.grid)
        slots = self.slots(torch.flatten(x, 1, 2))
        b, n, d = slots.shape
        x = slots.reshape(-1, d)[:, :, None, None].tile(
            1, 1, self.resolution[0] // 2, self.resolution[1] // 2
        )
        x = self.decoder(x).unflatten(0, (b, n))
        recons, masks = x.split([3, 1], dim=2)
        masks = nn.Softmax(dim=1)(masks)
        return (recons * masks).sum(1), masks


def train(steps):
    memory = NTMMemory(5, 4)
    model = seeded(NTM(4, 3, LayerNormLSTMCell(8, 6), memory)).to(device)
    slots = seeded(SlotAutoEncoder((6, 6), 6)).to(device)
    optimizer = torch.optim.RMSprop(
        [{"params": model.parameters()}, {"params": slots.parameters(), "lr": 1e-3}],
        lr=2e-3,
        momentum=0.9,
        alpha=0.95,
        centered=True,
    )
    criterion = nn.BCELoss()
    bits = torch.from_numpy(integers(2, 3, 2, 3)).float().to(device)
    image = torch.from_numpy(normal(2, 3, 6, 6)).to(device).sigmoid()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        model.init_sequence(2)
        marked = F.pad(bits, (0, 1))
        for i in range(len(marked)):
            model(marked[i])
        outputs = torch.zeros(bits.size(), device=device)
        for i in range(len(bits)):
            outputs[i] = model()
        loss = criterion(outputs, bits)
        recon, masks = slots(image)
        loss = loss + F.mse_loss(recon, image)
        used = allocation(
            torch.sigmoid(model.memory.memory.mean(-1)),
            model.previous[1][1],
            [torch.full((2, 1), 0.1, device=device)],
        )
        loss = (
            loss
            + 0.1 * used.weights.var(dim=1, unbiased=False).sum()
            + 0.01 * torch.special.entr(masks).sum(1).mean()
        )
        loss.backward()
        for p in list(filter(lambda p: p.grad is not None, model.parameters())):
            p.grad.data.clamp_(-10, 10)
        optimizer.step()
        losses.append(loss.item())
    binarized = outputs.clone().data.cpu()
    binarized.apply_(lambda x: 0 if x < 0.5 else 1)
    cost = torch.sum(torch.abs(binarized - bits.cpu()))
    return [*losses, cost.item() / 2, masks.argmax(1).float().mean().item()]
