/**
 * Compares Verk with PyTorch and transformers. make.py writes a random model of every family; Verk imports it, computes
 * with it, trains an adapter and exports; judge.py loads the exports and compares gradients.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "../../../bench/tools.ts";
import { convert } from "../../../src/workers/inspector/convert/convert.ts";
import { openTokenizer } from "../../../src/workers/trainer/data/tokenizer.ts";
import { filesIn } from "../../../test/hugging_face.ts";
import { converted, type Part, type Setup } from "../setup.ts";
import { exportAll } from "./exports.ts";
import { learn, llamaLogits } from "./model.ts";

/** The scripts lie in a folder beside the bundle. */
const FOLDER = existsSync(join(import.meta.dir, "make.py")) ? import.meta.dir : join(import.meta.dir, "transformers");
const PYTHON = process.env["VERK_PYTHON"] ?? "python3";
const NEAR = 1e-3;
const TABLE = 5e-3; // libllama reads GELU from a table of F16

type Finding = Omit<Row, "bench">;
/** A case, as make.py describes it. */
export type Said = { tokens: number[][]; vocab: number; text: string; ids: number[]; messages: never[] } & {
  /** Words with combining marks and decomposed letters, which libllama splits otherwise under some rules. */
  marks: string;
  marked: number[];
};

export const transformers: Part = async function* (setup) {
  const made = await python("make.py", setup.dir);
  if (made.trouble !== "") yield { what: "models of transformers", value: made.trouble, target: "exit 0", ok: false };
  for (const { name, error, skipped } of made.lines as { name: string; error: string | null; skipped: boolean }[]) {
    const dir = join(setup.dir, name.replaceAll(" ", "-"));
    if (error !== null) {
      yield { what: `${name}: save_pretrained`, value: error, target: "a folder", ok: skipped ? null : false };
      continue;
    }
    let missed = false;
    try {
      for await (const finding of checkCase({ ...setup, dir }, name)) {
        missed ||= finding.ok === false;
        yield finding;
      }
    } catch (problem) {
      missed = true;
      const value = problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
      yield { what: `${name}: import`, value: value.split("\n").slice(0, 4).join(" ‖ "), target: "works", ok: false };
    }
    if (missed) keep(dir, name);
  }
  const judged = await python("judge.py", setup.dir);
  if (judged.trouble !== "") yield { what: "exports", value: judged.trouble, target: "exit 0", ok: false };
  for (const finding of judged.lines as Finding[]) {
    if (finding.ok === false) keep(join(setup.dir, finding.what.split(":")[0]!.replaceAll(" ", "-")), finding.what);
    yield finding;
  }
};

async function* checkCase(setup: Setup, name: string): AsyncGenerator<Finding> {
  const { dir } = setup;
  const said = JSON.parse(readFileSync(join(dir, "said.json"), "utf8")) as Said;
  const imported = join(dir, "imported.gguf");
  const files = filesIn(join(dir, "model"));
  await convert({ files, name, into: imported, quantize: null, dataDir: dir, onProgress: () => {} });
  const gguf = await converted(setup, imported, "F32");
  const expected = floats(join(dir, "logits.f32"));
  yield near(
    `${name}: logits of libllama`,
    llamaLogits(dir, gguf, said.tokens),
    expected,
    name.startsWith("gemma") ? TABLE : NEAR,
  );
  const what = { what: `${name}: tokens of a multilingual text`, gguf };
  yield tokensOf(setup, what, said.text, said.ids);
  const marks = tokensOf(setup, { ...what, what: `${name}: tokens of combining marks` }, said.marks, said.marked);
  yield { ...marks, ok: marks.ok || null };
  const learned = learn(gguf, setup.cpu, said.tokens);
  yield near(`${name}: log-probabilities of the trainer`, learned.plain, nextOf(expected, said));
  yield* exportAll(setup, { name, gguf, said, learned });
}

/** The largest difference, and how large the expected numbers are. */
export function near(what: string, found: Float32Array, expected: Float32Array, limit = NEAR): Finding {
  let [worst, at, largest] = [0, 0, 0];
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs((found[i] ?? Number.NaN) - expected[i]!);
    if (!(difference <= worst)) [worst, at] = [difference, i];
    largest = Math.max(largest, Math.abs(expected[i]!));
  }
  const sizes = found.length === expected.length ? "" : `, ${found.length} numbers instead of ${expected.length}`;
  const value = `${worst.toExponential(1)} apart at ${at} of values to ±${largest.toFixed(1)}${sizes}`;
  return { what, value, target: `≤ ${limit}`, ok: worst <= limit && sizes === "" };
}

function tokensOf(
  { dir }: Setup,
  { what, gguf }: { what: string; gguf: string },
  text: string,
  ids: readonly number[],
) {
  const tokenizer = openTokenizer(dir, gguf, false);
  const found = [...tokenizer.tokenize(text, { addBos: false, special: true })];
  tokenizer.close();
  const first = ids.findIndex((id, i) => id !== found[i]);
  const ok = first < 0 && found.length === ids.length;
  const shown = (list: readonly number[]) => list.slice(Math.max(0, first - 2), first + 6).join(" ");
  const value = ok ? `${ids.length} tokens` : `from ${first}: ${shown(found)} instead of ${shown(ids)}`;
  return { what, value, target: "those of its tokenizer", ok };
}

/** Log-probabilities of the next tokens from logits; 0 at the end of a sequence. */
function nextOf(logits: Float32Array, { tokens, vocab }: Said): Float32Array {
  const targets = tokens.flatMap((sequence) => [...sequence.slice(1), -1]);
  return Float32Array.from(targets, (target, row) => {
    if (target < 0) return 0;
    const values = Float64Array.from(logits.subarray(row * vocab, (row + 1) * vocab));
    const most = values.reduce((a, b) => Math.max(a, b));
    return values[target]! - most - Math.log(values.reduce((sum, each) => sum + Math.exp(each - most), 0));
  });
}

const floats = (path: string) => new Float32Array(new Uint8Array(readFileSync(path)).buffer);

/** Keeps what explains a failure: configs and tokenizers, but no weights. */
function keep(dir: string, name: string) {
  const out = process.env["OUT"];
  if (out === undefined) return;
  const into = join(out, "transformers", name.split(":")[0]!.replaceAll(" ", "-"));
  mkdirSync(into, { recursive: true });
  const filter = (path: string) => !/\.(safetensors|gguf|f32)$/.test(path);
  cpSync(dir, into, { recursive: true, filter });
}

/** Lines of JSON that a script prints, and why it failed. */
async function python(script: string, dir: string): Promise<{ lines: unknown[]; trouble: string }> {
  const child = Bun.spawn([PYTHON, join(FOLDER, script), dir], { stdout: "pipe", stderr: "pipe" });
  const [said, complaints] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const code = await child.exited;
  if (process.env["OUT"]) writeFileSync(join(process.env["OUT"], `${script}.log`), `${said}\n${complaints}`);
  const lines = said
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as unknown);
  const last = complaints.trim().split("\n").slice(-3).join(" ‖ ");
  return { lines, trouble: code === 0 ? "" : `${script}: exit ${code}: ${last}` };
}
