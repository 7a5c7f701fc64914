"""Mixed precision: GradScaler, autocast, accumulation, checkpoints with everything, EMA, SWA."""

import contextlib
import copy
import io
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn
from torch.utils.data import (
    DataLoader,
    TensorDataset,
    random_split,
    Subset,
    ConcatDataset,
)

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay, self.shadow, self.backup = model, decay, {}, {}

    def register(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                self.shadow[name] = param.data.clone()

    def update(self):
        for name, param in self.model.named_parameters():
            if param.requires_grad:
                assert name in self.shadow
                self.shadow[name] = (
                    (1.0 - self.decay) * param.data + self.decay * self.shadow[name]
                ).clone()

    def apply_shadow(self):
        for name, param in self.model.named_parameters():
            if name in self.shadow:
                self.backup[name] = param.data
                param.data = self.shadow[name]

    def restore(self):
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.data = self.backup[name]
        self.backup = {}


def train(steps):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    data = TensorDataset(
        torch.from_numpy(normal(24, 6)), torch.from_numpy(integers(3, 24))
    )
    first, second = random_split(
        data, [16, 8], generator=torch.Generator().manual_seed(42)
    )
    assert len(first) == 16
    assert len(second) == 8
    loader = DataLoader(
        ConcatDataset([Subset(data, range(0, 16)), Subset(data, [20, 21, 22, 23])]), 5
    )
    model = seeded(
        nn.Sequential(
            nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Hardswish(), nn.Linear(12, 3)
        )
    ).to(device)
    model[0].bias.requires_grad_(False)
    ema = EMA(model, 0.9)
    ema.register()
    swa = AveragedModel(model)
    ema_model = AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad],
        lr=0.1,
        momentum=0.9,
        weight_decay=1e-4,
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, T_0=3, T_mult=2
    )
    swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    use_amp = False
    scaler = torch.amp.GradScaler(device="cpu", enabled=use_amp)
    results = []
    epochs = steps // 4
    for epoch in range(epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast(
                device_type=device.type if device.type == "cpu" else "cuda",
                dtype=torch.bfloat16,
                enabled=use_amp,
            ):
                loss = F.cross_entropy(model(x), y) / 2
            scaler.scale(loss).backward()
            if (i + 1) % 2 == 0 or i + 1 == len(loader):
                scaler.unscale_(optimizer)
                total_norm = torch.nn.utils.clip_grad_norm_(
                    model.parameters(), max_norm=1.0, norm_type=2
                )
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                ema.update()
                ema_model.update_parameters(model)
                results.append(float(total_norm))
            results.append(loss.item())
            if epoch < 3:
                scheduler.step(epoch + i / len(loader))
        if epoch >= 3:
            swa.update_parameters(model)
            swa_scheduler.step()
        results.append(optimizer.param_groups[0]["lr"])
        if epoch == 2:
            buffer = io.BytesIO()
            torch.save(
                {
                    "epoch": epoch,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "scaler": scaler.state_dict(),
                    "rng": torch.get_rng_state(),
                    "best": min(results),
                },
                buffer,
            )
            buffer.seek(0)
            checkpoint = torch.load(buffer, map_location="cpu", weights_only=False)
            for p in model.parameters():
                p.data.zero_()
            model.load_state_dict(checkpoint["model"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            scheduler.load_state_dict(checkpoint["scheduler"])
            scaler.load_state_dict(checkpoint["scaler"])
            torch.set_rng_state(checkpoint["rng"])
    update_bn(loader, swa, device=device)
    model.eval(), swa.eval(), ema_model.eval()
    ema.apply_shadow()
    with torch.no_grad(), contextlib.nullcontext():
        results += [m(x).abs().sum().item() for m in (model, swa, ema_model)]
    ema.restore()
    twin = copy.deepcopy(model)
    assert all(
        torch.equal(a, b)
        for a, b in zip(twin.state_dict().values(), model.state_dict().values())
    )
    return results + [float(swa.n_averaged)]
