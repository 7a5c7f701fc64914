"""A transformer encoder with a padding mask, trained on masked tokens."""

import math

import torch
from torch import Tensor, nn

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")
PAD, MASK = 0, 1


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.0, max_len: int = 50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(
            torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model)
        )
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class MaskedLanguageModel(nn.Module):
    def __init__(self, ntoken=30, d_model=16, nhead=2, d_hid=32, nlayers=2):
        super().__init__()
        self.d_model = d_model
        self.pos_encoder = PositionalEncoding(d_model)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout=0.0)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.linear = nn.Linear(d_model, ntoken)

    def init_weights(self) -> None:
        initrange = 0.1
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-initrange, initrange)

    def forward(self, src: Tensor) -> Tensor:
        padding = (src == PAD).t()
        x = self.embedding(src) * math.sqrt(self.d_model)
        x = self.pos_encoder(x)
        x = self.transformer_encoder(x, src_key_padding_mask=padding)
        return self.linear(x)


def train(steps):
    tokens = torch.from_numpy(integers(28, 12, 4)) + 2
    tokens[9:, 1] = PAD
    tokens[6:, 3] = PAD
    chosen = torch.from_numpy(integers(5, 12, 4, seed=4)) == 0
    chosen &= tokens != PAD
    inputs = torch.where(chosen, torch.full_like(tokens, MASK), tokens).to(device)
    labels = tokens.masked_fill(~chosen, -100).to(device)
    model = MaskedLanguageModel()
    model.init_weights()
    model = seeded(model).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 10)
    )
    losses = []
    for _ in range(steps):
        model.train()
        output = model(inputs)
        loss = criterion(output.reshape(-1, output.size(-1)), labels.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return [*losses, float(scheduler.get_last_lr()[0])]
