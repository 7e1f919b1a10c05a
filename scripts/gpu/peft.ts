/**
 * Checks exported adapters with PEFT: peft and transformers load the export over the same weights. Log-probabilities of
 * many tokens, and the change of the adapter in them, must match those of the trainer.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writePeft } from "../../src/workers/trainer/results/peft.ts";
import { LORA } from "../../test/ml/trainee/kit.ts";
import { smallModel } from "./learning.ts";
import { opened, pieces, teach } from "./rolling.ts";
import type { Part } from "./setup.ts";

const SCRIPT = process.env["VERK_PEFT_PEER"] ?? join(import.meta.dir, "peft_scores.py");
const PYTHON = process.env["VERK_PYTHON"] ?? "python3";
const NEAR = 1e-2;

type Scores = { scores: number; change: number; peft: string; transformers: string };

export const peft: Part = async function* (setup) {
  for (const [arch, rslora] of [
    ["llama", false],
    ["qwen2", true],
  ] as const) {
    const model = await smallModel(setup, arch, "F32");
    const trainee = await opened(setup, model, { ...LORA, use_rslora: rslora });
    await teach(trainee, 8, 0.01);
    const dir = join(setup.dir, `peft-${arch}`);
    mkdirSync(dir, { recursive: true });
    const { heads, keyHeads } = trainee.architecture;
    await writePeft(dir, trainee.adapter(), { heads, keyHeads, baseModel: null, dropout: 0 });
    const samples = pieces(16);
    const scored = async (reference: boolean) =>
      (await trainee.score(samples, { reference })).map(({ logps }) => [...logps]);
    const said = {
      tokens: samples.map(({ tokens }) => [...tokens]),
      learned: await scored(false),
      before: await scored(true),
    };
    trainee.close();
    writeFileSync(join(dir, "said.json"), JSON.stringify(said));
    const answer = await ask(model, dir);
    const what = `${arch}${rslora ? ", rslora" : ""}: an export in PEFT`;
    if (typeof answer === "string") {
      yield { what, value: answer, target: "", ok: null };
      continue;
    }
    const by = `peft ${answer.peft}, transformers ${answer.transformers}`;
    const value = `scores ${answer.scores.toExponential(1)} apart, what it changes ${answer.change.toExponential(1)} (${by})`;
    const ok = answer.scores <= NEAR && answer.change <= NEAR;
    yield { what, value, target: `relative L2 ≤ ${NEAR}`, ok };
  }
};

/** Returns a sentence if PEFT is not installed. Throws if PEFT fails. */
async function ask(model: string, dir: string): Promise<Scores | string> {
  if (Bun.which(PYTHON) === null) return `no ${PYTHON} here`;
  const child = Bun.spawn([PYTHON, SCRIPT, model, dir], { stderr: "pipe" });
  const [out, complaints] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const code = await child.exited;
  const last = complaints.trim().split("\n").at(-1) ?? "";
  if (code === 3) return last; // a package is missing
  if (code !== 0) throw new Error(`${SCRIPT}: ${last}`);
  return JSON.parse(out.trim().split("\n").at(-1) ?? "") as Scores;
}
