"""Modules with hooks of every kind, extra states, old names in checkpoints, shared embeddings."""

import copy, io, collections
import torch
from torch import nn
from torch.nn import functional as F

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("scale", torch.ones(1))
        self._register_load_state_dict_pre_hook(self._old)
        self.register_state_dict_post_hook(
            lambda m, sd, prefix, meta: sd.__setitem__(
                prefix + "extra", torch.tensor(3.0)
            )
        )

    def _old(self, sd, prefix, *args):
        if prefix + "old_scale" in sd:
            sd[prefix + "scale"] = sd.pop(prefix + "old_scale")
        sd.pop(prefix + "extra", None)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, *a, **k):
        return self.inner(*a, **k) * self.scale

    def get_extra_state(self):
        return {"n": 5}

    def set_extra_state(self, s):
        self.n = s["n"]


class Net(nn.Module):
    dump_patches = True

    def __init__(self, d=6):
        super().__init__()
        self.emb = nn.Embedding(9, d, max_norm=1.5, scale_grad_by_freq=True)
        self.enc = nn.Sequential(
            collections.OrderedDict(
                [
                    ("a", nn.Linear(d, d)),
                    ("act", nn.RReLU(0.2, 0.2)),
                    ("b", nn.Linear(d, d)),
                ]
            )
        )
        self.out = nn.Linear(d, 9, bias=False)
        self.out.weight = self.emb.weight
        self.width = d

    def forward(self, x):
        return self.out(self.enc(self.emb(x)))


def train(steps):
    net = seeded(Net())
    model = Wrapped(net).to(device)
    res = [
        float(model.width),
        float(len(list(model.parameters()))),
        float(len(list(model.named_parameters(remove_duplicate=False)))),
    ]
    seen = []
    h1 = net.enc.a.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))
    h2 = net.enc.register_forward_hook(lambda m, i, o: o + 0.1, prepend=True)
    h3 = net.enc.b.register_full_backward_pre_hook(lambda m, go: (go[0].clamp(-1, 1),))
    h4 = nn.modules.module.register_module_forward_hook(
        lambda m, i, o: seen.append(type(m).__name__) and None
    )
    opt = torch.optim.SGD(
        [{"params": net.enc.parameters()}, {"params": [net.emb.weight], "lr": 0.05}],
        lr=0.1,
        momentum=0.9,
        dampening=0.1,
        weight_decay=1e-4,
    )
    calls = []
    opt.register_step_pre_hook(lambda o, a, k: calls.append("pre"))
    opt.register_step_post_hook(lambda o, a, k: calls.append("post"))
    x = torch.from_numpy(integers(9, 5, 4)).to(device)
    for step in range(steps):
        out = model(x)
        loss = F.cross_entropy(out.movedim(-1, 1), x.roll(-1, 1))
        for group in opt.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.detach_()
                    p.grad.zero_()
        loss.backward()
        opt.step()
        res.append(loss.item())
        if step == 5:
            h1.remove()
        if step == 9:
            sd = model.state_dict()
            res.append(float(len(sd)))
            sd["old_scale"] = sd.pop("scale") * 0.9
            buf = io.BytesIO()
            torch.save({"m": sd, "o": opt.state_dict()}, buf)
            buf.seek(0)
            st = torch.load(buf, map_location=device)
            r = model.load_state_dict(st["m"])
            opt.load_state_dict(st["o"])
            res += [model.scale.item(), float(model.n), float(len(r.missing_keys))]
    h4.remove()
    res += [float(len(seen)), float(len(calls))]
    clone = copy.deepcopy(model)
    res.append(float(clone.inner.out.weight is clone.inner.emb.weight))
    clone.apply(
        lambda m: nn.init.constant_(m.weight, 0.1) if isinstance(m, nn.Linear) else None
    )
    res += [clone(x).sum().item(), float(sum(1 for _ in model.modules()))]
    for n, m in model.named_modules():
        if isinstance(m, nn.RReLU):
            parent = model.get_submodule(n.rpartition(".")[0])
            setattr(parent, n.rpartition(".")[2], nn.Hardtanh())
    res.append(model(x).sum().item())
    net.enc.extend([nn.LayerNorm(6)])
    net.enc.append(nn.Identity())
    del net.enc[-1]
    res += [float(len(net.enc)), model.to(device)(x).sum().item()]
    with torch.no_grad():
        model.requires_grad_(False)
    res.append(float(any(p.requires_grad for p in model.parameters())))
    return res
