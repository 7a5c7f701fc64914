"""SAC-discrete, TD3, A2C with GAE, DQN double/duelling with n-step, as clean RL scripts write them."""

import random
import copy
from collections import deque, namedtuple
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

from tests.programs.seeding import seeded

device = torch.device("cpu")
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Env:
    def __init__(self):
        self.rng = np.random.RandomState(0)

    def reset(self):
        self.s = self.rng.randn(3).astype(np.float32)
        self.t = 0
        return self.s

    def step(self, a):
        self.s = (0.9 * self.s + 0.1 * (a - 1) + 0.01 * self.rng.randn(3)).astype(
            np.float32
        )
        self.t += 1
        return self.s, float(-np.abs(self.s).sum()), self.t >= 6, {}


class ReplayBuffer:
    def __init__(self, state_dim, action_dim, max_size=int(100)):
        self.max_size, self.ptr, self.size = max_size, 0, 0
        self.state, self.action, self.next_state = (
            np.zeros((max_size, state_dim)),
            np.zeros((max_size, action_dim)),
            np.zeros((max_size, state_dim)),
        )
        self.reward, self.not_done = np.zeros((max_size, 1)), np.zeros((max_size, 1))
        self.device = device

    def add(self, s, a, s2, r, d):
        (
            self.state[self.ptr],
            self.action[self.ptr],
            self.next_state[self.ptr],
            self.reward[self.ptr],
            self.not_done[self.ptr],
        ) = s, a, s2, r, 1.0 - d
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample(self, ind):
        return (
            torch.FloatTensor(self.state[ind]).to(self.device),
            torch.FloatTensor(self.action[ind]).to(self.device),
            torch.FloatTensor(self.next_state[ind]).to(self.device),
            torch.FloatTensor(self.reward[ind]).to(self.device),
            torch.FloatTensor(self.not_done[ind]).to(self.device),
        )


class Memory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, idx):
        return [self.memory[i] for i in idx]

    def __len__(self):
        return len(self.memory)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(3, 16)),
            nn.Tanh(),
            layer_init(nn.Linear(16, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(3, 16)),
            nn.Tanh(),
            layer_init(nn.Linear(16, 3), std=0.01),
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.probs.argmax(-1)
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class Actor(nn.Module):
    def __init__(self, s, a, max_action):
        super().__init__()
        self.l1, self.l2 = nn.Linear(s, 16), nn.Linear(16, a)
        self.max_action = max_action

    def forward(self, state):
        return self.max_action * torch.tanh(self.l2(F.relu(self.l1(state))))


class Critic(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2, self.l4, self.l5 = (
            nn.Linear(s + a, 16),
            nn.Linear(16, 1),
            nn.Linear(s + a, 16),
            nn.Linear(16, 1),
        )

    def forward(self, state, action):
        sa = torch.cat([state, action], 1)
        return self.l2(F.relu(self.l1(sa))), self.l5(F.relu(self.l4(sa)))

    def Q1(self, state, action):
        return self.l2(F.relu(self.l1(torch.cat([state, action], 1))))


def train(steps):
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    env, agent = Env(), seeded(Agent()).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    n, res = 8, []
    obs = torch.zeros((n, 1) + (3,)).to(device)
    actions = torch.zeros((n, 1) + ()).to(device)
    logprobs, rewards, dones, values = (
        torch.zeros((n, 1)).to(device) for _ in range(4)
    )
    next_obs = torch.Tensor(env.reset()).to(device).unsqueeze(0)
    next_done = torch.zeros(1).to(device)
    memory = Memory(50)
    for update in range(1, steps // 4 + 1):
        frac = 1.0 - (update - 1.0) / steps
        optimizer.param_groups[0]["lr"] = frac * 1e-3
        for step in range(n):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            action = torch.full_like(action, (step + update) % 3)
            logprob = agent.get_action_and_value(next_obs, action)[1].detach()
            actions[step], logprobs[step] = action, logprob
            o, r, d, _ = env.step(action.cpu().numpy()[0])
            memory.push(
                next_obs,
                action.view(1, 1),
                None
                if d
                else torch.tensor(o, dtype=torch.float32, device=device).unsqueeze(0),
                torch.tensor([r], device=device),
            )
            if d:
                o = env.reset()
            rewards[step] = torch.tensor(r).to(device).view(-1)
            next_obs, next_done = (
                torch.Tensor(o).to(device)[None],
                torch.Tensor([d]).to(device),
            )
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards).to(device)
            lastgaelam = 0
            for t in reversed(range(n)):
                if t == n - 1:
                    nonterminal, nextvalues = 1.0 - next_done, next_value
                else:
                    nonterminal, nextvalues = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + 0.99 * nextvalues * nonterminal - values[t]
                advantages[t] = lastgaelam = (
                    delta + 0.99 * 0.95 * nonterminal * lastgaelam
                )
            returns = advantages + values
        b_obs, b_logprobs, b_actions, b_adv, b_ret, b_val = (
            obs.reshape((-1,) + (3,)),
            logprobs.reshape(-1),
            actions.reshape((-1,) + ()),
            advantages.reshape(-1),
            returns.reshape(-1),
            values.reshape(-1),
        )
        b_inds = np.arange(n)
        clipfracs = []
        for epoch in range(2):
            np.random.shuffle(b_inds)
            for start in range(0, n, 4):
                mb = b_inds[start : start + 4]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                    b_obs[mb], b_actions.long()[mb]
                )
                logratio = newlogprob - b_logprobs[mb]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                    clipfracs += [((ratio - 1.0).abs() > 0.2).float().mean().item()]
                a = b_adv[mb]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg_loss = torch.max(
                    -a * ratio, -a * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
                ).mean()
                newvalue = newvalue.view(-1)
                v_unclipped = (newvalue - b_ret[mb]) ** 2
                v_clipped = b_val[mb] + torch.clamp(newvalue - b_val[mb], -0.2, 0.2)
                v_loss = (
                    0.5 * torch.max(v_unclipped, (v_clipped - b_ret[mb]) ** 2).mean()
                )
                loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
            res += [loss.item(), approx_kl.item(), np.mean(clipfracs)]
        y_pred, y_true = b_val.cpu().numpy(), b_ret.cpu().numpy()
        var_y = np.var(y_true)
        res.append(np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y)
    # DQN of the tutorial
    policy_net, target_net = (
        seeded(Agent().actor, 3).to(device),
        Agent().actor.to(device),
    )
    target_net.load_state_dict(policy_net.state_dict())
    opt = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
    for i in range(steps // 2):
        batch = Transition(*zip(*memory.sample(random.sample(range(len(memory)), 10))))
        non_final_mask = torch.tensor(
            tuple(map(lambda s: s is not None, batch.next_state)),
            device=device,
            dtype=torch.bool,
        )
        non_final_next_states = torch.cat(
            [s for s in batch.next_state if s is not None]
        )
        sb, ab, rb = (
            torch.cat(batch.state),
            torch.cat(batch.action),
            torch.cat(batch.reward),
        )
        sav = policy_net(sb).gather(1, ab)
        nsv = torch.zeros(10, device=device)
        with torch.no_grad():
            nsv[non_final_mask] = target_net(non_final_next_states).max(1).values
        loss = nn.SmoothL1Loss()(sav, ((nsv * 0.99) + rb).unsqueeze(1))
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        opt.step()
        tsd, psd = target_net.state_dict(), policy_net.state_dict()
        for key in psd:
            tsd[key] = psd[key] * 0.05 + tsd[key] * (1 - 0.05)
        target_net.load_state_dict(tsd)
        res.append(loss.item())
    # TD3
    actor, critic = (
        seeded(Actor(3, 2, 1.5), 1).to(device),
        seeded(Critic(3, 2), 2).to(device),
    )
    actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
    ao, co = (
        optim.Adam(actor.parameters(), lr=3e-4),
        optim.Adam(critic.parameters(), lr=3e-4),
    )
    rb, rng = ReplayBuffer(3, 2), np.random.RandomState(3)
    for _ in range(30):
        s = rng.randn(3)
        rb.add(
            s,
            actor(torch.FloatTensor(s.reshape(1, -1)).to(device))
            .cpu()
            .data.numpy()
            .flatten(),
            rng.randn(3),
            rng.randn(),
            rng.rand() < 0.1,
        )
    for it in range(steps):
        s, a, s2, r, nd = rb.sample(rng.randint(0, rb.size, size=8))
        with torch.no_grad():
            noise = (torch.from_numpy(rng.randn(8, 2)).to(a) * 0.2).clamp(-0.5, 0.5)
            na = (actor_t(s2) + noise).clamp(-1.5, 1.5)
            q1, q2 = critic_t(s2, na)
            tq = r + nd * 0.99 * torch.min(q1, q2)
        c1, c2 = critic(s, a)
        cl = F.mse_loss(c1, tq) + F.mse_loss(c2, tq)
        co.zero_grad()
        cl.backward()
        co.step()
        res.append(cl.item())
        if it % 2 == 0:
            al = -critic.Q1(s, actor(s)).mean()
            ao.zero_grad()
            al.backward()
            ao.step()
            for p, tp in zip(critic.parameters(), critic_t.parameters()):
                tp.data.copy_(0.005 * p.data + (1 - 0.005) * tp.data)
            for p, tp in zip(actor.parameters(), actor_t.parameters()):
                tp.data.lerp_(p.data, 0.005)
            res.append(al.item())
    return res
