"""Training steps of common sizes: `training_steps.py float32` or `float16`.

A program whose kernels are compiled for GPUs that are not there; see `family_table`.
"""

import sys

import vkbackend.framework as fw
from vkbackend.framework import nn, optim


class Block(nn.Module):
    """Transformer block, after GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feedforward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: fw.Tensor) -> fw.Tensor:
        """Return the block of `x`, shape (batch, words, width)."""
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        out: fw.Tensor = x + self.feedforward(self.second(x))
        return out


def language_model(words: int = 4096, width: int = 512) -> nn.Module:
    """Return a small language model: (batch, length) to (batch, length, words)."""
    blocks = [Block(width, 8) for _ in range(2)]
    head = nn.Linear(width, words)
    return nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(width), head)


def convolutional_network() -> nn.Module:
    """Return a small network: (batch, 3, height, width) to (batch, 100)."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, stride=2, padding=3)]
    for wide in (64, 128):
        layers += [nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, wide, 3, padding=1)]
    layers += [nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)]
    return nn.Sequential(*layers)


def main(dtype: str) -> None:
    """Take a step with each model on the GPU, and print the losses."""
    device = fw.device("gpu")
    words = fw.randint(0, 4096, (4, 257), device=device)
    images = fw.randn(16, 3, 64, 64, device=device)
    labels = fw.randint(0, 100, (16,), device=device)
    batches = [
        (language_model(), words[:, :-1], words[:, 1:].flatten()),
        (convolutional_network(), images, labels),
    ]
    scaler = fw.amp.GradScaler("gpu", enabled=dtype == "float16")
    for model, x, y in batches:
        model.to(device)
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
        with fw.autocast("gpu", dtype=fw.float16, enabled=dtype == "float16"):
            logits = model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
