"""The plain loop: a step of GRPO as transformers alone makes it, with random weights of the shape of Qwen2.5-0.5B.

    python3 grpo_torch.py cuda|cpu 0.5B|small PROMPTS GROUP TOKENS STEPS

`generate` for all samples at once, log-probabilities and the clipped loss in micro-batches as large as memory allows,
AdamW over an adapter of rank 16 on all seven matrices: PEFT's where it is installed, else one written here. Once with
the adapter beside the weights while it generates, once merged into them for that time. One line of JSON each; medians.
"""
import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from transformers import Qwen2Config, Qwen2ForCausalLM
except ImportError as missing:
    sys.exit(f"{missing.name} is not installed")
try:
    import peft
except ImportError:
    peft = None

device, name = sys.argv[1], sys.argv[2]
PROMPTS, GROUP, NEW, STEPS = map(int, sys.argv[3:7])
if device == "cuda" and not torch.cuda.is_available():
    sys.exit("PyTorch sees no GPU here")
SHAPES = {
    "0.5B": dict(vocab_size=151936, hidden_size=896, num_hidden_layers=24, num_attention_heads=14,
                 num_key_value_heads=2, intermediate_size=4864),
    "small": dict(vocab_size=2048, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, intermediate_size=1024),
}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, SCALE, CLIP, SAMPLES = 16, 2.0, 0.2, PROMPTS * GROUP
torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        like = dict(device=inner.weight.device, dtype=torch.float32)
        self.a = nn.Parameter(torch.randn(RANK, inner.in_features, **like) / inner.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(inner.out_features, RANK, **like))

    def forward(self, x):
        low = nn.functional.linear(x, self.a.to(x.dtype)) * SCALE
        return self.inner(x) + nn.functional.linear(low, self.b.to(x.dtype))


def adapted(model):
    for weight in model.parameters():
        weight.requires_grad_(False)
    if peft:
        config = peft.LoraConfig(r=RANK, lora_alpha=RANK * SCALE, lora_dropout=0.0, target_modules=TARGETS)
        return peft.get_peft_model(model, config)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for target in TARGETS:
                if hasattr(part, target):
                    setattr(part, target, Adapted(getattr(part, target)))
    return model


config = Qwen2Config(**SHAPES[name], tie_word_embeddings=True, max_position_embeddings=32768)
model = adapted(Qwen2ForCausalLM(config).to(device, torch.bfloat16))
trained = [weight for weight in model.parameters() if weight.requires_grad]
optimizer = torch.optim.AdamW(trained, 1e-5, fused=device == "cuda")
SAMPLING = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, min_new_tokens=NEW, max_new_tokens=NEW, pad_token_id=0)


def now():
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


@torch.no_grad()
def generate(prompts, merged):
    model.eval()
    if merged:
        model.merge_adapter()
    drawn = model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), **SAMPLING)
    if merged:
        model.unmerge_adapter()
    model.train()
    return drawn


def advantages(drawn):
    rewards = (drawn[:, NEW:].sum(1) % 17).float().view(PROMPTS, GROUP) / 17
    return ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)


def learn(drawn, gains, micro):
    for at in range(0, SAMPLES, micro):
        some, gain = drawn[at : at + micro], gains[at : at + micro]
        logits = model(input_ids=some, logits_to_keep=NEW + 1).logits[:, :-1].float()
        chosen = some[:, NEW:]
        logps = logits.gather(-1, chosen.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        ratio = (logps - logps.detach()).exp()
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        (-torch.minimum(ratio * gain, clipped * gain).sum() / (SAMPLES * NEW)).backward()


def learn_as_memory_allows(drawn, gains):
    global micro
    while True:
        try:
            return learn(drawn, gains, micro)
        except torch.OutOfMemoryError:
            optimizer.zero_grad()
            torch.cuda.empty_cache()
            if micro == 1:
                raise
            micro //= 2


def step(merged):
    prompts = torch.randint(0, 1000, (PROMPTS, NEW), device=device).repeat_interleave(GROUP, 0)
    begun = now()
    drawn = generate(prompts, merged)
    rolled = now()
    learn_as_memory_allows(drawn, advantages(drawn))
    learned = now()
    nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ended = now()
    return dict(total=ended - begun, generate=rolled - begun, learn=learned - rolled, update=ended - learned)


by = f"transformers, {'PEFT ' + peft.__version__ if peft else 'an adapter of its own'}, torch {torch.__version__}"
for merged in (False, True) if peft else (False,):
    micro = min(64, SAMPLES)
    times = [step(merged) for _ in range(STEPS + 1)][1:]
    middle = {key: statistics.median(each[key] for each in times) for key in times[0]}
    how = "merged while it generates" if merged else "beside the weights"
    print(json.dumps(dict(what=f"{by}: adapter {how}, micro-batches of {micro}", **middle)), flush=True)
