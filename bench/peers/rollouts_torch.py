"""The same rollouts in PyTorch: transformers' generate where it is installed, else a plain decoder with a static cache.

256 prompts of 128 tokens, 128 new tokens each, temperature 1, bf16, random weights of the shape of Qwen2.5-0.5B.
The plain decoder prefills all prompts at once and then runs one compiled step a token, captured as a CUDA graph.
Prints one line of JSON for each way. `rollouts_torch.py compiled [FILE]` has the compiled ways alone. It waits for FILE
after it has compiled, so that nothing else need run on the GPU while it is timed. With `plain`, transformers is left out.
"""
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

B, PROMPT, NEW = 256, 128, 128
V, D, LAYERS, H, K, FF, HD = 151936, 896, 24, 14, 2, 4864, 64
T = PROMPT + NEW
dev, dt = "cuda", torch.bfloat16


def say(what, seconds):
    print(json.dumps({"what": what, "rate": round(B * NEW / seconds)}), flush=True)


def wait():
    """Until another program has made the file of the arguments."""
    print("compiled", file=sys.stderr, flush=True)
    while len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
        time.sleep(0.05)


def timed(run, rounds=3):
    best = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.time()
        run()
        torch.cuda.synchronize()
        best = min(best, time.time() - start)
    return best


def transformers_generate():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=V, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=H, num_key_value_heads=K,
        intermediate_size=FF, tie_word_embeddings=True, max_position_embeddings=32768,
    )
    with torch.device(dev):  # half a billion random numbers take seconds on a processor
        model = Qwen2ForCausalLM(config).to(dt).eval()
    ids = torch.randint(0, 1000, (B, PROMPT), device=dev)
    same = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, min_new_tokens=NEW, max_new_tokens=NEW, pad_token_id=0)
    if "compiled" not in sys.argv:
        model.generate(ids, **same)
        say("transformers generate, 256 prompts", timed(lambda: model.generate(ids, **same), 2))
    static = dict(same, cache_implementation="static")
    for _ in range(2):
        print(f"compiling: {timed(lambda: model.generate(ids, **static), 1):.1f} s", file=sys.stderr, flush=True)
    wait()
    say("transformers generate, static cache, compiled", timed(lambda: model.generate(ids, **static)))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        new = lambda o, i: torch.nn.Parameter(torch.randn(o, i, device=dev, dtype=dt) / i**0.5, requires_grad=False)
        one = lambda n: torch.nn.Parameter(torch.ones(n, device=dev, dtype=dt), requires_grad=False)
        self.n1, self.n2 = one(D), one(D)
        self.qkv, self.o = new((H + 2 * K) * HD, D), new(D, H * HD)
        self.bias = torch.nn.Parameter(torch.zeros((H + 2 * K) * HD, device=dev, dtype=dt), requires_grad=False)
        self.gate, self.up, self.down = new(FF, D), new(FF, D), new(D, FF)
        self.register_buffer("k", torch.zeros(B, K, T, HD, device=dev, dtype=dt))
        self.register_buffer("v", torch.zeros(B, K, T, HD, device=dev, dtype=dt))

    def forward(self, x, at, cos, sin, mask):
        b, n, _ = x.shape
        h = F.rms_norm(x, (D,), self.n1, 1e-6)
        q, k, v = F.linear(h, self.qkv, self.bias).view(b, n, H + 2 * K, HD).transpose(1, 2).split([H, K, K], 1)
        turn = lambda y: y * cos + torch.cat((-y[..., HD // 2 :], y[..., : HD // 2]), -1) * sin
        self.k.index_copy_(2, at, turn(k))
        self.v.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(turn(q), self.k, self.v, attn_mask=mask, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).reshape(b, n, H * HD), self.o)
        h = F.rms_norm(x, (D,), self.n2, 1e-6)
        return x + F.linear(F.silu(F.linear(h, self.gate)) * F.linear(h, self.up), self.down)


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(V, D, device=dev, dtype=dt) * 0.02, requires_grad=False)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = torch.nn.Parameter(torch.ones(D, device=dev, dtype=dt), requires_grad=False)
        angles = torch.outer(torch.arange(T, device=dev).float(), 1e6 ** (-torch.arange(0, HD, 2, device=dev).float() / HD))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos().to(dt))
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin().to(dt))

    def forward(self, ids, at):
        x = F.embedding(ids, self.table)
        mask = (torch.arange(T, device=dev)[None, :] <= at[:, None])[None, None]
        for block in self.blocks:
            x = block(x, at, self.cos[at], self.sin[at], mask)
        logits = F.linear(F.rms_norm(x[:, -1], (D,), self.norm, 1e-6), self.table).float()
        p = torch.softmax(logits, -1)
        return torch.argmax(p / torch.empty_like(p).exponential_(1), -1, keepdim=True)  # multinomial without a sync


@torch.no_grad()
def plain(compiled):
    torch.manual_seed(0)
    model = Plain().eval()
    step = torch.compile(model, mode="reduce-overhead", fullgraph=True) if compiled else model
    ids = torch.randint(0, 1000, (B, PROMPT), device=dev)
    first = torch.arange(PROMPT, device=dev)
    places = [torch.tensor([PROMPT + i], device=dev) for i in range(NEW)]

    def run():
        token = model(ids, first)
        for i in range(NEW - 1):
            token = step(token, places[i]).clone()

    run()
    run()
    wait()
    say(f"plain torch {torch.__version__}, static cache, {'torch.compile + CUDA graphs' if compiled else 'eager'}", timed(run))


try:
    plain(compiled=True) if "plain" in sys.argv else transformers_generate()
except ImportError:
    print("transformers is not installed: plain torch instead", file=sys.stderr)
    plain(compiled=True)
