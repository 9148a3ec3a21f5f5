"""PyTorch's side of `cargo xtask bench`: times one row per line read, prints milliseconds.

A line is `NAME ITERATIONS`; the answer is the time of one iteration in milliseconds, or `-` where PyTorch fails.
`compiled` in the environment variable RTX_PEER_MODE compiles the training step with torch.compile. With `--once` it
takes steps of gpt_mini: a line after the first loss, then the seconds of the first step and of a steady one.
"""
import os
import statistics
import sys
import time

import torch
import torch.multiprocessing
import torch.nn.functional as F
import torch.utils._python_dispatch
import torch.utils._pytree

torch.set_num_threads(int(os.environ.get("RTX_THREADS", "2")))
torch.manual_seed(0)
COMPILED = os.environ.get("RTX_PEER_MODE") == "compiled"


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
    forward = torch.compile(model) if COMPILED else model

    def step():
        loss = forward(tokens)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def gemm(m, n, k, dtype=torch.float32):
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    return compiled(lambda: a @ b)


def compiled(f):
    return torch.compile(f) if COMPILED else f


def forward(f, *shape):
    x = torch.randn(shape)
    f = compiled(f)
    return lambda: f(x)


def forward_backward(f, *operands):
    """The gradients of the sum of f in every operand that is a float tensor, as new tensors."""
    leaves = [x.requires_grad_() for x in operands if x.is_floating_point()]
    f = compiled(f)
    return lambda: torch.autograd.grad(f(*operands).sum(), leaves)


def chain8(x, y):
    return torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x.abs().sqrt()


def two(f, *shape):
    x, y = torch.randn(shape), torch.randn(shape)
    f = compiled(f)
    return lambda: f(x, y)


def attention():
    q, k, v = (torch.randn(1, 8, 512, 64) for _ in range(3))
    return forward_backward(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)


def cross_entropy():
    logits, target = torch.randn(128, 50000), torch.randint(0, 50000, (128,))
    return forward_backward(lambda x, t: F.cross_entropy(x, t), logits, target)


def embedding():
    ids, weight = torch.randint(0, 10000, (4096,)), torch.randn(10000, 256)
    return forward_backward(lambda i, w: F.embedding(i, w), ids, weight)


def trained(net, x):
    """Forward and backward of a network in training, gradients in its parameters and its input."""
    x.requires_grad_()
    leaves = [x, *net.parameters()]
    net = compiled(net)
    return lambda: torch.autograd.grad(net(x).sum(), leaves)


class BasicBlock(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(width)

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(y)) + x).relu()


class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(256, 256, 2)

    def forward(self, x):
        return self.lstm(x)[0]


def step_of(net, optimizer, x, y):
    loss_of = compiled(lambda: F.cross_entropy(net(x), y))

    def step():
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def mlp_step(make):
    net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    return step_of(net, make(net.parameters()), torch.randn(64, 784), torch.randint(0, 10, (64,)))


def cnn_step():
    conv, pool = torch.nn.Conv2d, torch.nn.MaxPool2d
    net = torch.nn.Sequential(
        conv(1, 32, 3, padding=1), torch.nn.ReLU(), pool(2),
        conv(32, 64, 3, padding=1), torch.nn.ReLU(), pool(2),
        torch.nn.Flatten(), torch.nn.Linear(3136, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10),
    )
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    return step_of(net, optimizer, torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,)))


def add_chain():
    a, b = torch.randn(16), torch.randn(16)

    def run():
        x = b
        for _ in range(100_000):
            x = x + a
        return x

    return run


def int8():
    a, b = (torch.randint(-128, 128, (1024, 1024), dtype=torch.int8) for _ in range(2))
    return compiled(lambda: torch._int_mm(a, b))


class Living(torch.utils._python_dispatch.TorchDispatchMode):
    """Sums the storages that live after each operation, and keeps the most that there were."""

    def __init__(self, tensors):
        super().__init__()
        self.storages, self.peak = {}, 0
        for t in tensors:
            self.see(t)

    def see(self, t):
        storage = t.untyped_storage()
        weak = torch.multiprocessing.reductions.StorageWeakRef(storage)
        self.storages[weak.cdata] = (weak, storage.nbytes())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in torch.utils._pytree.tree_leaves(out):
            if isinstance(t, torch.Tensor):
                self.see(t)
        self.storages = {key: entry for key, entry in self.storages.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(bytes for _, bytes in self.storages.values()))
        return out


def gpt_mini_peak():
    """Millions of bytes of living tensors at most, in three steps after two, eager: compiled code makes its buffers
    where no dispatch sees them."""
    if COMPILED:
        raise NotImplementedError("only eager memory is counted")
    import gc

    step = gpt_step(*GPT_MINI)
    step(), step()
    gc.collect()
    living = Living(t for t in gc.get_objects() if isinstance(t, torch.Tensor))
    with living:
        step(), step(), step()
    return living.peak / 1e6


GPT_MINI = (256, 256, 6, 384, 6, 8)


def once():
    def timed():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    step = gpt_step(*GPT_MINI)
    first = timed()
    print("loss", flush=True)
    timed(), timed(), timed()
    print(first, statistics.median(timed() for _ in range(3)), flush=True)


ROWS = {
    "gemm_1024": lambda: gemm(1024, 1024, 1024),
    "gemm_2048": lambda: gemm(2048, 2048, 2048),
    "gemm_512x3072x768": lambda: gemm(512, 3072, 768),
    "gemm_64x256x784": lambda: gemm(64, 256, 784),
    "gemm_128": lambda: gemm(128, 128, 128),
    "gemv_4096": lambda: gemm(1, 4096, 4096),
    "gemm_bf16_1024": lambda: gemm(1024, 1024, 1024, torch.bfloat16),
    "gemm_int8_1024": int8,
    "chain8": lambda: two(chain8, 4096, 1024),
    "gelu": lambda: forward(lambda x: F.gelu(x, approximate="tanh"), 4096, 1024),
    "softmax": lambda: forward(lambda x: F.softmax(x, -1), 4096, 1024),
    "softmax_fb": lambda: forward_backward(lambda x, w: F.softmax(x, -1) * w, torch.randn(4096, 1024), torch.randn(1024)),
    "layer_norm": lambda: forward(lambda x: F.layer_norm(x, (1024,)), 4096, 1024),
    "layer_norm_fb": lambda: forward_backward(
        lambda x, w, b: F.layer_norm(x, (1024,), w, b).square(), torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)
    ),
    "attention_fb": attention,
    "cross_entropy_fb": cross_entropy,
    "embedding_fb": embedding,
    "dropout_fb": lambda: forward_backward(lambda x: F.dropout(x, 0.1), torch.randn(4096, 1024)),
    "mlp_sgd": lambda: mlp_step(lambda p: torch.optim.SGD(p, 0.1)),
    "mlp_adamw": lambda: mlp_step(lambda p: torch.optim.AdamW(p, 1e-3)),
    "add_chain": add_chain,
    "gpt_nano": lambda: gpt_step(256, 128, 4, 128, 4, 16),
    "gpt_mini": lambda: gpt_step(*GPT_MINI),
    "gpt_sums": lambda: gpt_step(16, 12, 2, 128, 4, 256),
    "gpt_text": lambda: gpt_step(256, 64, 2, 128, 4, 32),
    "basic_block": lambda: trained(BasicBlock(64), torch.randn(8, 64, 56, 56)),
    "depthwise_fb": lambda: trained(torch.nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), torch.randn(8, 64, 56, 56)),
    "max_pool_fb": lambda: forward_backward(lambda x: F.max_pool2d(x, 2), torch.randn(64, 32, 28, 28)),
    "avg_pool_fb": lambda: forward_backward(lambda x: F.avg_pool2d(x, 2).square(), torch.randn(64, 32, 28, 28)),
    "batch_norm_fb": lambda: trained(torch.nn.BatchNorm2d(64), torch.randn(8, 64, 56, 56)),
    "cnn_adamw": cnn_step,
    "lstm_fb": lambda: trained(Lstm(), torch.randn(64, 16, 256)),
}

# Rows that are a number, not a time.
NUMBERS = {"gpt_mini_peak": gpt_mini_peak}


def answer(name, iterations):
    if name in NUMBERS:
        return NUMBERS[name]()
    if name not in ready:
        ready[name] = ROWS[name]()
        for _ in range(3):
            ready[name]()
    start = time.perf_counter()
    for _ in range(iterations):
        ready[name]()
    return (time.perf_counter() - start) / iterations * 1e3


if sys.argv[1:] == ["--once"]:
    once()
    sys.exit()
ready = {}
for line in sys.stdin:
    name, iterations = line.split()
    try:
        print(answer(name, int(iterations)), flush=True)
    except Exception as error:
        print(f"{name}: {error}", file=sys.stderr)
        print("-", flush=True)
