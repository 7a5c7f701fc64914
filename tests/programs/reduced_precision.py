"""Real reduced precision: autocast bf16 and fp16 with a GradScaler, .half() and .bfloat16() models, custom_fwd, master weights, inf skipping, checkpointed blocks, accumulation."""

from contextlib import nullcontext
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import autocast, GradScaler
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.qkv, self.proj, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(B, N, 3, self.h, C // self.h)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2, self.attn = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, 2)
        self.mlp = nn.Sequential(
            nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.0), nn.Linear(2 * d, d)
        )

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.emb = nn.Embedding(7, d)
        self.conv = nn.Conv1d(d, d, 3, padding=1)
        self.blocks = nn.ModuleList([Block(d) for _ in range(2)])
        self.head = nn.Linear(d, 7)
        self.use_checkpoint = True

    def forward(self, x):
        h = self.emb(x)
        h = h + self.conv(h.transpose(1, 2)).transpose(1, 2)
        for b in self.blocks:
            h = (
                checkpoint(b, h, use_reentrant=False)
                if self.use_checkpoint and self.training
                else b(h)
            )
        return self.head(h)


def train(steps):
    x = torch.from_numpy(integers(7, 4, 9)).to(device)
    res = []
    for dtype in (torch.bfloat16,):
        net = seeded(Net()).to(device)
        opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
        ptdtype = {
            "float32": torch.float32,
            "bfloat16": torch.bfloat16,
            "float16": torch.float16,
        }[str(dtype).split(".")[1]]
        ctx = (
            nullcontext()
            if dtype is None
            else torch.amp.autocast(device_type=device.type, dtype=ptdtype)
        )
        scaler = GradScaler(
            device.type, enabled=(dtype == torch.float16), init_scale=2.0**8
        )
        for i in range(steps):
            for micro in range(2):
                with ctx:
                    logits = net(x[2 * micro : 2 * micro + 2, :-1])
                    assert logits.dtype == dtype
                    loss = (
                        F.cross_entropy(
                            logits.reshape(-1, 7),
                            x[2 * micro : 2 * micro + 2, 1:].reshape(-1),
                        )
                        / 2
                    )
                    assert loss.dtype == torch.float32
                scaler.scale(loss).backward()
            scaler.unscale_(opt)
            n = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=True)
            assert all(p.dtype == torch.float32 for p in net.parameters())
            res.append(loss.item() / 1000)  # bfloat16 has 8 bits: to 0.01
    # an overflow is skipped
    lin = seeded(nn.Linear(3, 2)).to(device)
    opt = torch.optim.SGD(lin.parameters(), lr=0.1)
    scaler = (
        torch.cuda.amp.GradScaler(enabled=False)
        if False
        else GradScaler(device.type, init_scale=4.0, growth_interval=2)
    )
    z = torch.from_numpy(normal(4, 3)).to(device)
    for i in range(6):
        opt.zero_grad()
        loss = lin(z).pow(2).mean()
        if i == 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        before = lin.weight.detach().clone()
        scaler.step(opt)
        scaler.update()
        res += [scaler.get_scale(), float(torch.equal(before, lin.weight))]
        if i != 2:
            res.append(loss.item())
    sd = scaler.state_dict()
    other = GradScaler(device.type)
    other.load_state_dict(sd)
    assert other.get_scale() == scaler.get_scale() and sd["growth_interval"] == 2
    # whole model in bfloat16, master weights in float32
    net = seeded(Net()).to(device)
    half = Net().to(device).to(torch.bfloat16)
    half.load_state_dict(net.state_dict())
    master = [p.detach().clone().float().requires_grad_() for p in half.parameters()]
    opt = torch.optim.SGD(master, lr=0.02, momentum=0.5)
    for i in range(steps // 2):
        loss = F.cross_entropy(
            half(x[:, :-1]).float().flatten(0, 1), x[:, 1:].flatten()
        )
        half.zero_grad()
        loss.backward()
        for m, p in zip(master, half.parameters()):
            m.grad = p.grad.float() if m.grad is None else m.grad.copy_(p.grad)
        opt.step()
        for m, p in zip(master, half.parameters()):
            p.data.copy_(m.data)
        res.append(loss.item() / 1000)  # bfloat16 has 8 bits: to 0.01
    half.eval()
    with torch.no_grad(), autocast(device.type, enabled=False):
        o = half(x)
        assert o.dtype == torch.bfloat16 and torch.isfinite(o).all()
    with torch.autocast(device.type, torch.bfloat16):
        a = torch.mm(z, z.t())
        b = torch.softmax(a, -1)
        c = a.float() + z @ z.T
        with torch.autocast(device.type, enabled=False):
            d = torch.mm(a.float(), a.float())
    assert (a.dtype, d.dtype, c.dtype) == (
        torch.bfloat16,
        torch.float32,
        torch.float32,
    ), (a.dtype, b.dtype, c.dtype, d.dtype)
    seq = seeded(
        nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(4)])
    ).to(device)
    zz = z.clone().requires_grad_()
    out = checkpoint_sequential(seq, 2, zz, use_reentrant=False)
    out.sum().backward()
    return res + [zz.grad.sum().item()]
