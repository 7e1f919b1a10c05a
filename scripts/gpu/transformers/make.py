"""Writes a tiny random model of every family with transformers' own classes, and what PyTorch computes with it.

python3 make.py OUT: a folder OUT/NAME/model as save_pretrained writes it, logits.f32 of fixed tokens, and said.json.
Prints a line of JSON for each case: {"name", "error"}. An error ends only its case.
"""

import copy
import json
import os
import sys
import traceback

import torch
import transformers
from words import MARKS, MESSAGES, TEXT, byte_level, sentencepiece

torch.manual_seed(11)
torch.set_num_threads(4)
LENGTH, SEQUENCES = 40, 3
SIZE = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
    head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-5, pad_token_id=None,
)
DEFAULT = dict(rope_type="default", rope_theta=10_000.0)
YARN = dict(
    rope_type="yarn", rope_theta=10_000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=10_000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)


def longrope(half):
    """Factors for short contexts are used: the original context is longer than any text here."""
    return dict(
        rope_type="longrope", rope_theta=10_000.0, original_max_position_embeddings=512, factor=2.0,
        short_factor=[1 + 0.1 * i for i in range(half)], long_factor=[2 + 0.2 * i for i in range(half)],
    )


# Name of the case: (class, tokenizer, own values of the config, type of the file, size of a shard)
CASES = {
    "llama": ("LlamaForCausalLM", "llama", dict(rope_parameters=DEFAULT), "float32", None),
    "llama in BF16": ("LlamaForCausalLM", "llama-3", dict(rope_parameters=LLAMA3), "bfloat16", None),
    "llama in shards": ("LlamaForCausalLM", "gpt-2", dict(tie_word_embeddings=True), "float32", "150KB"),
    "mistral": ("MistralForCausalLM", "llama", dict(sliding_window=None), "float32", None),
    "ministral3": (
        "Ministral3ForCausalLM", "tekken",
        dict(sliding_window=None, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
        "float32", None,
    ),
    "smollm3": ("SmolLM3ForCausalLM", "llama-3", dict(tie_word_embeddings=True), "float32", None),
    "granite": (
        "GraniteForCausalLM", "gpt-2",
        dict(attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=0.7),
        "float32", None,
    ),
    "qwen2": ("Qwen2ForCausalLM", "qwen", {}, "float32", None),
    "qwen3": ("Qwen3ForCausalLM", "qwen", {}, "float32", None),
    "qwen3 in BF16": ("Qwen3ForCausalLM", "qwen", dict(tie_word_embeddings=True), "bfloat16", "100KB"),
    "qwen3_moe": (
        "Qwen3MoeForCausalLM", "qwen",
        dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True), "float32", None,
    ),
    "phi3": ("Phi3ForCausalLM", "llama", dict(sliding_window=None), "float32", None),
    "phi4-mini": (
        "Phi3ForCausalLM", "gpt-4o",
        dict(
            sliding_window=None, partial_rotary_factor=0.75, tie_word_embeddings=True, max_position_embeddings=1024,
            original_max_position_embeddings=512, rope_parameters=dict(longrope(6), partial_rotary_factor=0.75),
        ),
        "float32", None,
    ),
    "gemma2": (
        "Gemma2ForCausalLM", "gemma",
        dict(
            sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=5.0, final_logit_softcapping=4.0,
            hidden_activation="gelu_pytorch_tanh",
        ),
        "float32", None,
    ),
    "gemma3": (
        "Gemma3ForCausalLM", "gemma", dict(sliding_window=8, query_pre_attn_scalar=16, num_hidden_layers=6),
        "float32", None,
    ),
    "gpt_oss": (
        "GptOssForCausalLM", "gpt-4o",
        dict(
            sliding_window=8, num_local_experts=6, num_experts_per_tok=2,
            rope_parameters=dict(YARN, rope_theta=150_000.0, truncate=False),
        ),
        "float32", None,
    ),
}


@torch.no_grad()
def shaken(model, dtype):
    """Values that make a difference: those of a fresh model are so small that any two of them agree to 1e-3."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape)
        if weight.dim() == 1:
            weight.add_(noise * (0.5 if "sinks" in name else 0.1))
        elif "bias" in name:
            weight.copy_(noise * 0.1)
        else:
            width = weight.shape[1] if weight.dim() == 3 and "down_proj" not in name else weight.shape[-1]
            weight.copy_(noise / width**0.5)
        weight.copy_(weight.to(dtype))
    return model


@torch.no_grad()
def logits(model, tokens):
    return model(input_ids=tokens).logits.float()


def make(out, case):
    kind, rules, own, dtype, shard = CASES[case]
    model_class = getattr(transformers, kind, None)
    if model_class is None:
        return f"transformers {transformers.__version__} has no {kind}"
    folder = os.path.join(out, case.replace(" ", "-"))
    into = os.path.join(folder, "model")
    os.makedirs(into)
    ids, size = (sentencepiece if rules in ("llama", "gemma") else byte_level)(rules, into)
    is_spm = rules in ("llama", "gemma")
    ends = dict(bos_token_id=int(is_spm), eos_token_id=1 + int(is_spm), vocab_size=size + 8)
    config = model_class.config_class(**{**SIZE, "tie_word_embeddings": rules == "gemma", **own, **ends})
    config._attn_implementation = "eager"
    model = shaken(model_class(config), getattr(torch, dtype)).eval()
    options = {} if shard is None else dict(max_shard_size=shard)
    copy.deepcopy(model).to(getattr(torch, dtype)).save_pretrained(into, **options)  # also rounds angles: a copy
    tokens = torch.randint(3, size, (SEQUENCES, LENGTH))
    logits(model, tokens).numpy().tofile(os.path.join(folder, "logits.f32"))
    said = dict(tokens=tokens.tolist(), vocab=size + 8, text=TEXT, ids=ids[0], marks=MARKS, marked=ids[1], messages=MESSAGES)
    with open(os.path.join(folder, "said.json"), "w") as file:
        json.dump(said, file)
    return None


for case in CASES:
    try:
        error = make(sys.argv[1], case)
        skipped = error is not None
    except Exception as problem:  # one family must not end the others
        error, skipped = f"{type(problem).__name__}: {problem} ({traceback.extract_tb(problem.__traceback__)[-1]})", False
    print(json.dumps(dict(name=case, error=error, skipped=skipped)), flush=True)
