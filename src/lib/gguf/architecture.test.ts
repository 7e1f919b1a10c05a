import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { tempDir } from "../../../test/harness.ts";
import { makeModel } from "../../../test/models.ts";
import { ARCHITECTURES, type Family } from "./architecture.ts";
import { describe as describeModel } from "./describe.ts";
import { type Header, parseGguf, type Tensor } from "./parse.ts";
import { TENSOR_TYPES } from "./types.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function headerOf(arch: Family): Header {
  const bytes = readFileSync(makeModel(dir, { arch, type: "F32", width: 32, heads: 4, kvHeads: 2, ff: 64 }));
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  return header;
}

/** The same file with one tensor changed; null: without it. */
function changed(arch: Family, name: string, over: Partial<Tensor> | null): Header {
  const header = headerOf(arch);
  const tensors = new Map(header.tensors);
  const tensor = tensors.get(name);
  if (!tensor) throw new Error(`${arch} has no ${name}`);
  if (over) tensors.set(name, { ...tensor, ...over });
  else tensors.delete(name);
  return { ...header, tensors };
}

test.each(ARCHITECTURES)("a model of the family %s is described", (architecture) => {
  expect(describeModel(headerOf(architecture))).toMatchObject({ architecture, layers: 2, heads: 4, kv_heads: 2 });
});

describe("a file that native code would not survive, or not understand, is refused by the name of its tensor", () => {
  const F16 = TENSOR_TYPES.get(1)!;
  const CASES: [Family, string, Partial<Tensor> | null][] = [
    ["mistral3", "blk.1.attn_q.weight", { dims: [32, 16] }],
    ["smollm3", "blk.0.ffn_gate.weight", null],
    ["granite", "blk.0.attn_norm.weight", { dims: [16] }],
    ["phi3", "blk.0.attn_qkv.weight", { dims: [32, 32] }],
    ["phi3", "blk.1.ffn_up.weight", { dims: [32, 64] }],
    ["gemma2", "blk.1.post_ffw_norm.weight", null],
    ["gemma3", "blk.0.attn_k_norm.weight", { dims: [4] }],
    ["qwen3moe", "blk.0.ffn_gate_inp.weight", { dims: [32, 3] }],
    ["qwen3moe", "blk.1.ffn_down_exps.weight", { dims: [64, 32, 2] }],
    ["qwen3moe", "blk.1.attn_q_norm.weight", null],
    ["gpt-oss", "blk.0.attn_sinks.weight", { dims: [3] }],
    ["gpt-oss", "blk.1.post_attention_norm.weight", null],
    ["gpt-oss", "blk.1.ffn_up_exps.bias", { type: F16 }],
    ["gpt-oss", "blk.1.ffn_down_exps.bias", null],
  ];
  test.each(CASES)("%s, %s", (arch, name, over) => {
    expect(() => describeModel(changed(arch, name, over))).toThrow(name);
  });
});
