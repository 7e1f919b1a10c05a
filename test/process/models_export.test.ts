// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseSafetensors } from "../../src/workers/checkpoints/safetensors.ts";
import { runVerk } from "../cli.ts";
import { makeEncoder } from "../encoders.ts";
import { tempDir } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";

let dir: string;
beforeAll(() => {
  dir = tempDir();
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const verk = (...args: string[]) => runVerk(["models", ...args, "--data", join(dir, "data")], { cwd: dir });
async function imported(path: string, name: string) {
  expect(await verk("import", path, "--name", name)).toMatchObject({ code: 0, out: `${name}\n` });
}
const jsonIn = (folder: string, name: string) => JSON.parse(readFileSync(join(dir, folder, name), "utf8"));
/** Name, shape and hash of each tensor; their order in the file may differ. */
function weightsIn(folder: string): string[] {
  const bytes = readFileSync(join(dir, folder, "model.safetensors"));
  const parsed = parseSafetensors(bytes, bytes.byteLength);
  if ("need" in parsed) throw new Error("the header is not whole");
  return [...parsed.tensors.values()]
    .map(({ name, shape, start, bytes: size }) => `${name} ${shape} ${Bun.hash(bytes.subarray(start, start + size))}`)
    .sort();
}

test("a model becomes a Hugging Face folder, and the folder the same model again", async () => {
  await imported(makeModel(tempDir(), { arch: "qwen2", type: "F32" }), "plain");
  const exported = await verk("export", "plain", "-o", "first", "--json");
  expect(exported).toMatchObject({ code: 0 });
  expect(exported.json()).toMatchObject({ model: "plain", path: join(dir, "first"), weights: "F32" });
  const names = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
  ];
  expect(readdirSync(join(dir, "first")).sort()).toEqual(names);
  await imported(join(dir, "first"), "again");
  mkdirSync(join(dir, "second")); // an empty folder is taken
  expect((await verk("export", "again", "-o", "second")).out).toBe(`${join(dir, "second")}\n`);
  expect(jsonIn("second", "config.json")).toEqual(jsonIn("first", "config.json"));
  expect(jsonIn("second", "tokenizer.json")).toEqual(jsonIn("first", "tokenizer.json"));
  expect(weightsIn("second")).toEqual(weightsIn("first"));
});

test("a quantized model is written as BF16; other models are refused in one sentence, and nothing stays", async () => {
  await imported(makeModel(tempDir(), { arch: "llama", type: "Q8_0" }), "team/small");
  const quantized = await verk("export", "team/small");
  expect(quantized).toMatchObject({ code: 0, out: `${join(dir, "small")}\n` });
  expect(quantized.err).toContain("safetensors in BF16, from Q8_0");
  expect(jsonIn("small", "config.json")).toMatchObject({ model_type: "llama", torch_dtype: "bfloat16" });

  await imported(makeAdapter(tempDir(), { arch: "llama", type: "Q8_0" }), "fine");
  await imported(makeEncoder(tempDir(), { pooling: "mean" }), "other");
  const cases: [name: string, code: number, sentence: RegExp, out?: string][] = [
    ["qqqq", 1, /^verk: No model qqqq: `verk models list` lists them$/],
    ["fine", 1, /^verk: fine is an adapter: export the job that made it with `verk jobs model/],
    ["other", 1, /cannot be exported as a Hugging Face folder: the architecture bert has no Hugging Face form here$/],
    ["team/small", 2, /^verk: --out: .*small is not empty. Choose another folder.$/, "small"],
    ["team/small", 1, /^verk: --out: .*missing cannot be written \(ENOENT\).$/, "missing/x"],
  ];
  for (const [name, code, sentence, out = "unmade"] of cases) {
    const refused = await verk("export", name, "-o", out);
    expect([name, refused.code, refused.out]).toEqual([name, code, ""]);
    expect(refused.err.trim()).toMatch(sentence);
  }
  expect(existsSync(join(dir, "unmade"))).toBe(false);
  const left = readdirSync(dir).filter((name) => name.startsWith(".") && name !== ".bun"); // Bun keeps its own there
  expect(left).toEqual([]);
});
