"""PPO with minibatches of a shuffled rollout, clipped values, a Gaussian policy."""

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.normal import Normal
from torch.utils.data.sampler import (
    BatchSampler,
    SequentialSampler,
    SubsetRandomSampler,
)

from tests.programs.seeding import normal, seeded

device = torch.device("cpu")


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(3, 16)),
            nn.Tanh(),
            layer_init(nn.Linear(16, 1), std=1.0),
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(3, 16)),
            nn.Tanh(),
            layer_init(nn.Linear(16, 2), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, np.prod((2,))))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None, noise=None):
        action_mean = self.actor_mean(x)
        action_logstd = self.actor_logstd.expand_as(action_mean)
        action_std = torch.exp(action_logstd)
        probs = Normal(action_mean, action_std)
        if action is None:
            action = action_mean + action_std * noise
        return (
            action,
            probs.log_prob(action).sum(1),
            probs.entropy().sum(1),
            self.critic(x),
        )


def train(steps):
    N, T = 4, 8
    agent = seeded(Agent()).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3, eps=1e-5)
    noises = torch.from_numpy(normal(steps, T, N, 2)).to(device)
    obs = torch.zeros((T, N) + (3,)).to(device)
    actions = torch.zeros((T, N) + (2,)).to(device)
    logprobs, rewards, dones, values = [
        torch.zeros((T, N)).to(device) for _ in range(4)
    ]
    next_obs = torch.Tensor(normal(N, 3, seed=5)).to(device)
    next_done = torch.zeros(N).to(device)
    results = []
    order = np.random.RandomState(1)
    num_updates = steps // 4
    for update in range(1, num_updates + 1):
        frac = 1.0 - (update - 1.0) / num_updates
        optimizer.param_groups[0]["lr"] = frac * 3e-3
        for step in range(T):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(
                    next_obs, noise=noises[update, step]
                )
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            state = next_obs.cpu().numpy()
            state = np.tanh(
                state + np.pad(action.cpu().numpy(), ((0, 0), (0, 1))) * 0.3
            )
            rewards[step] = torch.tensor(-np.square(state).sum(1)).to(device).view(-1)
            next_obs, next_done = (
                torch.Tensor(state).to(device),
                torch.Tensor(state[:, 0] > 0.7).to(device),
            )
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards).to(device)
            lastgaelam = 0
            for t in reversed(range(T)):
                if t == T - 1:
                    nextnonterminal, nextvalues = 1.0 - next_done, next_value
                else:
                    nextnonterminal, nextvalues = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + 0.99 * nextvalues * nextnonterminal - values[t]
                advantages[t] = lastgaelam = (
                    delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
                )
            returns = advantages + values
        b_obs, b_actions = obs.reshape((-1,) + (3,)), actions.reshape((-1,) + (2,))
        b_logprobs, b_advantages, b_returns, b_values = (
            x.reshape(-1) for x in (logprobs, advantages, returns, values)
        )
        b_inds = np.arange(T * N)
        clipfracs = []
        order.shuffle(b_inds)
        for start in range(0, T * N, 16):
            mb_inds = b_inds[start : start + 16]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                b_obs[mb_inds], b_actions[mb_inds]
            )
            logratio = newlogprob - b_logprobs[mb_inds]
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
                clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
            mb_advantages = b_advantages[mb_inds]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (
                mb_advantages.std() + 1e-8
            )
            pg_loss1 = -mb_advantages * ratio
            pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()
            newvalue = newvalue.view(-1)
            v_clipped = b_values[mb_inds] + torch.clamp(
                newvalue - b_values[mb_inds], -0.2, 0.2
            )
            v_loss = (
                0.5
                * torch.max(
                    (newvalue - b_returns[mb_inds]) ** 2,
                    (v_clipped - b_returns[mb_inds]) ** 2,
                ).mean()
            )
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            results += [loss.item(), approx_kl.item(), np.mean(clipfracs)]
        y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
        results.append(float(1 - np.var(y_true - y_pred) / np.var(y_true)))
    batches = list(BatchSampler(SequentialSampler(range(10)), 4, drop_last=False))
    assert batches[-1] == [8, 9]
    assert sorted(SubsetRandomSampler(range(10))) == list(range(10))
    return results
