"""A Trainer with fp16/bf16 autocast, GradScaler, warm-up, decay groups, checkpoints, callbacks."""

import math
import logging
import tempfile
from collections import defaultdict
from dataclasses import dataclass, asdict
from pathlib import Path
from typing import Optional, Tuple

import numpy as np
import torch
from torch import nn, Tensor
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.utils.data import DataLoader, Dataset, SequentialSampler

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")
logger = logging.getLogger(__name__)


@dataclass
class TrainingArguments:
    output_dir: str = "out"
    lr: float = 1e-2
    weight_decay: float = 0.1
    betas: Tuple[float, float] = (0.9, 0.95)
    warmup_steps: int = 4
    max_steps: int = 20
    grad_accum: int = 2
    max_grad_norm: Optional[float] = 1.0
    device: torch.device = device
    dtype: torch.dtype = torch.float32
    compile: bool = False


class AverageMeter(object):
    """Computes and stores the average and current value"""

    def __init__(self, name, fmt=":f"):
        self.name = name
        self.fmt = fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


def get_cosine_schedule_with_warmup(
    optimizer: Optimizer,
    num_warmup_steps: int,
    num_training_steps: int,
    num_cycles: float = 0.5,
    last_epoch: int = -1,
) -> LRScheduler:
    def lr_lambda(current_step):
        if current_step < num_warmup_steps:
            return float(current_step) / float(max(1, num_warmup_steps))
        progress = float(current_step - num_warmup_steps) / float(
            max(1, num_training_steps - num_warmup_steps)
        )
        return max(
            0.0, 0.5 * (1.0 + math.cos(math.pi * float(num_cycles) * 2.0 * progress))
        )

    return LambdaLR(optimizer, lr_lambda, last_epoch)


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln = LayerNorm(dim, bias=False)
        self.fc = nn.Linear(dim, 4 * dim, bias=False)
        self.act = nn.GELU(approximate="tanh")
        self.proj = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.proj(self.act(self.fc(self.ln(x))))


class Net(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab, dim),
                h=nn.ModuleList([Block(dim) for _ in range(2)]),
                ln_f=LayerNorm(dim, bias=False),
            )
        )
        self.head = nn.Linear(dim, vocab, bias=False)
        self.transformer.wte.weight = self.head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * 2))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def get_num_params(self, non_embedding=True):
        n_params = sum(p.numel() for p in self.parameters())
        return n_params

    def forward(self, idx, targets=None):
        x = self.transformer.wte(idx)
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.head(x)
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        else:
            logits = self.head(x[:, [-1], :])
            loss = None
        return logits, loss

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        param_dict = {pn: p for pn, p in self.named_parameters()}
        param_dict = {pn: p for pn, p in param_dict.items() if p.requires_grad}
        decay_params = [p for n, p in param_dict.items() if p.dim() >= 2]
        nodecay_params = [p for n, p in param_dict.items() if p.dim() < 2]
        optim_groups = [
            {"params": decay_params, "weight_decay": weight_decay},
            {"params": nodecay_params, "weight_decay": 0.0},
        ]
        import inspect

        fused_available = "fused" in inspect.signature(torch.optim.AdamW).parameters
        use_fused = fused_available and device_type == "cuda"
        extra_args = dict(fused=True) if use_fused else dict()
        return torch.optim.AdamW(
            optim_groups, lr=learning_rate, betas=betas, **extra_args
        )


class Text(Dataset[Tuple[Tensor, Tensor]]):
    def __init__(self, data: np.ndarray, block: int):
        self.data, self.block = data, block

    def __len__(self) -> int:
        return len(self.data) - self.block

    def __getitem__(self, i: int) -> Tuple[Tensor, Tensor]:
        chunk = torch.from_numpy(self.data[i : i + self.block + 1].astype(np.int64))
        return chunk[:-1], chunk[1:]


class Trainer:
    def __init__(self, model, args, train_dataset, collate_fn=None):
        self.args = args
        self.callbacks = defaultdict(list)
        self.model = model.to(args.device)
        self.train_dataset = train_dataset
        self.optimizer = self.model.configure_optimizers(
            args.weight_decay, args.lr, args.betas, args.device.type
        )
        self.scheduler = get_cosine_schedule_with_warmup(
            self.optimizer, args.warmup_steps, args.max_steps
        )
        self.scaler = torch.amp.GradScaler(
            "cuda", enabled=(args.dtype == torch.float16 and args.device.type == "cuda")
        )
        self.meter = AverageMeter("loss", ":.4f")
        self.iter_num = 0
        self.history = []

    def add_callback(self, onevent: str, callback):
        self.callbacks[onevent].append(callback)

    def trigger_callbacks(self, onevent: str):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        loader = DataLoader(
            self.train_dataset,
            sampler=SequentialSampler(self.train_dataset),
            batch_size=4,
            pin_memory=True,
            drop_last=True,
            num_workers=0,
        )
        self.model.train()
        data_iter = iter(loader)
        while True:
            for micro in range(self.args.grad_accum):
                try:
                    batch = next(data_iter)
                except StopIteration:
                    data_iter = iter(loader)
                    batch = next(data_iter)
                x, y = [t.to(self.args.device, non_blocking=True) for t in batch]
                with torch.autocast(
                    device_type=self.args.device.type,
                    dtype=torch.bfloat16,
                    enabled=self.args.dtype != torch.float32,
                ):
                    logits, loss = self.model(x, y)
                    loss = loss / self.args.grad_accum
                self.scaler.scale(loss).backward()
            if self.args.max_grad_norm is not None:
                self.scaler.unscale_(self.optimizer)
                norm = torch.nn.utils.clip_grad_norm_(
                    self.model.parameters(), self.args.max_grad_norm
                )
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.meter.update(loss.item() * self.args.grad_accum, x.size(0))
            self.history += [float(loss), norm.item(), self.scheduler.get_last_lr()[0]]
            self.iter_num += 1
            self.trigger_callbacks("on_batch_end")
            if self.iter_num >= self.args.max_steps:
                break
        return str(self.meter)

    def save(self, path):
        raw_model = self.model.module if hasattr(self.model, "module") else self.model
        torch.save(
            {
                "model": raw_model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "args": asdict(self.args)
                | {"device": str(self.args.device), "dtype": str(self.args.dtype)},
                "iter": self.iter_num,
                "np": np.random.get_state(),
                "sched": self.scheduler.state_dict(),
            },
            path,
        )

    def load(self, path):
        ckpt = torch.load(path, map_location=self.args.device, weights_only=False)
        state_dict = ckpt["model"]
        unwanted_prefix = "_orig_mod."
        for k, v in list(state_dict.items()):
            if k.startswith(unwanted_prefix):
                state_dict[k[len(unwanted_prefix) :]] = state_dict.pop(k)
        missing, unexpected = self.model.load_state_dict(state_dict, strict=False)
        assert not missing and not unexpected
        self.optimizer.load_state_dict(ckpt["optimizer"])
        self.iter_num = ckpt["iter"]
        self.scheduler.load_state_dict(ckpt["sched"])


def train(steps):
    args = TrainingArguments(max_steps=steps)
    data = integers(11, 60)
    model = Net(11, 8)
    seeded(model)
    trainer = Trainer(model, args, Text(data, 5))
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "ckpt.pt"

        def cb(t):
            if t.iter_num == 10:
                t.save(path)
                with torch.no_grad():
                    for p in t.model.parameters():
                        p.zero_()
                t.load(path)

        trainer.add_callback("on_batch_end", cb)
        text = trainer.run()
    val = float(text.split()[1])
    assert f"{trainer.model.get_num_params():,}"
    return trainer.history + [round(val, 3)]
