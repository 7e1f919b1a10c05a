"""Trains verk-tiny from scratch. A development tool: needs PyTorch and, for the real run, a GPU.

python3 train.py --steps 6000 --out OUT     writes OUT/weights.npz (F16), OUT/report.json, OUT/reference.json
"""

import argparse
import json
import math
import multiprocessing as mp
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import batches
import evaluate
from model import Llama, Shape

PROMPT_WEIGHT = 0.1  # the questions are random by nature: reading them teaches a little English, no more


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1e9, help="anneal to the end by then, whatever the steps say")
    parser.add_argument("--samples", type=int, default=200, help="held-out questions per task")
    parser.add_argument("--makers", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="processes that make batches")
    parser.add_argument("--resume", help="weights.npz to go on from")
    parser.add_argument("--judge", action=argparse.BooleanOptionalAction, default=True, help="score the tasks at the end")
    parser.add_argument("--out", default="out")
    return parser.parse_args()


def rate(progress: float, peak: float) -> float:
    warm = 0.02
    return peak * progress / warm if progress < warm else peak * 0.5 * (1 + math.cos(math.pi * (progress - warm) / (1 - warm)))


def loss_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """rows (B, T + 1) int32 with flags → mean loss over the weighted tokens."""
    tokens = (rows & (batches.PAD - 1)).long()
    target = rows[:, 1:]
    weight = torch.where((target & batches.LEARN) != 0, 1.0, PROMPT_WEIGHT) * ((target & batches.PAD) == 0)
    logits = model(tokens[:, :-1])  # (B, T, V)
    each = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (each * weight.flatten()).sum() / weight.sum()


def train(options: argparse.Namespace, shape: Shape, device: str, feed) -> tuple[Llama, list[dict]]:
    torch.manual_seed(options.seed)
    model = Llama(shape)
    if options.resume:
        model.load_state_dict({name: torch.from_numpy(w.astype(np.float32)) for name, w in np.load(options.resume).items()})
    model.to(device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=options.lr, betas=(0.9, 0.95), fused=device == "cuda"
    )
    fast = torch.compile(loss_of) if device == "cuda" else loss_of
    log, began, progress, step = [], None, 0.0, 0
    while progress < 1:
        rows = torch.from_numpy(next(feed).astype(np.int32)).to(device, non_blocking=True)
        for group in optimizer.param_groups:
            group["lr"] = rate(progress, options.lr)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = fast(model, rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 100 == 0 or step == 1:
            value, began = loss.item(), began or time.time()  # the first step compiles: the clock starts after it
            log.append({"step": step, "loss": round(value, 4), "seconds": round(time.time() - began, 1)})
            print(log[-1], flush=True)
        progress = max(step / options.steps, (time.time() - began) / options.seconds)
    return model, log


def main() -> None:
    options = arguments()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    shape = Shape()
    jobs = ((options.seed, step, options.rows, shape.context + 1) for step in range(options.steps))
    with mp.get_context("fork").Pool(options.makers) as pool:  # before CUDA starts: it does not survive a fork
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.set_float32_matmul_precision("high")
        model, log = train(options, shape, device, pool.imap(batches.batch, jobs))
    model.half().float().eval()  # what is judged is what is shipped: F16 weights
    weights = {name: w.detach().cpu().numpy() for name, w in model.named_parameters()}
    np.savez(out / "weights.npz", **{name: w.astype(np.float16) if w.ndim == 2 else w for name, w in weights.items()})
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    report = {
        "shape": vars(shape),
        "options": vars(options),
        "parameters": sum(w.size for w in weights.values()),
        "log": log,
        "tasks": evaluate.tasks(model, options.samples) if options.judge else {},
        "transcripts": evaluate.transcripts(model) if options.judge else [],
    }
    (out / "report.json").write_text(json.dumps(report, indent=1))
    (out / "reference.json").write_text(json.dumps({"logits": evaluate.reference(model), "cuts": evaluate.cuts()}))
    print(json.dumps({"tasks": report["tasks"], "transcripts": report["transcripts"]}, indent=1))


if __name__ == "__main__":
    main()
