import { expect, test } from "bun:test";
import type { AppError } from "../../../../lib/errors.ts";
import type { JobRow } from "../table.ts";
import { kindOf, type ModelQuery } from "./download.ts";

const LORA = { method: "sft", lora: { r: 4 } } as unknown as JobRow;
const FULL = { method: "sft", lora: null } as unknown as JobRow;
const CUSTOM = { method: "custom", lora: null } as unknown as JobRow;

test.each<[string, JobRow, ModelQuery, string, string]>([
  ["an adapter by default", LORA, {}, "adapter", ""],
  ["all weights by default", FULL, {}, "merged", "F16"],
  ["files by default", CUSTOM, {}, "files", ""],
  ["files", CUSTOM, { variant: "files" }, "files", ""],
  ["an adapter for other tools", LORA, { variant: "peft" }, "peft", ""],
  ["the first quantization of each form", LORA, { variant: "gguf" }, "gguf", "Q4_K_M"],
  ["the first of Hugging Face", FULL, { variant: "huggingface" }, "huggingface", "BF16"],
  ["a quantization in small letters", FULL, { variant: "gguf", quantization: "q8_0" }, "gguf", "Q8_0"],
  ["the last of a form", LORA, { variant: "merged", quantization: "Q8_0" }, "merged", "Q8_0"],
])("%s", (_, job, query, variant, quantization) => {
  expect(kindOf(job, query)).toEqual({ variant, quantization } as ReturnType<typeof kindOf>);
});

test.each<[string, JobRow, ModelQuery, string]>([
  ["files of a model", LORA, { variant: "files" }, "variant: must not be files"],
  ["a model of files", CUSTOM, { variant: "merged" }, "variant: must be files for a custom job"],
  ["an adapter of all weights", FULL, { variant: "adapter" }, "variant: this job trained all weights"],
  ["an adapter of them for other tools", FULL, { variant: "peft" }, "variant: this job trained all weights"],
  ["an adapter with a quantization", LORA, { quantization: "F16" }, "quantization: leave it out"],
  [
    "a quantization of another form",
    FULL,
    { variant: "merged", quantization: "Q4_K_M" },
    "quantization: for merged must",
  ],
  ["an unknown one", LORA, { variant: "gguf", quantization: "Q3" }, "quantization: for gguf must be one of Q4_K_M, Q5"],
])("%s is refused", (_, job, query, message) => {
  let fault: unknown;
  try {
    kindOf(job, query);
  } catch (error) {
    fault = error;
  }
  const { code, message: said, param } = fault as AppError;
  expect([code, param]).toEqual(["schema", message.split(":")[0] as string]);
  expect(said).toStartWith(message);
});
