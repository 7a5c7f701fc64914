"""Whole models, optimizers and datasets saved by torch.save, as the tutorials do; pickles and deep copies."""

import copy
import io
import pickle
import tempfile
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import TensorDataset

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class Sine(nn.Module):
    def __init__(self, w=2.0):
        super().__init__()
        self.w = w

    def forward(self, x):
        return torch.sin(self.w * x)

    def extra_repr(self):
        return f"w={self.w}"


def train(steps):
    model = seeded(
        nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 1))
    ).to(device)
    x = torch.from_numpy(normal(12, 2)).to(device)
    y = x.prod(1, keepdim=True)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    res = []
    with tempfile.TemporaryDirectory() as d:
        for i in range(steps):
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            res.append(loss.item())
            if i == steps // 2:
                torch.save(model, f"{d}/model.pt")
                model2 = torch.load(
                    f"{d}/model.pt", weights_only=False, map_location=device
                )
                buf = io.BytesIO()
                torch.save(
                    {
                        "m": model,
                        "o": opt.state_dict(),
                        "rng": torch.get_rng_state(),
                        "res": np.array(res),
                        "step": np.int64(i),
                    },
                    buf,
                )
                buf.seek(0)
                ck = torch.load(buf, weights_only=False, map_location=device)
                model = ck["m"]
                opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
                opt.load_state_dict(ck["o"])
                sched2 = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
                sched2.load_state_dict(sched.state_dict())
                sched = sched2
                res += [float(ck["res"][-1]), int(ck["step"])]
                model2.eval()
                with torch.no_grad():
                    res.append(model2(x).sum().item())
        s = pickle.loads(pickle.dumps(model))
        o = pickle.loads(pickle.dumps(opt))
        ds = pickle.loads(pickle.dumps(TensorDataset(x, y)))
        t = pickle.loads(pickle.dumps(x))
        res += [
            s.eval()(t).sum().item(),
            len(o.param_groups),
            len(ds),
            ds[2][0].sum().item(),
        ]
        with open(f"{d}/x.pkl", "wb") as f:
            pickle.dump({"w": model[0].weight, "g": model[0].weight.grad}, f)
        with open(f"{d}/x.pkl", "rb") as f:
            w = pickle.load(f)
        res += [w["w"].sum().item(), w["g"].sum().item()]
        np.savez(
            f"{d}/a.npz", **{k: v.cpu().numpy() for k, v in model.state_dict().items()}
        )
        z = np.load(f"{d}/a.npz")
        model.load_state_dict({k: torch.tensor(z[k]) for k in z.files})
        both = copy.deepcopy((model, opt, sched))
        loss = F.mse_loss(both[0](x), y)
        loss.backward()
        both[1].step()
        res += [loss.item(), F.mse_loss(model(x), y).item()]
    return res
