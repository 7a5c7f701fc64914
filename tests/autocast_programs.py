"""Training programs under autocast, written for PyTorch: their losses are compared.

Each is given the library in the place of `torch`, a 16-bit dtype and a number of steps,
and returns its losses. They run in blocks for the host.
"""

from typing import Any

import numpy as np


def seeded(torch: Any, model: Any, seed: int = 0) -> Any:
    """Give a model weights that are the same in each library."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for each in model.parameters():
            shape = tuple(each.shape)
            bound = 1 / max(1, shape[-1] if len(shape) > 1 else 8) ** 0.5
            values = rng.uniform(-bound, bound, shape).astype(np.float32)
            each.copy_(torch.from_numpy(values))
    return model


def numbers(torch: Any, *shape: int, seed: int = 1) -> Any:
    """Return data from a standard normal distribution."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.from_numpy(values.astype(np.float32))


def integers(torch: Any, high: int, *shape: int, seed: int = 2) -> Any:
    """Return integers from 0 to `high`, without that."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


def _updated(torch: Any, scaler: Any, optimizer: Any, loss: Any, model: Any) -> float:
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return float(loss.detach())


def _scaler(torch: Any, dtype: Any) -> Any:
    return torch.amp.GradScaler(
        "cpu", init_scale=256.0, growth_interval=7, enabled=dtype is torch.float16
    )


def transformer(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn = torch.nn

    class Classifier(nn.Module):  # type: ignore[name-defined, misc]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(11, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 5)

        def forward(self, x: Any) -> Any:
            return self.head(self.encoder(self.embedding(x)).mean(1))

    model = seeded(torch, Classifier())
    data, labels = integers(torch, 11, 8, 6), integers(torch, 5, 8, seed=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler, losses = _scaler(torch, dtype), []
    for _ in range(steps):
        with torch.autocast("cpu", dtype):
            loss = nn.functional.cross_entropy(model(data), labels)
        losses.append(_updated(torch, scaler, optimizer, loss, model))
    return losses


def convolutions(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn = torch.nn
    model = seeded(
        torch,
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        ),
    )
    data, labels = numbers(torch, 6, 3, 8, 8), integers(torch, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler, losses = _scaler(torch, dtype), []
    for _ in range(steps):
        with torch.autocast("cpu", dtype):
            loss = nn.functional.cross_entropy(model(data), labels, label_smoothing=0.1)
        losses.append(_updated(torch, scaler, optimizer, loss, model))
    return losses


def recurrence(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn = torch.nn

    class Forecast(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 8, batch_first=True)
            self.head = nn.Linear(8, 1)

        def forward(self, x: Any) -> Any:
            out, _ = self.lstm(x)
            return self.head(out[:, -1])

    model = seeded(torch, Forecast())
    data = numbers(torch, 6, 5, 3)
    wanted = data.mean((1, 2)).unsqueeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler, losses = _scaler(torch, dtype), []
    for _ in range(steps):
        with torch.autocast("cpu", dtype):
            loss = nn.functional.mse_loss(model(data), wanted)
        losses.append(_updated(torch, scaler, optimizer, loss, model))
    return losses


def variational(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn = torch.nn

    class Autoencoder(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(12, 16)
            self.mean = nn.Linear(16, 4)
            self.logvar = nn.Linear(16, 4)
            self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12))

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = self.encoder(x).relu()
            mean, logvar = self.mean(hidden), self.logvar(hidden)
            code = mean + noise * (0.5 * logvar).exp()
            return self.decoder(code), mean, logvar

    model = seeded(torch, Autoencoder())
    data = numbers(torch, 8, 12).sigmoid()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler, losses = _scaler(torch, dtype), []
    for step in range(steps):
        with torch.autocast("cpu", dtype):
            logits, mean, logvar = model(data, numbers(torch, 8, 4, seed=step))
            apart = nn.functional.binary_cross_entropy_with_logits(logits, data)
            prior = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).mean()
            loss = apart + 0.1 * prior
        losses.append(_updated(torch, scaler, optimizer, loss, model))
    return losses


def adversaries(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn = torch.nn
    maker = seeded(
        torch, nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 6))
    )
    judge = seeded(
        torch, nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), 5
    )
    data = numbers(torch, 8, 6) * 0.5 + 1
    made_by = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judged_by = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    scaler, losses = _scaler(torch, dtype), []
    for step in range(steps):
        noise = numbers(torch, 8, 4, seed=step)
        with torch.autocast("cpu", dtype):
            false = maker(noise)
            real, found = judge(data), judge(false.detach())
            loss = criterion(real, torch.ones_like(real)) + criterion(
                found, torch.zeros_like(found)
            )
        judged_by.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(judged_by)
        losses.append(float(loss.detach()))
        with torch.autocast("cpu", dtype):
            found = judge(false)
            loss = criterion(found, torch.ones_like(found))
        made_by.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(made_by)
        scaler.update()
        losses.append(float(loss.detach()))
    return losses


def language_model(torch: Any, dtype: Any, steps: int) -> list[float]:
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
            q, k, v = (p.view(batch, length, 2, 8).transpose(1, 2) for p in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, 16))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(13, 16), nn.Embedding(8, 16)
            self.blocks = nn.ModuleList([Block(), Block()])
            self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 13, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    model = seeded(torch, Model())
    data = integers(torch, 13, 2, 4, 9)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    scaler, losses = _scaler(torch, dtype), []
    for _ in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for rows in data:
            with torch.autocast("cpu", dtype):
                logits = model(rows[:, :-1])
                loss = functional.cross_entropy(
                    logits.reshape(-1, 13), rows[:, 1:].reshape(-1)
                )
                loss = loss / len(data)
            scaler.scale(loss).backward()
            total += float(loss.detach())
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(total)
    return losses


PROGRAMS = (
    transformer,
    convolutions,
    recurrence,
    variational,
    adversaries,
    language_model,
)
