import { expect, test } from "bun:test";
import type { Model } from "../../../resources/serving/models/schema.ts";
import { kept, linesOf, treeOf } from "./tree.ts";

const model = (id: string, of: Partial<Model> = {}): Model => ({
  id,
  object: "model",
  created: 0,
  owned_by: "ws",
  name: id,
  status: "ready",
  source: "upload",
  base_model: null,
  base_model_id: null,
  format: "gguf",
  type: "model",
  architecture: "llama",
  parameters: 1,
  context_length: 1,
  quantization: "F16",
  has_chat_template: true,
  size_bytes: 1,
  sha256: null,
  job_id: null,
  checkpoint_id: null,
  checkpoint_step: null,
  file: null,
  progress: null,
  error: null,
  metadata: {},
  created_at: "",
  updated_at: "",
  ...of,
});
const shown = (models: Model[]) =>
  linesOf(treeOf(models)).map(({ node, depth }) => `${"  ".repeat(depth)}${node.kind} ${node.step ?? node.name}`);
const result = {
  base_model: "base",
  base_model_id: "base",
  job_id: "job_1",
  checkpoint_id: "ckpt_1",
  checkpoint_step: 8,
};

test("a base has its runs, their checkpoints, and what was made of them", () => {
  const models = [
    model("small", { base_model: "merged", base_model_id: "merged", source: "quantized" }),
    model("merged", { ...result }),
    model("adapter", { ...result, type: "adapter" }),
    model("own-lora", { type: "adapter", base_model: "base" }),
    model("base"),
  ];
  expect(shown(models)).toEqual([
    "model base",
    "  run job_1",
    "    checkpoint 8",
    "      model merged",
    "        model small",
    "      model adapter",
    "  model own-lora",
  ]);
});

test("a base that is not here has its name, and models that name each other are shown once", () => {
  const round = [
    model("a", { base_model: "b" }),
    model("b", { base_model: "a" }),
    model("self", { base_model: "self" }),
  ];
  expect(
    shown(round)
      .map((line) => line.trim())
      .sort(),
  ).toEqual(["model a", "model b", "model self"]);
  expect(shown([model("x", { base_model: "gone" }), model("y", { base_model: "gone" })])).toEqual([
    "absent gone",
    "  model x",
    "  model y",
  ]);
});

test("a search keeps what is above and below a hit", () => {
  const models = [model("base"), model("merged", result), model("small", { base_model_id: "merged" }), model("other")];
  const names = linesOf(kept(treeOf(models), ({ id }) => id === "merged")).map(({ node }) => node.key);
  expect(names).toEqual(["base", "job_1", "ckpt_1", "merged", "small"]);
});
