/** When cuBLAS multiplies, and what it changes: the first token of 256 greedy sequences, by our kernels alone and with it. */
import { type Device, PAGE } from "../../src/native/cuda/decode/kernels.ts";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { PLAIN } from "../../src/workers/decoder/drawing.ts";
import type { DecoderModel } from "../../src/workers/decoder/model.ts";
import { WIDE, type Wide } from "../../src/workers/decoder/plan.ts";

const [STREAMS, PROMPT] = [256, 64];

/** "off", "128" or "128/0": least rows, and multiplications. Prompts too. */
export function wideOf(text: string): Wide | null {
  const [rows, work = WIDE.work] = text.split("/").map(Number);
  return text === "off" || rows === undefined ? null : { rows, work, prompts: true };
}

export function compareWide(device: Device, model: DecoderModel, wide: Wide): string {
  const [own, other] = [firsts(device, model, null), firsts(device, model, wide)];
  const same = own.flatMap(({ token, logp }, i) => (token === other[i]?.token ? [Math.abs(logp - other[i].logp)] : []));
  const mean = same.reduce((sum, each) => sum + each, 0) / same.length;
  return `${same.length} of ${STREAMS} tokens alike, their log-probabilities ${mean.toExponential(1)} apart in the mean, ${Math.max(...same).toExponential(1)} at most`;
}

function firsts(device: Device, model: DecoderModel, wide: Wide | null) {
  const pages = STREAMS * Math.ceil((PROMPT + 1) / PAGE);
  const size = { slots: STREAMS, contextLength: PROMPT + 1, pages, promptTokens: 4096 };
  const decoder = openDecoder(device, model, { ...size, wide });
  const found = new Map<number, { token: number; logp: number }>();
  for (let stream = 0; stream < STREAMS; stream++) {
    const prompt = Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((stream * 613 + i * 31) % 1700));
    decoder.admit({ prompt, maxTokens: 1, drawing: { ...PLAIN, temperature: 0, topLogprobs: 0 } });
  }
  while (found.size < STREAMS)
    for (const { sequence, token, logp = Number.NaN } of decoder.step()) found.set(sequence, { token, logp });
  decoder.close();
  return [...found.entries()].sort(([a], [b]) => a - b).map(([, each]) => each);
}
