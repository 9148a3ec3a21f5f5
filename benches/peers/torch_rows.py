"""PyTorch's side of `cargo xtask bench`: times one row per line read, prints milliseconds.

A line is `NAME ITERATIONS`; the answer is the time of one iteration in milliseconds. `compile` in the environment
variable RTX_PEER_MODE compiles the training step with torch.compile.
"""
import os
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("RTX_THREADS", "2")))
torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.ln2 = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    def __init__(self, vocabulary, context, layers, width, heads):
        super().__init__()
        self.tok = torch.nn.Embedding(vocabulary, width)
        self.pos = torch.nn.Embedding(context, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = torch.nn.LayerNorm(width)

    def forward(self, tokens):
        ids, target = tokens[:, :-1], tokens[:, 1:]
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.ln(x) @ self.tok.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def gpt_step(vocabulary, context, layers, width, heads, batch):
    model = Gpt(vocabulary, context, layers, width, heads)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95), foreach=True)
    tokens = torch.randint(0, vocabulary, (batch, context + 1))
    forward = torch.compile(model) if os.environ.get("RTX_PEER_MODE") == "compile" else model

    def step():
        loss = forward(tokens)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def gemm(m, n, k):
    a, b = torch.randn(m, k), torch.randn(k, n)
    return lambda: a @ b


def rows(f, shape):
    x = torch.randn(shape)
    return lambda: f(x)


def mlp_step():
    net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))

    def step():
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


ROWS = {
    "gpt_sums": lambda: gpt_step(16, 12, 2, 128, 4, 256),
    "gpt_text": lambda: gpt_step(256, 64, 2, 128, 4, 32),
    "mlp_adamw": mlp_step,
    "gemm_1024": lambda: gemm(1024, 1024, 1024),
    "gelu": lambda: rows(lambda x: F.gelu(x, approximate="tanh"), (4096, 1024)),
    "softmax": lambda: rows(lambda x: F.softmax(x, -1), (4096, 1024)),
    "layer_norm": lambda: rows(lambda x: F.layer_norm(x, (1024,)), (4096, 1024)),
}

ready = {}
for line in sys.stdin:
    name, iterations = line.split()
    if name not in ready:
        ready[name] = ROWS[name]()
        for _ in range(3):
            ready[name]()
    start = time.perf_counter()
    for _ in range(int(iterations)):
        ready[name]()
    print((time.perf_counter() - start) / int(iterations) * 1e3, flush=True)
