"""Tokens a second of transformers' generate for a shape of bench/decode/shapes.ts, in bf16 with random weights.

Prompts of 31 tokens, drawn at temperature 1. With the dynamic cache first, which needs no compilation; then with the static
cache, compiled. Prints a line for each as soon as it is known, so that a limit of time leaves what was measured.
`sweep_torch.py SHAPE STREAMS[,STREAMS...] [TOKENS]`
"""
import sys
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

SHAPES = {
    "0.5B": dict(vocab_size=151936, hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864),
    "1B": dict(vocab_size=128256, hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192),
    "8B": dict(vocab_size=128256, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336),
}
PROMPT = 31


def main(shape, streams, new):
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    config = Qwen2Config(**SHAPES[shape], tie_word_embeddings=True, max_position_embeddings=32768)
    model = Qwen2ForCausalLM(config).eval()
    for how in ({}, {"cache_implementation": "static"}):
        for count in streams:
            ids = torch.randint(300, 2000, (count, PROMPT))
            options = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, **how)
            run = lambda tokens: model.generate(ids, min_new_tokens=tokens, max_new_tokens=tokens, **options)
            for _ in range(2 if how else 1):
                run(new if how else 4)  # compiles and records
            torch.cuda.synchronize()
            begun = time.time()
            run(new)
            torch.cuda.synchronize()
            seconds = time.time() - begun
            name = "static cache, compiled" if how else "dynamic cache"
            print(f"{round(count * new / seconds)} tok/s\ttransformers, {name}: {shape} BF16, {count} streams, {1000 * seconds / new:.2f} ms a step", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(each) for each in sys.argv[2].split(",")], int(sys.argv[3]) if len(sys.argv) > 3 else 128)
