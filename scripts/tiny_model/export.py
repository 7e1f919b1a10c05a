"""weights.npz → GGUF v3, F16. Needs numpy alone.

python3 export.py OUT/weights.npz ../../models/verk-tiny.gguf
"""

import struct
import sys
from pathlib import Path

import numpy as np

import tokenizer

ALIGNMENT = 32
F32, F16 = 0, 1
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, item) -> bytes:
    return string(item) if kind == STRING else struct.pack({U32: "<I", I32: "<i", FLOAT: "<f", BOOL: "<?"}[kind], item)


def entry(key: str, kind: int, item) -> bytes:
    return string(key) + struct.pack("<I", kind) + value(kind, item)


def array(key: str, kind: int, items: list) -> bytes:
    return string(key) + struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(value(kind, item) for item in items)


def metadata(shape: dict, parameters: int) -> list[bytes]:
    made = tokenizer.load()
    kinds = [CONTROL] * len(tokenizer.CONTROL) + [USER_DEFINED] * len(tokenizer.TAGS)
    kinds += [NORMAL] * (len(made.tokens) - len(kinds))
    template = Path(__file__).with_name("template.jinja").read_text().strip()
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "verk-tiny"),
        entry("general.type", STRING, "model"),
        entry("general.license", STRING, "apache-2.0"),
        entry("general.size_label", STRING, f"{parameters / 1e6:.1f}M"),
        entry("general.description", STRING, "A very small chat model for trying and testing Verk, trained from scratch on synthetic text."),
        entry("general.file_type", U32, 1),
        entry("general.alignment", U32, ALIGNMENT),
        entry("llama.vocab_size", U32, shape["vocab"]),
        entry("llama.context_length", U32, shape["context"]),
        entry("llama.embedding_length", U32, shape["width"]),
        entry("llama.block_count", U32, shape["layers"]),
        entry("llama.feed_forward_length", U32, shape["ff"]),
        entry("llama.attention.head_count", U32, shape["heads"]),
        entry("llama.attention.head_count_kv", U32, shape["kv_heads"]),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT, shape["eps"]),
        entry("llama.rope.dimension_count", U32, shape["width"] // shape["heads"]),
        entry("llama.rope.freq_base", FLOAT, shape["rope_base"]),
        entry("tokenizer.ggml.model", STRING, "gpt2"),
        entry("tokenizer.ggml.pre", STRING, "qwen2"),
        array("tokenizer.ggml.tokens", STRING, made.tokens),
        array("tokenizer.ggml.token_type", I32, kinds),
        array("tokenizer.ggml.merges", STRING, [f"{a} {b}" for a, b in made.merges]),
        entry("tokenizer.ggml.bos_token_id", U32, made.end),
        entry("tokenizer.ggml.eos_token_id", U32, made.turn_end),
        entry("tokenizer.ggml.padding_token_id", U32, made.end),
        entry("tokenizer.ggml.add_bos_token", BOOL, False),
        entry("tokenizer.chat_template", STRING, template),
    ]


def padded(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % ALIGNMENT)


def gguf(tensors: dict[str, np.ndarray], shape: dict) -> bytes:
    """Every matrix is stored as PyTorch has it: (out, in) row-major is ne = [in, out]."""
    entries = metadata(shape, sum(t.size for t in tensors.values()))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
    body = b""
    for name, tensor in tensors.items():
        kind = F16 if tensor.ndim == 2 else F32
        sizes = tensor.shape[::-1]
        head += string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(body))
        body += padded(np.ascontiguousarray(tensor, np.float16 if kind == F16 else np.float32).tobytes())
    return padded(head) + body


if __name__ == "__main__":
    source, target = sys.argv[1:3]
    loaded = np.load(source)
    weights = {name: loaded[name] for name in loaded.files}
    made_shape = {
        "vocab": weights["token_embd.weight"].shape[0],
        "context": 1024,
        "width": 192,
        "layers": 6,
        "heads": 6,
        "kv_heads": 2,
        "ff": weights["blk.0.ffn_up.weight"].shape[0],
        "eps": 1e-5,
        "rope_base": 10000.0,
    }
    raw = gguf(weights, made_shape)
    Path(target).write_bytes(raw)
    print(target, len(raw), "bytes")
