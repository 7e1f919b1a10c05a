"""An exported adapter in PEFT against what the trainer said.

    python3 peft_scores.py MODEL.gguf DIR

MODEL is in F32. Its weights go into a random transformers model of the same shape; DIR holds the adapter and said.json:
sequences of tokens, the trainer's log-probabilities of each token but the first with the adapter, and without it.
Prints one line of JSON: relative L2 of the scores, and of what the adapter changes in them. Exits with 3 where a
package is missing. Reads GGUF by itself, so that nothing of the trainer's is used twice.
"""
import json
import os
import struct
import sys

try:
    import peft
    import torch
    import transformers
except ImportError as missing:
    print(f"{missing.name} is not installed", file=sys.stderr)
    sys.exit(3)

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 0

    def take(self, form):
        (value,) = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.bytes[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(count)]
        return self.take(SCALARS[kind])


def read_gguf(path):
    reader = Reader(path)
    assert reader.bytes[:4] == b"GGUF"
    reader.at = 8
    tensors, keys = reader.take("Q"), reader.take("Q")
    facts = {}
    for _ in range(keys):
        key = reader.text()
        facts[key] = reader.value(reader.take("I"))
    placed = []
    for _ in range(tensors):
        name = reader.text()
        dims = [reader.take("Q") for _ in range(reader.take("I"))]
        kind, offset = reader.take("I"), reader.take("Q")
        assert kind == 0, f"{name} is not F32"
        placed.append((name, dims[::-1], offset))
    start = -(-reader.at // 32) * 32
    weights = {}
    for name, shape, offset in placed:
        count = torch.Size(shape).numel()
        weights[name] = torch.frombuffer(bytearray(reader.bytes[start + offset : start + offset + 4 * count]), dtype=torch.float32).view(shape)
    return facts, weights


PARTS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def renamed(weights, arch, heads, key_heads):
    for name, value in weights.items():
        if name in WHOLE:
            yield WHOLE[name], value
            continue
        _, layer, part, kind = name.split(".")
        if arch == "llama" and part in ("attn_q", "attn_k"):  # there neighbours are turned, here halves of a head
            count = heads if part == "attn_q" else key_heads
            value = value.view(count, -1, 2, value.shape[-1]).transpose(1, 2).reshape(value.shape)
        yield f"model.layers.{layer}.{PARTS[part]}.{kind}", value


def built(path):
    facts, weights = read_gguf(path)
    arch = facts["general.architecture"]
    fact = lambda key: facts[f"{arch}.{key}"]
    heads, key_heads = fact("attention.head_count"), fact("attention.head_count_kv")
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[arch](
        vocab_size=weights["token_embd.weight"].shape[0], hidden_size=fact("embedding_length"),
        num_hidden_layers=fact("block_count"), num_attention_heads=heads, num_key_value_heads=key_heads,
        intermediate_size=fact("feed_forward_length"), rms_norm_eps=fact("attention.layer_norm_rms_epsilon"),
        rope_theta=fact("rope.freq_base"),  # where transformers is older than 5
        rope_parameters=dict(rope_type="default", rope_theta=fact("rope.freq_base")),
        max_position_embeddings=fact("context_length"),
        tie_word_embeddings="output.weight" not in weights,
    )
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(dict(renamed(weights, arch, heads, key_heads)), strict=False)
    left = [name for name in missing if not (config.tie_word_embeddings and name == "lm_head.weight")]
    assert not left and not unexpected, (left, unexpected)
    return model.eval()


@torch.no_grad()
def scores(model, tokens):
    logps = model(input_ids=tokens).logits[:, :-1].double().log_softmax(-1)
    return logps.gather(-1, tokens[:, 1:, None]).squeeze(-1)


def apart(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


path, folder = sys.argv[1:3]
with open(os.path.join(folder, "said.json")) as file:
    said = json.load(file)
tokens = torch.tensor(said["tokens"])
learned, before = (torch.tensor(said[key], dtype=torch.float64) for key in ("learned", "before"))
model = built(path)
plain = scores(model, tokens)
adapted = scores(peft.PeftModel.from_pretrained(model, folder).eval(), tokens)
print(json.dumps(dict(
    scores=max(apart(plain, before), apart(adapted, learned)), change=apart(adapted - plain, learned - before),
    peft=peft.__version__, transformers=transformers.__version__,
)))
