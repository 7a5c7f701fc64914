"""torch.compile, jit.script and jit.trace in one training script; jit.save; fork-free inference."""

import time
from typing import List, NamedTuple, Optional, Tuple

import torch
import torch._dynamo
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Output(NamedTuple):
    logits: Tensor
    hidden: Optional[Tensor] = None


@torch.jit.script
def fused_gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / 1.41421))


@torch.jit.script
def bias_gelu_back(g, bias, y):
    x = bias + y
    tanh_out = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
    ff = 0.5 * x * (
        (1 - tanh_out * tanh_out) * (0.79788456 + 0.1070322243 * x * x)
    ) + 0.5 * (1 + tanh_out)
    return ff * g


class LSTMCell(torch.jit.ScriptModule):
    def __init__(self, input_size, hidden_size):
        super(LSTMCell, self).__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden_size, hidden_size))
        self.bias_ih = nn.Parameter(torch.randn(4 * hidden_size))
        self.bias_hh = nn.Parameter(torch.randn(4 * hidden_size))

    @torch.jit.script_method
    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hx, cx = state
        gates = (
            torch.mm(input, self.weight_ih.t())
            + self.bias_ih
            + torch.mm(hx, self.weight_hh.t())
            + self.bias_hh
        )
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        ingate = torch.sigmoid(ingate)
        forgetgate = torch.sigmoid(forgetgate)
        cellgate = torch.tanh(cellgate)
        outgate = torch.sigmoid(outgate)
        cy = (forgetgate * cx) + (ingate * cellgate)
        hy = outgate * torch.tanh(cy)
        return hy, (hy, cy)


class LSTMLayer(nn.Module):
    def __init__(self, cell, *cell_args):
        super().__init__()
        self.cell = cell(*cell_args)

    def forward(
        self, input: Tensor, state: Tuple[Tensor, Tensor]
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = input.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(outputs), state


class Net(nn.Module):
    __constants__ = ["hidden"]
    hidden: torch.jit.Final[int]

    def __init__(self, vocab=7, hidden=6):
        super().__init__()
        self.hidden = hidden
        self.emb = nn.Embedding(vocab, 5)
        self.rnn = LSTMLayer(LSTMCell, 5, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x: Tensor) -> Output:
        e = self.emb(x).transpose(0, 1)
        h = torch.zeros(x.size(0), self.hidden, device=x.device)
        if torch.jit.is_scripting():
            pass
        y, _ = self.rnn(e, (h, h))
        y = fused_gelu(y)
        return Output(self.out(y.transpose(0, 1)), y)

    @torch.jit.export
    def generate(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = torch.cat([x, self(x).logits[:, -1].argmax(-1, keepdim=True)], 1)
        return x


def timed(fn):
    start = time.perf_counter()
    result = fn()
    return result, time.perf_counter() - start


def train(steps):
    torch._dynamo.config.suppress_errors = True
    torch.set_float32_matmul_precision("high")
    x = torch.from_numpy(integers(7, 4, 6)).to(device)
    res = []
    # compile of a module
    model = seeded(Net()).to(device)
    compiled = torch.compile(model, backend="eager")
    opt = torch.optim.Adam(compiled.parameters(), lr=1e-2)
    for _ in range(steps // 2):
        opt.zero_grad(True)
        out = compiled(x[:, :-1])
        loss = F.cross_entropy(out.logits.flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        opt.step()
        res.append(loss.item())
    assert all(k.startswith("_orig_mod.") for k in compiled.state_dict())

    # a compiled step
    @torch.compile(backend="eager", mode=None, fullgraph=False, dynamic=False)
    def step(net, inp):
        out = net(inp[:, :-1])
        return F.cross_entropy(out.logits.flatten(0, 1), inp[:, 1:].flatten())

    for _ in range(steps // 2):
        opt.zero_grad()
        loss, seconds = timed(lambda: step(model, x))
        loss.backward()
        opt.step()
        res.append(loss.item())
    # script
    mlp = seeded(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))).to(device)
    scripted = torch.jit.script(mlp)
    z = torch.from_numpy(normal(5, 3)).to(device)
    traced = torch.jit.trace(mlp, z)
    traced_fn = torch.jit.trace(lambda a, b: torch.relu(a) @ b, (z, z.t().contiguous()))
    res += [
        scripted(z).sum().item(),
        traced(z).sum().item(),
        traced_fn(z, z.t().contiguous()).sum().item(),
    ]
    opt = torch.optim.SGD(scripted.parameters(), lr=0.1)
    for _ in range(3):
        loss = scripted(z).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        res.append(loss.item())
    frozen = torch.jit.freeze(torch.jit.script(mlp.eval()))
    with torch.no_grad(), torch.jit.optimized_execution(True):
        res.append(frozen(z).sum().item())
    g = torch.ones_like(z)
    res.append(bias_gelu_back(g, z[0], z).sum().item())
    model.eval()
    with torch.no_grad():
        res += model.generate(x[:, :2], 3).flatten().tolist()
    torch.compiler.reset()
    return res
