"""An LSTM over sentences of different lengths, padded and packed."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from tests.programs.seeding import integers, seeded

device = torch.device("cpu")


class Tagger(nn.Module):
    def __init__(self, vocab=20, emb=12, hidden=16, tags=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(
            emb, hidden, num_layers=2, bidirectional=True, batch_first=True
        )
        self.fc = nn.Linear(2 * hidden, tags)

    def forward(self, tokens, lengths):
        embedded = self.embedding(tokens)
        packed = pack_padded_sequence(
            embedded, lengths, batch_first=True, enforce_sorted=False
        )
        output, (h_n, c_n) = self.lstm(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return self.fc(output), h_n


def train(steps):
    lengths = [7, 4, 9, 2]
    sentences = [
        torch.from_numpy(integers(19, n, seed=k)) + 1 for k, n in enumerate(lengths)
    ]
    targets = [
        torch.from_numpy(integers(5, n, seed=k + 9)) for k, n in enumerate(lengths)
    ]
    tokens = pad_sequence(sentences, batch_first=True).to(device)
    tags = pad_sequence(targets, batch_first=True, padding_value=-100).to(device)
    model = seeded(Tagger()).to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    losses = []
    for _ in range(steps):
        model.zero_grad()
        scores, h_n = model(tokens, torch.tensor(lengths))
        loss = criterion(scores.view(-1, scores.shape[-1]), tags.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return [*losses, h_n.norm().item()]
