/** Gradients of adapters of every trainable family: the device against the CPU in F32, of the same numbers. */
import { compare, gradientsOf, LORA } from "../../bench/training/gradients.ts";
import { ARCHITECTURES, type Family } from "../../src/lib/gguf/architecture.ts";
import { type ModelOptions, makeModel } from "../../test/models.ts";
import { converted, type Part, type Setup } from "./setup.ts";

const SIZE = { width: 256, heads: 4, kvHeads: 2, ff: 256 } as const;
const TARGETS = [...LORA.targets, "attn_qkv"];
const SHAPE = { trains: true, checkpoints: true, attentionBlock: 64, headChunk: 128, entropies: true } as const;
const RELATIVE = 1e-2; // attention of these models is sharp, so that roundings grow; in F16 it is not
const COSINE = 0.999;

/** The device against the CPU in F32: `exact` reads the same file, otherwise the device reads it in F16. */
type Case = { arch: Family; exact: boolean; rows: { tokens: number; rows: number }; model?: Partial<ModelOptions> };

/** Lengths of heads that our own kernels have for a family. */
const LONG = { tokens: 150, rows: 3 };
const HEADS: Partial<Record<Family, readonly number[]>> = {
  llama: [96, 256],
  granite: [64, 128],
  phi3: [64, 96, 128],
  gemma2: [128, 256],
  gemma3: [128, 256],
};
const FUSED = (Object.entries(HEADS) as [Family, readonly number[]][]).flatMap(([arch, lengths]) =>
  lengths.map((headLength): Case => ({ arch, exact: false, rows: LONG, model: { headLength, sharpness: 1 } })),
);

/** Random mistral3 models change their queries from position 9 on, which our kernels do not compute. */
const SHORT = { tokens: 9, rows: 16 };
const CASES: readonly Case[] = [
  ...ARCHITECTURES.map((arch) => ({ arch, exact: true, rows: LONG })),
  ...(["mistral3", "smollm3"] as const).map((arch) => ({ arch, exact: false, rows: SHORT, model: { sharpness: 1 } })),
  ...FUSED,
];

export const families: Part = async function* (setup) {
  for (const each of CASES) {
    const { fused, together, logps } = await difference(setup, each);
    const heads = each.model?.headLength ? `, heads of ${each.model.headLength}` : "";
    const what = `${each.arch} in ${each.exact ? "F32" : "F16"}${heads}, ${fused ? "our kernels" : "ggml"}`;
    const value = `relative ${together.relative.toExponential(1)}, cosine ${together.cosine.toFixed(5)}, scores ${logps.toExponential(1)} apart`;
    const isOurs = fused || setup.device.kind === "cpu";
    const ok = each.exact ? together.relative <= RELATIVE : isOurs && together.cosine >= COSINE;
    yield { what, value, target: each.exact ? `≤ ${RELATIVE}` : `cosine ≥ ${COSINE}`, ok };
  }
};

async function difference(setup: Setup, { arch, exact, rows, model }: Case) {
  const layers = arch === "smollm3" ? 4 : 2; // the fourth layer does not rotate
  const half = makeModel(setup.dir, { arch, type: "F16", layers, ...SIZE, ...model });
  const whole = await converted(setup, half, "F32");
  const how = { shape: { ...SHAPE, ...rows }, lora: { ...LORA, targets: TARGETS }, rate: 0 };
  const expected = gradientsOf(whole, setup.cpu, how);
  const found = gradientsOf(exact ? whole : half, setup.device, how);
  const all = (of: typeof found) => Float32Array.from(of.gradients.flatMap(({ values }) => [...values]));
  const logps = compare(expected.logps, found.logps).relative;
  return { fused: found.fused, together: compare(all(expected), all(found)), logps };
}
