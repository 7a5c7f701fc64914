"""Seq2seq with Bahdanau attention, teacher forcing, masks, and beam search."""

import random

import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from tests.programs.seeding import seeded

device = torch.device("cpu")
PAD, SOS, EOS = 0, 1, 2
VOCAB = 14


def make_pairs(n):
    rng = random.Random(3)
    pairs = []
    for _ in range(n):
        src = [rng.randrange(3, VOCAB) for _ in range(rng.randint(3, 7))]
        pairs.append((torch.tensor(src), torch.tensor([SOS] + src[::-1] + [EOS])))
    return pairs


def collate(batch):
    batch.sort(key=lambda p: len(p[0]), reverse=True)
    srcs, trgs = zip(*batch)
    lens = torch.tensor([len(s) for s in srcs])
    return (
        pad_sequence(srcs, padding_value=PAD),
        lens,
        pad_sequence(trgs, padding_value=PAD),
    )


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, bidirectional=True)
        self.fc = nn.Linear(hid * 2, hid)

    def forward(self, src, src_len):
        packed = pack_padded_sequence(self.embedding(src), src_len.to("cpu"))
        out, hidden = self.rnn(packed)
        out, _ = pad_packed_sequence(out)
        hidden = torch.tanh(
            self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1))
        )
        return out, hidden


class Attention(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.attn = nn.Linear(hid * 3, hid)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, hidden, enc, mask):
        src_len = enc.shape[0]
        hidden = hidden.unsqueeze(1).repeat(1, src_len, 1)
        enc = enc.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((hidden, enc), dim=2)))
        attention = self.v(energy).squeeze(2)
        attention = attention.masked_fill(mask == 0, -1e10)
        return F.softmax(attention, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.output_dim = vocab
        self.attention = Attention(hid)
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(hid * 2 + emb, hid)
        self.fc_out = nn.Linear(hid * 3 + emb, vocab)

    def forward(self, input, hidden, enc, mask):
        embedded = self.embedding(input.unsqueeze(0))
        a = self.attention(hidden, enc, mask).unsqueeze(1)
        weighted = torch.bmm(a, enc.permute(1, 0, 2)).permute(1, 0, 2)
        output, hidden = self.rnn(
            torch.cat((embedded, weighted), dim=2), hidden.unsqueeze(0)
        )
        assert (output == hidden).all()
        pred = self.fc_out(
            torch.cat(
                (output.squeeze(0), weighted.squeeze(0), embedded.squeeze(0)), dim=1
            )
        )
        return pred, hidden.squeeze(0), a.squeeze(1)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def create_mask(self, src):
        return (src != PAD).permute(1, 0)

    def forward(self, src, src_len, trg, ratio=0.5):
        outputs = torch.zeros(trg.shape[0], src.shape[1], self.decoder.output_dim).to(
            src.device
        )
        enc, hidden = self.encoder(src, src_len)
        input = trg[0, :]
        mask = self.create_mask(src)
        for t in range(1, trg.shape[0]):
            output, hidden, _ = self.decoder(input, hidden, enc, mask)
            outputs[t] = output
            top1 = output.argmax(1)
            input = trg[t] if random.random() < ratio else top1
        return outputs


@torch.no_grad()
def beam_search(model, src, width=3, max_len=9):
    model.eval()
    enc, hidden = model.encoder(src, torch.tensor([src.size(0)]))
    mask = model.create_mask(src)
    beams = [([SOS], 0.0, hidden)]
    for _ in range(max_len):
        candidates = []
        for seq, score, h in beams:
            if seq[-1] == EOS:
                candidates.append((seq, score, h))
                continue
            logits, nh, _ = model.decoder(
                torch.tensor([seq[-1]], device=device), h, enc, mask
            )
            logp, idx = F.log_softmax(logits, dim=-1).topk(width)
            for lp, i in zip(logp[0], idx[0]):
                candidates.append((seq + [i.item()], score + lp.item(), nh))
        beams = sorted(candidates, key=lambda c: c[1] / len(c[0]), reverse=True)[:width]
    return beams[0][0], beams[0][1]


def train(steps):
    random.seed(1)
    loader = torch.utils.data.DataLoader(
        make_pairs(20), batch_size=5, shuffle=False, collate_fn=collate
    )
    model = seeded(Seq2Seq(Encoder(VOCAB, 8, 10), Decoder(VOCAB, 8, 10))).to(device)
    print(
        f"{sum(p.numel() for p in model.parameters() if p.requires_grad):,} parameters"
    )
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    losses = []
    while len(losses) < steps:
        for src, src_len, trg in loader:
            src, trg = src.to(device), trg.to(device)
            optimizer.zero_grad()
            output = model(src, src_len, trg)
            output_dim = output.shape[-1]
            loss = criterion(output[1:].view(-1, output_dim), trg[1:].view(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    seq, score = beam_search(model, src[:, :1])
    print(seq)
    return losses + [score]
