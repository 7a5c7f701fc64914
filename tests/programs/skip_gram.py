"""Word2vec with negative sampling, subsampling tables, sparse-like rows; GloVe weights."""

from collections import Counter

import numpy as np
import torch
import torch.nn as nn

from tests.programs.seeding import seeded

device = torch.device("cpu")
words = ("a b c a d b e a c f b a d e f a b c d a " * 3).split()


class SkipGramNeg(nn.Module):
    def __init__(self, n_vocab, n_embed, noise_dist):
        super().__init__()
        self.n_vocab, self.n_embed, self.noise_dist = n_vocab, n_embed, noise_dist
        self.in_embed, self.out_embed = (
            nn.Embedding(n_vocab, n_embed),
            nn.Embedding(n_vocab, n_embed, scale_grad_by_freq=True),
        )
        self.in_embed.weight.data.uniform_(-1, 1)

    def forward_noise(self, batch_size, noise_words):
        return self.out_embed(noise_words).view(batch_size, -1, self.n_embed)


class NegativeSamplingLoss(nn.Module):
    def forward(self, input_vectors, output_vectors, noise_vectors):
        batch_size, embed_size = input_vectors.shape
        input_vectors = input_vectors.view(batch_size, embed_size, 1)
        output_vectors = output_vectors.view(batch_size, 1, embed_size)
        out_loss = torch.bmm(output_vectors, input_vectors).sigmoid().log().squeeze()
        noise_loss = torch.bmm(noise_vectors.neg(), input_vectors).sigmoid().log()
        noise_loss = noise_loss.squeeze(2).sum(1)
        return -(out_loss + noise_loss).mean()


def cosine_similarity(embedding, valid):
    embed_vectors = embedding.weight
    magnitudes = embed_vectors.pow(2).sum(dim=1).sqrt().unsqueeze(0)
    valid_vectors = embedding(valid)
    return torch.mm(valid_vectors, embed_vectors.t()) / magnitudes


def train(steps):
    vocab = sorted(set(words), key=Counter(words).get, reverse=True)
    to_int = {w: i for i, w in enumerate(vocab)}
    ids = [to_int[w] for w in words]
    freqs = np.array([Counter(words)[w] for w in vocab], float)
    noise = torch.from_numpy(
        (freqs / freqs.sum()) ** 0.75 / np.sum((freqs / freqs.sum()) ** 0.75)
    )
    assert (
        abs(
            torch.multinomial(noise, 200, replacement=True).float().mean().item()
            - float((noise * torch.arange(6)).sum())
        )
        < 1
    )
    model = seeded(SkipGramNeg(6, 5, noise)).to(device)
    criterion = NegativeSamplingLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    bias = nn.Parameter(torch.zeros(6, device=device))
    rng = np.random.RandomState(0)
    results = []
    for step in range(steps):
        start = rng.randint(2, 40)
        inputs, targets = zip(
            *[
                (ids[i], ids[i + d])
                for i in range(start, start + 5)
                for d in (-2, -1, 1, 2)
            ]
        )
        inputs, targets = (
            torch.LongTensor(inputs).to(device),
            torch.LongTensor(targets).to(device),
        )
        negatives = torch.as_tensor(
            rng.choice(6, size=len(inputs) * 3, p=noise.numpy())
        ).to(device)
        loss = criterion(
            model.in_embed(inputs),
            model.out_embed(targets),
            model.forward_noise(len(inputs), negatives),
        )
        glove = (
            torch.pow((targets + 1).float() / 6, 0.75).clamp_max_(1.0)
            * (
                torch.sum(model.in_embed(inputs) * model.out_embed(targets), 1)
                + bias[inputs]
                - torch.log1p(targets.float())
            )
            ** 2
        ).mean()
        optimizer.zero_grad()
        (loss + 0.1 * glove).backward()
        optimizer.step()
        with torch.no_grad():
            bias -= 0.1 * bias.grad
            bias.grad = None
        results += [loss.item(), glove.item()]
    sims = cosine_similarity(model.in_embed, torch.arange(3).to(device))
    _, closest = sims.topk(3)
    closest, results = closest.to("cpu"), results + sims.flatten().tolist()
    assert [vocab[i] for i in closest[0]][0] in vocab
    bag = nn.EmbeddingBag.from_pretrained(
        model.in_embed.weight.detach(), mode="mean"
    ).to(device)
    results += (
        bag(torch.tensor([0, 1, 2, 4, 5]).to(device), torch.tensor([0, 2]).to(device))
        .sum(1)
        .tolist()
    )
    return results
