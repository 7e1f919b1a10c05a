"""Figures that the training engine must reproduce, made with PyTorch alone.

    python3 scripts/reference/torch_reference.py > test/ml/engine/torch_reference.json
    bunx biome format --write test/ml/engine/torch_reference.json

Small models of each architecture, in the layout of GGUF. Weights come from a formula that the test computes too, so that
only results are stored: log-probabilities, the loss, norms and samples of gradients, and ten steps of AdamW.
"""
import json
import math
import sys

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
LAYERS, WIDTH, HEADS, KEY_HEADS, FORWARD, VOCAB = 2, 32, 4, 2, 64, 96
EPSILON, ROPE_BASE = 1e-5, 10_000.0
RANK, ALPHA = 4, 8
SAMPLES, LORA_SAMPLES = 24, 64
ADAMW = {"lr": 2e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
MAX_NORM = 0.5
TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
CASES = [
    {"arch": "llama", "head": 8, "tied": False, "temperature": 0.7},
    {"arch": "qwen2", "head": 8, "tied": True, "temperature": 1.0},
    {"arch": "qwen3", "head": 16, "tied": False, "temperature": 1.0},
]


def uniform(seed, count):
    """In [-1, 1): x = 1664525 x + 1013904223 (mod 2^32), divided by 2^31, minus 1."""
    state, out = seed, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state / 2**31 - 1)
    return out


def plan(case):
    """Name, shape with the row's length first, centre and spread."""
    q, kv = case["head"] * HEADS, case["head"] * KEY_HEADS
    matrix = lambda name, i, o: (name + ".weight", [i, o], 0.0, math.sqrt(3 / i))
    tensors = [("token_embd.weight", [WIDTH, VOCAB], 0.0, 1.0), ("output_norm.weight", [WIDTH], 1.0, 0.2)]
    if not case["tied"]:
        tensors.append(matrix("output", WIDTH, VOCAB))
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        tensors += [
            (at + "attn_norm.weight", [WIDTH], 1.0, 0.2),
            (at + "ffn_norm.weight", [WIDTH], 1.0, 0.2),
            matrix(at + "attn_q", WIDTH, q),
            matrix(at + "attn_k", WIDTH, kv),
            matrix(at + "attn_v", WIDTH, kv),
            matrix(at + "attn_output", q, WIDTH),
            matrix(at + "ffn_gate", WIDTH, FORWARD),
            matrix(at + "ffn_up", WIDTH, FORWARD),
            matrix(at + "ffn_down", FORWARD, WIDTH),
        ]
        if case["arch"] == "qwen2":
            tensors += [(f"{at}attn_{p}.bias", [n], 0.0, 0.3) for p, n in (("q", q), ("k", kv), ("v", kv))]
        if case["arch"] == "qwen3":
            tensors += [(f"{at}attn_{p}_norm.weight", [case["head"]], 1.0, 0.2) for p in "qk"]
    return tensors


def draw(tensors, first_seed):
    out = {}
    for i, (name, shape, centre, spread) in enumerate(tensors):
        values = [centre + spread * u for u in uniform(first_seed + i, math.prod(shape))]
        out[name] = torch.tensor(values, dtype=torch.float64).to(torch.float32).reshape(shape[::-1])
    return out


def lora_plan(case):
    shapes = {name: shape for name, shape, _, _ in plan(case)}
    out = []
    for layer in range(LAYERS):
        for target in TARGETS:
            name = f"blk.{layer}.{target}.weight"
            inputs, outputs = shapes[name]
            out.append((name + ".lora_a", [inputs, RANK], 0.0, 1 / math.sqrt(inputs)))
            out.append((name + ".lora_b", [RANK, outputs], 0.0, 0.2))
    return out


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


def rope(x, halves):
    """x (T, heads, head). Halves: element i turns with i + head/2; otherwise neighbours turn with each other."""
    length, _, head = x.shape
    frequency = ROPE_BASE ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype)[:, None, :], angle.sin().to(x.dtype)[:, None, :]
    if halves:
        a, b = x[..., : head // 2], x[..., head // 2 :]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def logps(case, w, lora, tokens):
    """Of tokens[1:], each given all before it."""
    halves, head = case["arch"] != "llama", case["head"]

    def project(name, x):
        y = x @ w[name].T
        if lora:
            y = y + (ALPHA / RANK) * ((x @ lora[name + ".lora_a"].T) @ lora[name + ".lora_b"].T)
        bias = name.replace(".weight", ".bias")
        return y + w[bias] if bias in w else y

    x = w["token_embd.weight"][tokens[:-1]]
    length = x.shape[0]
    mask = torch.full((length, length), float("-inf")).triu(1)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        normed = rms(x, w[at + "attn_norm.weight"])
        q = project(at + "attn_q.weight", normed).view(length, HEADS, head)
        k = project(at + "attn_k.weight", normed).view(length, KEY_HEADS, head)
        v = project(at + "attn_v.weight", normed).view(length, KEY_HEADS, head)
        if case["arch"] == "qwen3":
            q, k = rms(q, w[at + "attn_q_norm.weight"]), rms(k, w[at + "attn_k_norm.weight"])
        q, k = rope(q, halves), rope(k, halves)
        k, v = (each.repeat_interleave(HEADS // KEY_HEADS, 1) for each in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(head) + mask
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(length, HEADS * head)
        x = x + project(at + "attn_output.weight", mixed)
        normed = rms(x, w[at + "ffn_norm.weight"])
        gate, up = project(at + "ffn_gate.weight", normed), project(at + "ffn_up.weight", normed)
        x = x + project(at + "ffn_down.weight", torch.nn.functional.silu(gate) * up)
    last = rms(x, w["output_norm.weight"])
    logits = last @ w["token_embd.weight" if case["tied"] else "output.weight"].T / case["temperature"]
    return logits.log_softmax(-1).gather(1, tokens[1:, None]).squeeze(1)


def sequences():
    lengths, out = [9, 5, 13], []
    for i, length in enumerate(lengths):
        tokens = [int((u + 1) / 2 * VOCAB) for u in uniform(50 + i, length)]
        out.append({"tokens": tokens, "weights": [round(u, 6) for u in uniform(70 + i, length - 1)]})
    return out


def loss_of(case, w, lora, texts):
    scores = [logps(case, w, lora, torch.tensor(text["tokens"])) for text in texts]
    parts = [(torch.tensor(text["weights"]) * -score).sum() for text, score in zip(texts, scores)]
    return sum(parts), scores


def short(values):
    return [float(f"{float(torch.as_tensor(value).detach()):.7g}") for value in values]


def sampled(tensor, count):
    flat = tensor.detach().flatten()
    if flat.numel() <= count:
        return short(flat)
    return short(flat[(i * 7919 + 13) % flat.numel()] for i in range(count))


def made(case):
    texts = sequences()
    w = {name: value.requires_grad_() for name, value in draw(plan(case), 1000).items()}
    loss, scores = loss_of(case, w, None, texts)
    loss.backward()
    gradients = {n: {"norm": short([v.grad.norm()])[0], "values": sampled(v.grad, SAMPLES)} for n, v in w.items()}

    adapters = {name: value.requires_grad_() for name, value in draw(lora_plan(case), 5000).items()}
    frozen = {name: value.detach() for name, value in w.items()}
    lora_loss, _ = loss_of(case, frozen, adapters, texts)
    lora_loss.backward()
    lora = {n: {"norm": short([v.grad.norm()])[0], "values": sampled(v.grad, LORA_SAMPLES)} for n, v in adapters.items()}

    optimizer = torch.optim.AdamW(list(w.values()), **ADAMW)
    steps = []
    for _ in range(10):
        optimizer.zero_grad()
        each, _ = loss_of(case, w, None, texts)
        each.backward()
        norm = torch.nn.utils.clip_grad_norm_(list(w.values()), MAX_NORM)
        optimizer.step()
        steps.append(short([each, norm]))
    end, _ = loss_of(case, w, None, texts)
    return {
        **case,
        "tensors": [list(each) for each in plan(case)],
        "adapters": [list(each) for each in lora_plan(case)],
        "sequences": texts,
        "logps": [short(score) for score in scores],
        "loss": short([loss])[0],
        "gradients": gradients,
        "lora": {"loss": short([lora_loss])[0], "gradients": lora},
        "adamw": {"steps": steps, "end": short([end])[0], "weights": {n: sampled(v, SAMPLES) for n, v in w.items()}},
    }


shape = {"layers": LAYERS, "width": WIDTH, "heads": HEADS, "key_heads": KEY_HEADS, "forward": FORWARD, "vocab": VOCAB}
lora = {"rank": RANK, "alpha": ALPHA, "targets": TARGETS, "samples": LORA_SAMPLES, "first_seed": 5000}
result = {
    "made_with": f"PyTorch {torch.__version__.split('+')[0]}, CPU, float32",
    "shape": {**shape, "epsilon": EPSILON, "rope_base": ROPE_BASE},
    "samples": SAMPLES,
    "first_seed": 1000,
    "lora": lora,
    "adamw": {**ADAMW, "max_norm": MAX_NORM},
    "cases": [made(case) for case in CASES],
}
json.dump(result, sys.stdout, separators=(",", ":"))
print()
