"""Tensor subclasses by __torch_function__, dataclasses of tensors as batches, a model that reads them, saved-tensor hooks, custom collate, modes."""

import collections
import dataclasses
import pickle
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map, tree_flatten, tree_unflatten
from torch.utils.data import DataLoader, Dataset, Sampler
from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


class MetadataTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, data, *args, **kwargs):
        return (
            torch.Tensor._make_subclass(cls, data)
            if isinstance(data, torch.Tensor)
            else super().__new__(cls, data)
        )

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        tags = [a.tag for a in args if isinstance(a, cls) and hasattr(a, "tag")]
        if isinstance(out, cls) and tags:
            out.tag = tags[0]
        return out


@dataclasses.dataclass
class Boxes:
    xyxy: torch.Tensor
    scores: torch.Tensor
    names: list

    def __len__(self):
        return len(self.xyxy)

    def __getitem__(self, i):
        if isinstance(i, torch.Tensor) and i.dtype == torch.bool:
            i = i.nonzero().flatten()
        return Boxes(
            self.xyxy[i],
            self.scores[i],
            [
                self.names[int(j)]
                for j in torch.arange(len(self))[
                    i.cpu() if isinstance(i, torch.Tensor) else i
                ].reshape(-1)
            ],
        )

    def to(self, *args, **kwargs):
        return dataclasses.replace(
            self,
            **{
                f.name: getattr(self, f.name).to(*args, **kwargs)
                for f in dataclasses.fields(self)
                if torch.is_tensor(getattr(self, f.name))
            },
        )

    def area(self):
        return (self.xyxy[:, 2:] - self.xyxy[:, :2]).clamp(min=0).prod(1)


class TensorDict(collections.abc.MutableMapping):
    def __init__(self, source, batch_size):
        self._d, self.batch_size = dict(source), torch.Size(batch_size)
        assert all(
            v.shape[: len(self.batch_size)] == self.batch_size for v in self._d.values()
        )

    def __getitem__(self, k):
        if isinstance(k, str):
            return self._d[k]
        return self.apply(lambda v: v[k])

    def __setitem__(self, k, v):
        if isinstance(k, str):
            self._d[k] = v
        else:
            for n, x in self._d.items():
                x[k] = v[n]

    def __delitem__(self, k):
        del self._d[k]

    def __iter__(self):
        return iter(self._d)

    def __len__(self):
        return len(self._d)

    def apply(self, fn):
        d = {k: fn(v) for k, v in self._d.items()}
        n = len(self.batch_size)
        first = next(iter(d.values()))
        return TensorDict(d, first.shape[: min(n, first.ndim)])

    def to(self, *a, **k):
        return self.apply(lambda v: v.to(*a, **k))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.stack:
            tds = args[0]
            return TensorDict(
                {
                    k: torch.stack([t[k] for t in tds], *args[1:], **(kwargs or {}))
                    for k in tds[0]
                },
                (len(tds), *tds[0].batch_size),
            )
        if func is torch.clone:
            return args[0].apply(torch.clone)
        return NotImplemented


class Buckets(Sampler):
    def __init__(self, lengths, size):
        self.batches = [
            list(map(int, b))
            for b in np.array_split(
                np.argsort(lengths, kind="stable"), -(-len(lengths) // size)
            )
        ]

    def __iter__(self):
        yield from self.batches

    def __len__(self):
        return len(self.batches)


class Sequences(Dataset):
    lengths = [3, 6, 2, 5, 4, 6]

    def __getitem__(self, i):
        return torch.from_numpy(normal(self.lengths[i], 4, seed=i)), i % 2, f"item{i}"

    def __len__(self):
        return len(self.lengths)


def collate(batch):
    xs, ys, names = zip(*batch)
    lengths = torch.as_tensor(list(map(len, xs)))
    x = nn.utils.rnn.pad_sequence(xs, batch_first=True)
    return TensorDict(
        {
            "x": x,
            "y": torch.tensor(ys, dtype=torch.float32),
            "mask": torch.arange(x.size(1)).expand(len(xs), -1) < lengths.unsqueeze(-1),
        },
        (len(xs),),
    ), names


class Count(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls[getattr(func, "__name__", str(func))] += 1
        return func(*args, **(kwargs or {}))


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.score, self.out = (
            nn.Linear(4, 6),
            nn.Linear(6, 1),
            nn.Linear(6, 1),
        )
        self._register_load_state_dict_pre_hook(self._rename)
        self.register_state_dict_post_hook(
            lambda m, sd, prefix, meta: sd.update({prefix + "version": torch.tensor(2)})
        )

    def _rename(self, state_dict, prefix, *args):
        state_dict.pop(prefix + "version", None)
        if prefix + "old.weight" in state_dict:
            state_dict[prefix + "out.weight"] = state_dict.pop(prefix + "old.weight")

    def forward(self, td):
        h = torch.tanh(self.proj(td["x"]))
        a = (
            self.score(h)
            .squeeze(-1)
            .masked_fill(~td["mask"], torch.finfo(h.dtype).min)
            .softmax(-1)
        )
        return self.out(torch.einsum("bt,btd->bd", a, h)).squeeze(-1), a


def train(steps):
    out = []
    t = MetadataTensor(torch.from_numpy(normal(3, 3)))
    t.tag = "img"
    u = torch.relu(t * 2 + 1)[0].sum()
    out += [
        u.item(),
        type(u) is MetadataTensor,
        getattr(u, "tag", None) == "img",
        isinstance(t.mean(0), MetadataTensor),
    ]
    boxes = Boxes(
        torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 4, 6]]),
        torch.tensor([0.9, 0.2, 0.7]),
        ["a", "b", "c"],
    ).to(device)
    kept = boxes[boxes.scores > 0.5]
    out += [
        len(kept),
        *kept.area().tolist(),
        float("c" in kept.names),
        *pickle.loads(pickle.dumps(boxes.to("cpu"))).scores.tolist(),
    ]
    model = seeded(Pool()).to(device)
    sd = model.state_dict()
    sd["old.weight"] = sd.pop("out.weight") * 0.5
    out.append(len(model.load_state_dict(sd, strict=True).unexpected_keys))
    opt = torch.optim.NAdam(
        model.parameters(), lr=1e-2, decoupled_weight_decay=True, weight_decay=1e-2
    )
    loader = DataLoader(
        Sequences(), batch_sampler=Buckets(Sequences.lengths, 2), collate_fn=collate
    )
    packed = []

    def pack(x):
        packed.append(x.numel())
        return x.detach().cpu()

    for step in range(steps // 3 + 1):
        for td, names in loader:
            td = td.to(device)
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.to(device)):
                logits, a = model(td)
                loss = F.soft_margin_loss(logits, td["y"] * 2 - 1) + 0.1 * F.huber_loss(
                    logits, td["y"], delta=0.5
                )
            opt.zero_grad()
            loss.backward()
            opt.step()
            out += [loss.item(), a.max().item()]
    with Count() as count, torch.no_grad():
        torch.add(torch.ones(2), 1).mul(2)
        F.softmax(torch.ones(2), dim=0)
    out += [count.calls["add"], count.calls["mul"]]
    stacked = torch.stack([td, td])
    stacked[0] = torch.clone(td)
    flat, spec = tree_flatten({"a": [stacked["x"], 2], "b": (td["y"],)})
    again = tree_unflatten([f * 2 for f in flat], spec)
    half = tree_map(lambda v: v / 2 if torch.is_tensor(v) else v, again)
    return out + [
        len(packed) > 0,
        half["a"][0].sum().item(),
        again["a"][1],
        half["b"][0].sum().item(),
    ]
