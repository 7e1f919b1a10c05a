"""Loads with transformers and PEFT what Verk exported, and compares: python3 judge.py OUT, after make.py and Verk.

Prints a line of JSON for each finding: {"what", "value", "target", "ok"}. An error ends only its finding.
"""

import json
import os
import sys
import traceback

import numpy
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

try:
    import peft
except ImportError as missing:
    peft = str(missing)

NEAR, COSINE = 1e-3, 0.9999
TABLE = 5e-3  # libllama reads GELU from a table of F16
torch.set_num_threads(4)


def finding(what, value, target, ok):
    print(json.dumps(dict(what=what, value=value, target=target, ok=None if ok is None else bool(ok))), flush=True)


def loaded(path):
    model, info = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, output_loading_info=True, attn_implementation="eager"
    )
    return model.eval(), info


def difference(what, found, expected):
    worst = (found - expected).abs().max().item()
    near = TABLE if what.startswith("gemma") else NEAR
    finding(what, f"{worst:.1e} apart of values to ±{expected.abs().max().item():.1f}", f"≤ {near}", worst <= near)


class Case:
    def __init__(self, folder):
        self.at = lambda *names: os.path.join(folder, *names)
        with open(self.at("said.json")) as file:
            self.said = json.load(file)
        self.tokens = torch.tensor(self.said["tokens"])
        merged = torch.from_numpy(numpy.fromfile(self.at("merged.f32"), dtype=numpy.float32))
        self.merged = merged.reshape(*self.tokens.shape, -1)

    @torch.no_grad()
    def logits(self, model):
        return model(input_ids=self.tokens).logits.float()


def gradients(case, name):
    """The adapter as a hook beside each matrix, so that this needs no PEFT; gradients by autograd."""
    model, _ = loaded(case.at("model"))
    for weight in model.parameters():
        weight.requires_grad_(False)
    with open(case.at("peft", "adapter_config.json")) as file:
        config = json.load(file)
    scale = config["lora_alpha"] / config["r"]
    given = load_file(case.at("peft", "adapter_model.safetensors"))
    theirs = load_file(case.at("gradient", "adapter_model.safetensors"))
    weights = {key: value.clone().requires_grad_(True) for key, value in given.items()}
    modules = dict(model.named_modules())
    for key, a in weights.items():
        if not key.endswith(".lora_A.weight"):
            continue
        b = weights[key.replace("lora_A", "lora_B")]
        module = modules[key.removeprefix("base_model.model.").removesuffix(".lora_A.weight")]
        module.register_forward_hook(lambda _m, x, y, a=a, b=b: y + scale * (x[0] @ a.T) @ b.T)
    logits = model(input_ids=case.tokens).logits.float()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), case.tokens[:, 1:].flatten())
    loss.backward()
    difference(f"{name}: logits of the adapter, against the merged file", logits.detach(), case.merged)
    cosine = lambda x, y: torch.nn.functional.cosine_similarity(x.double().flatten(), y.double().flatten(), dim=0).item()
    each = {key: cosine(weight.grad, theirs[key]) for key, weight in weights.items()}
    worst = min(each, key=each.get)
    one = torch.cat([weight.grad.flatten() for weight in weights.values()])
    other = torch.cat([theirs[key].flatten() for key in weights])
    ratio = (other.norm() / one.norm()).item()
    value = f"cosine {cosine(one, other):.7f}, length {ratio:.5f} times, worst {each[worst]:.6f} ({worst}), {len(each)} matrices"
    finding(f"{name}: gradients of A and B", value, f"≥ {COSINE}", each[worst] >= COSINE and abs(ratio - 1) < NEAR)


def exported(case, name):
    path = case.at("exported")
    if not os.path.isdir(path):
        return
    model, info = loaded(path)
    wrong = {key: sorted(map(str, value))[:4] for key, value in info.items() if value}
    finding(f"{name}: from_pretrained of the export", json.dumps(wrong) if wrong else "all keys", "all keys", not wrong)
    difference(f"{name}: logits of the export, against the merged file", case.logits(model), case.merged)


def tokenizer(case, name):
    path = case.at("exported")
    if not os.path.isdir(path):
        return
    with open(case.at("verk.json")) as file:
        verk = json.load(file)
    fast = AutoTokenizer.from_pretrained(path)
    ids = fast(case.said["text"])["input_ids"]
    first = next((i for i, (x, y) in enumerate(zip(ids, verk["ids"])) if x != y), min(len(ids), len(verk["ids"])))
    same = ids == verk["ids"]
    part = slice(max(0, first - 2), first + 6)
    value = f"{len(ids)} tokens" if same else f"from {first}: {ids[part]} instead of {verk['ids'][part]}"
    finding(f"{name}: AutoTokenizer of the export ({type(fast).__name__})", value, "Verk's tokens", same)
    text = fast.apply_chat_template(case.said["messages"], tokenize=False, add_generation_prompt=True)
    value = f"{len(text)} characters" if text == verk["text"] else f"{text!r} instead of {verk['text']!r}"
    finding(f"{name}: apply_chat_template of the export", value, "Verk's text", text == verk["text"])


def with_peft(case, name):
    if isinstance(peft, str):
        return finding(f"{name}: PEFT", peft, "", None)
    model, _ = loaded(case.at("model"))
    adapted = peft.PeftModel.from_pretrained(model, case.at("peft")).eval()
    given = load_file(case.at("peft", "adapter_model.safetensors"))
    found = sum("lora_" in key for key, _ in adapted.named_parameters())
    finding(f"{name}: matrices that PEFT finds", f"{found} of {len(given)}", "all", found == len(given))
    difference(f"{name}: logits of PEFT {peft.__version__}, against the merged file", case.logits(adapted), case.merged)


for folder in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], folder)
    if not os.path.isfile(os.path.join(path, "merged.f32")):
        continue
    case = Case(path)
    for check in (gradients, exported, tokenizer, with_peft):
        try:
            check(case, folder.replace("-in-", " in "))
        except Exception as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            value = f"{type(problem).__name__}: {str(problem)[:400]} ({os.path.basename(where.filename)}:{where.lineno})"
            finding(f"{folder.replace('-in-', ' in ')}: {check.__name__}", value, "works", False)
