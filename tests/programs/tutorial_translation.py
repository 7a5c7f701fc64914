"""Seq2seq of the tutorial: Lang classes, Bahdanau with GRU steps, teacher forcing, beam search, bleu; a Transformer with generate_square_subsequent_mask and label-smoothing Noam schedule."""

import math
import copy
import heapq
import numpy as np
import torch
import torch.nn as nn
from torch import optim
import torch.nn.functional as F
from torch.nn.functional import log_softmax
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import TensorDataset, DataLoader, SequentialSampler

from tests.programs.seeding import seeded

device = torch.device("cpu")
SOS_token, EOS_token, MAX_LENGTH = 0, 1, 7


class Lang:
    def __init__(self, name):
        self.name, self.word2index, self.word2count, self.index2word, self.n_words = (
            name,
            {},
            {},
            {0: "SOS", 1: "EOS"},
            2,
        )

    def addSentence(self, sentence):
        for word in sentence.split(" "):
            if word not in self.word2index:
                self.word2index[word] = self.n_words
                self.word2count[word] = 1
                self.index2word[self.n_words] = word
                self.n_words += 1
            else:
                self.word2count[word] += 1


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua, self.Va = (
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, 1),
        )

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(
            batch_size, 1, dtype=torch.long, device=device
        ).fill_(SOS_token)
        decoder_hidden = encoder_hidden
        outs, attns = [], []
        for i in range(MAX_LENGTH):
            o, decoder_hidden, a = self.forward_step(
                decoder_input, decoder_hidden, encoder_outputs
            )
            outs.append(o), attns.append(a)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = o.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        outs = F.log_softmax(torch.cat(outs, dim=1), dim=-1)
        return outs, decoder_hidden, torch.cat(attns, dim=1)

    def forward_step(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input)
        query = hidden.permute(1, 0, 2)
        context, w = self.attention(query, encoder_outputs)
        out, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(out), hidden, w


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(
            torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model)
        )
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))


class Translator(nn.Module):
    def __init__(self, vs, vt, d=8):
        super().__init__()
        self.src, self.tgt, self.pos = (
            nn.Embedding(vs, d),
            nn.Embedding(vt, d),
            PositionalEncoding(d),
        )
        self.transformer = nn.Transformer(
            d_model=d,
            nhead=2,
            num_encoder_layers=1,
            num_decoder_layers=1,
            dim_feedforward=16,
            dropout=0.0,
            batch_first=True,
        )
        self.generator = nn.Linear(d, vt)

    def forward(self, s, t, src_pad, tgt_pad):
        mask = nn.Transformer.generate_square_subsequent_mask(
            t.size(1), device=t.device
        )
        out = self.transformer(
            self.pos(self.src(s) * math.sqrt(8)),
            self.pos(self.tgt(t)),
            tgt_mask=mask,
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
            memory_key_padding_mask=src_pad,
        )
        return self.generator(out)


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.confidence, self.smoothing, self.size = (
            padding_idx,
            1.0 - smoothing,
            smoothing,
            size,
        )

    def forward(self, x, target):
        true_dist = x.data.clone()
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
        true_dist[:, self.padding_idx] = 0
        mask = torch.nonzero(target.data == self.padding_idx)
        if mask.dim() > 0:
            true_dist.index_fill_(0, mask.squeeze(), 0.0)
        return self.criterion(x, true_dist.clone().detach())


def rate(step, model_size, factor, warmup):
    if step == 0:
        step = 1
    return factor * (
        model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5))
    )


@torch.no_grad()
def beam(model, s, src_pad, k=3, n=6):
    beams = [(0.0, [SOS_token])]
    for _ in range(n):
        new = []
        for score, seq in beams:
            if seq[-1] == EOS_token and len(seq) > 1:
                new.append((score, seq))
                continue
            lp = log_softmax(
                model(s, torch.tensor([seq], device=device), src_pad, None)[0, -1],
                dim=-1,
            )
            v, i = lp.topk(k)
            new += [(score + a, seq + [b]) for a, b in zip(v.tolist(), i.tolist())]
        beams = heapq.nlargest(k, new, key=lambda t: t[0] / len(t[1]))
    return beams


def train(steps):
    pairs = [
        ("je suis la", "i am here"),
        ("tu es la bas", "you are over there"),
        ("il est grand", "he is tall"),
        ("je suis grand", "i am tall"),
    ]
    a, b = Lang("fra"), Lang("eng")
    for p in pairs:
        a.addSentence(p[0])
        b.addSentence(p[1])
    n = len(pairs)
    input_ids, target_ids = (
        np.zeros((n, MAX_LENGTH), dtype=np.int32),
        np.zeros((n, MAX_LENGTH), dtype=np.int32),
    )
    for idx, (i, t) in enumerate(pairs):
        ii, tt = (
            [a.word2index[w] for w in i.split(" ")] + [EOS_token],
            [b.word2index[w] for w in t.split(" ")] + [EOS_token],
        )
        input_ids[idx, : len(ii)], target_ids[idx, : len(tt)] = ii, tt
    data = TensorDataset(
        torch.LongTensor(input_ids).to(device), torch.LongTensor(target_ids).to(device)
    )
    loader = DataLoader(data, sampler=SequentialSampler(data), batch_size=2)
    enc, dec = (
        seeded(EncoderRNN(a.n_words, 8)).to(device),
        seeded(AttnDecoderRNN(8, b.n_words)).to(device),
    )
    eo, do = (
        optim.Adam(enc.parameters(), lr=0.01),
        optim.Adam(dec.parameters(), lr=0.01),
    )
    criterion, res = nn.NLLLoss(), []
    for epoch in range(steps // 2):
        total = 0
        for input_tensor, target_tensor in loader:
            eo.zero_grad()
            do.zero_grad()
            outs, h = enc(input_tensor)
            o, _, _ = dec(outs, h, target_tensor if epoch % 2 else None)
            loss = criterion(o.view(-1, o.size(-1)), target_tensor.view(-1))
            loss.backward()
            eo.step()
            do.step()
            total += loss.item()
        res.append(total / len(loader))
    enc.eval(), dec.eval()
    with torch.no_grad():
        o, _, w = dec(*enc(data[0][0].unsqueeze(0)))
        ids = o.topk(1)[1].squeeze()
        words = []
        for i in ids:
            if i.item() == EOS_token:
                words.append("<EOS>")
                break
            words.append(b.index2word[i.item()])
        res += [len(words), w.squeeze()[0, :3].sum().cpu().numpy().item()]
    model = Translator(a.n_words, b.n_words)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    seeded(model).to(device)
    model.pos.to(device)
    crit = LabelSmoothing(b.n_words, 0, 0.1)
    opt = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-9)
    sched = LambdaLR(
        optimizer=opt, lr_lambda=lambda step: rate(step, 8, factor=1, warmup=8)
    )
    s, t = data.tensors
    s, t = s[:, :5], t[:, :5]
    t_in = F.pad(t, (1, 0), value=SOS_token)[:, :-1]
    ntokens = (t != 0).data.sum()
    for i in range(steps):
        out = model(s, t_in, s == 0, None)
        x = log_softmax(out, dim=-1)
        sloss = (
            crit(x.contiguous().view(-1, x.size(-1)), t.contiguous().view(-1)) / ntokens
        )
        sloss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        sched.step()
        res += [sloss.item(), opt.param_groups[0]["lr"]]
        del sloss
    model.eval()
    best = beam(model, s[:1], s[:1] == 0)
    return res + [best[0][0]] + best[0][1]
