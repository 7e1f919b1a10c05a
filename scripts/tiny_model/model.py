"""A llama in PyTorch, laid out as llama.cpp's "llama" architecture computes it, so that export copies tensors as they are."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Shape:
    vocab: int = 1536
    context: int = 1024
    layers: int = 6
    width: int = 192
    heads: int = 6
    kv_heads: int = 2
    ff: int = 512
    eps: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def rope_table(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    rate = shape.rope_base ** (-torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    angle = torch.outer(torch.arange(shape.context).float(), rate)  # (T, D/2)
    return angle.cos(), angle.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Neighbours are a pair (2i, 2i + 1): llama.cpp's NORM rope. Halves as pairs would need permuted q and k weights."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)  # (B, H, T, D/2)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(shape.width)), shape.eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape, kv = shape, shape.kv_heads * shape.head_dim
        self.attn_norm, self.ffn_norm = Norm(shape), Norm(shape)
        self.attn_q = nn.Linear(shape.width, shape.width, bias=False)
        self.attn_k = nn.Linear(shape.width, kv, bias=False)
        self.attn_v = nn.Linear(shape.width, kv, bias=False)
        self.attn_output = nn.Linear(shape.width, shape.width, bias=False)
        self.ffn_gate = nn.Linear(shape.width, shape.ff, bias=False)
        self.ffn_up = nn.Linear(shape.width, shape.ff, bias=False)
        self.ffn_down = nn.Linear(shape.ff, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        split = lambda t: t.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)  # (B, H, T, D)
        h = self.attn_norm(x)
        q, k, v = rotate(split(self.attn_q(h)), cos, sin), rotate(split(self.attn_k(h)), cos, sin), split(self.attn_v(h))
        group = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_output(mixed.transpose(1, 2).flatten(2))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.width)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = Norm(shape)
        cos, sin = rope_table(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                late = name.endswith(("attn_output.weight", "ffn_down.weight"))
                nn.init.normal_(weight, std=0.05 / ((2 * shape.layers) ** 0.5 if late else 1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token_embd(tokens)  # (B, T, W)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blk:
            x = block(x, cos, sin)
        return F.linear(self.output_norm(x), self.token_embd.weight)  # (B, T, V): the embedding is the output
