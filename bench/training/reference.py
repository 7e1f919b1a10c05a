"""What PyTorch needs for the step that device.ts times: an adapter of rank 16 on every matrix of a frozen BF16 model.

python3 reference.py SHAPE ROWS [checkpoint] [compile] — one line of JSON. Attention is PyTorch's own (flash), the output
layer goes in chunks that are computed again, AdamW is the fused one.
"""
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

SHAPES = {
    "8B": dict(vocab=128256, width=4096, layers=32, heads=32, key_heads=8, head=128, forward=14336),
    "1B": dict(vocab=128256, width=2048, layers=16, heads=32, key_heads=8, head=64, forward=8192),
    "0.5B": dict(vocab=151936, width=896, layers=24, heads=14, key_heads=2, head=64, forward=4864),
}
RANK, SCALE, TOKENS, CHUNK = 16, 2.0, 1024, 1024
name, rows = sys.argv[1], int(sys.argv[2])
again, compiled = "checkpoint" in sys.argv, "compile" in sys.argv
shape = SHAPES[name]
width, head, heads, key_heads = shape["width"], shape["head"], shape["heads"], shape["key_heads"]
GPU, HALF = "cuda", torch.bfloat16
torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        frozen = torch.randn(outputs, inputs, device=GPU, dtype=HALF) / inputs**0.5
        self.weight = nn.Parameter(frozen, requires_grad=False)
        self.a = nn.Parameter(torch.randn(RANK, inputs, device=GPU) / inputs**0.5)
        self.b = nn.Parameter(torch.randn(outputs, RANK, device=GPU) * 0.01)

    def forward(self, x):
        low = F.linear(x, self.a.to(HALF)) * SCALE
        return F.linear(x, self.weight) + F.linear(low, self.b.to(HALF))


angles = torch.outer(
    torch.arange(TOKENS, device=GPU).float(), 5e5 ** (-torch.arange(0, head, 2, device=GPU).float() / head)
)
cosine, sine = angles.cos().to(HALF), angles.sin().to(HALF)


def turned(x):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cosine - b * sine, a * sine + b * cosine), -1).flatten(-2)


def norm():
    return nn.Parameter(torch.ones(width, device=GPU, dtype=HALF), requires_grad=False)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = norm(), norm()
        self.q, self.k = Adapted(width, heads * head), Adapted(width, key_heads * head)
        self.v, self.o = Adapted(width, key_heads * head), Adapted(heads * head, width)
        self.gate, self.up = Adapted(width, shape["forward"]), Adapted(width, shape["forward"])
        self.down = Adapted(shape["forward"], width)

    def forward(self, x):
        h = F.rms_norm(x, (width,), self.norm1, 1e-5)
        split = lambda y, count: y.view(rows, TOKENS, count, head).transpose(1, 2)
        q, k, v = split(self.q(h), heads), split(self.k(h), key_heads), split(self.v(h), key_heads)
        mixed = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(rows, TOKENS, heads * head))
        h = F.rms_norm(x, (width,), self.norm2, 1e-5)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        table = torch.randn(shape["vocab"], width, device=GPU, dtype=HALF) * 0.02
        self.table = nn.Parameter(table, requires_grad=False)
        self.layers = nn.ModuleList(Layer() for _ in range(shape["layers"]))
        self.last = norm()

    def forward(self, ids):
        x = F.embedding(ids, self.table)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
        return F.rms_norm(x, (width,), self.last, 1e-5)


model = Model()
run = torch.compile(model) if compiled else model
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-4, fused=True)
ids = torch.randint(0, shape["vocab"], (rows, TOKENS), device=GPU)
count = rows * TOKENS


def chunk_loss(hidden, targets):
    return F.cross_entropy(F.linear(hidden, model.table).float(), targets, reduction="sum")


times = []
for _ in range(14):
    torch.cuda.synchronize()
    started = time.perf_counter()
    hidden = run(ids).view(-1, width)
    loss = sum(
        checkpoint(chunk_loss, hidden[i : i + CHUNK], ids.view(-1)[i : i + CHUNK], use_reentrant=False)
        for i in range(0, count, CHUNK)
    )
    (loss / count).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - started)
seconds = statistics.median(times[4:])
print(
    json.dumps(
        dict(
            reference=name,
            rows=rows,
            checkpoints=again,
            compiled=compiled,
            ms=round(seconds * 1e3, 1),
            tokens_s=round(count / seconds),
            allocated_mib=round(torch.cuda.max_memory_allocated() / 2**20),
            used_mib=round((torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]) / 2**20),
        )
    )
)
