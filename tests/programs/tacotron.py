"""Location-sensitive attention, a stop token, prenet, Highway, masks from lengths."""

import torch
from torch import nn
from torch.nn import functional as F

from tests.programs.seeding import integers, normal, seeded

device = torch.device("cpu")


def get_mask_from_lengths(lengths):
    max_len = torch.max(lengths).item()
    ids = torch.arange(0, max_len, device=lengths.device, dtype=torch.long)
    return (ids < lengths.unsqueeze(1)).bool()


class LocationLayer(nn.Module):
    def __init__(self, filters, kernel, dim):
        super().__init__()
        self.conv = nn.Conv1d(
            2, filters, kernel, padding=int((kernel - 1) / 2), bias=False
        )
        self.dense = nn.Linear(filters, dim, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, rnn_dim, emb_dim, dim):
        super().__init__()
        self.query_layer, self.memory_layer = (
            nn.Linear(rnn_dim, dim, bias=False),
            nn.Linear(emb_dim, dim, bias=False),
        )
        self.v = nn.Linear(dim, 1, bias=False)
        self.location = LocationLayer(3, 5, dim)
        self.score_mask_value = -float("inf")

    def forward(self, hidden, memory, processed, cat, mask):
        energies = self.v(
            torch.tanh(
                self.query_layer(hidden.unsqueeze(1)) + self.location(cat) + processed
            )
        ).squeeze(-1)
        if mask is not None:
            energies.data.masked_fill_(mask, self.score_mask_value)
        weights = F.softmax(energies, dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Highway(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.W1, self.W2 = nn.Linear(size, size), nn.Linear(size, size)
        self.W1.bias.data.fill_(0.0)

    def forward(self, x):
        g = torch.sigmoid(self.W2(x))
        return g * F.relu(self.W1(x)) + (1.0 - g) * x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.highways = (
            nn.Embedding(9, 6),
            nn.Sequential(*(Highway(6) for _ in range(2))),
        )
        self.encoder = nn.LSTM(6, 4, 1, batch_first=True, bidirectional=True)
        self.prenet = nn.ModuleList(
            [nn.Linear(i, o, bias=False) for i, o in zip([5, 6], [6, 6])]
        )
        self.attention_rnn, self.decoder_rnn = (
            nn.LSTMCell(6 + 8, 8),
            nn.GRUCell(8 + 8, 8),
        )
        self.attention = Attention(8, 8, 6)
        self.proj, self.gate = nn.Linear(16, 5), nn.Linear(16, 1)

    def forward(self, text, lengths, mels):
        x = self.highways(self.embedding(text))
        x = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu().numpy(), batch_first=True
        )
        self.encoder.flatten_parameters()
        memory, _ = self.encoder(x)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        mask = ~get_mask_from_lengths(lengths)
        B, MAX, _ = memory.size()
        h, c = memory.data.new(B, 8).zero_(), memory.data.new(B, 8).zero_()
        dh, context = torch.zeros_like(h), memory.new_zeros((B, 8))
        weights, cum = memory.new_zeros(B, MAX), memory.new_zeros(B, MAX)
        processed = self.attention.memory_layer(memory)
        frames = torch.cat((mels.new_zeros(1, B, 5), mels.permute(2, 0, 1)), dim=0)
        for linear in self.prenet:
            frames = F.dropout(F.relu(linear(frames)), p=0.0, training=True)
        outs, gates, alignments = [], [], []
        while len(outs) < frames.size(0) - 1:
            frame = frames[len(outs)]
            h, c = self.attention_rnn(torch.cat((frame, context), -1), (h, c))
            cat = torch.cat((weights.unsqueeze(1), cum.unsqueeze(1)), dim=1)
            context, weights = self.attention(h, memory, processed, cat, mask)
            cum += weights
            dh = self.decoder_rnn(torch.cat((h, context), -1), dh)
            both = torch.cat((dh, context), dim=1)
            outs += [self.proj(both).squeeze(1)]
            gates += [self.gate(both).squeeze(1)]
            alignments += [weights]
        return (
            torch.stack(outs).transpose(0, 1).contiguous().transpose(1, 2),
            torch.stack(gates, 1),
            torch.stack(alignments).transpose(0, 1),
        )


def train(steps):
    text = torch.from_numpy(integers(9, 3, 7)).to(device)
    lengths = torch.tensor([7, 5, 4]).to(device)
    mels = torch.from_numpy(normal(3, 5, 8)).to(device)
    mel_lengths = torch.LongTensor([8, 8, 6]).to(device)
    gate_padded = torch.FloatTensor(3, 8).zero_()
    for i in range(3):
        gate_padded[i, mel_lengths[i] - 1 :] = 1
    gate_padded = gate_padded.to(device)
    model = seeded(Model()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
    results = []
    for _ in range(steps // 2):
        model.zero_grad()
        mel_out, gate_out, alignments = model(text, lengths, mels)
        mask = ~get_mask_from_lengths(mel_lengths)
        mask = mask.expand(5, mask.size(0), mask.size(1)).permute(1, 0, 2)
        mel_out.data.masked_fill_(mask, 0.0)
        gate_out.data.masked_fill_(mask[:, 0, :], 1e3)
        loss = nn.MSELoss()(
            mel_out, mels.masked_fill(mask, 0)
        ) + nn.BCEWithLogitsLoss()(gate_out.view(-1, 1), gate_padded.view(-1, 1))
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        results += [loss.item(), grad_norm.item(), alignments[1, -1, 4].item()]
    return results
