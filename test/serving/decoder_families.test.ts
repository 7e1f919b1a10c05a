// tier: all (serves models in emulated CUDA)
import { afterAll, describe, expect, test } from "bun:test";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { type Drawing, PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel, reasonAgainst } from "../../src/workers/decoder/model.ts";
import type { Decoder, DecoderOptions } from "../../src/workers/decoder/types.ts";
import { tempDir } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { greedy, logpsOf } from "./reference.ts";

const dir = tempDir();
const GREEDY: Drawing = { ...PLAIN, temperature: 0, topLogprobs: 0 };
const WIDTH = 128;

/** Heads of each length that a family of models has. */
const FAMILIES: readonly Partial<ModelOptions>[] = [
  { arch: "llama", heads: 4, kvHeads: 2, headLength: 32 },
  { arch: "llama", heads: 4, kvHeads: 4, headLength: 80 },
  { arch: "llama", heads: 2, kvHeads: 1, headLength: 256, seed: 3 },
  { arch: "smollm3", layers: 4, heads: 2, kvHeads: 1 },
  { arch: "mistral3", heads: 1, kvHeads: 1 },
  { arch: "granite", heads: 2, kvHeads: 1 },
  { arch: "phi3", heads: 2, kvHeads: 2, width: 192 },
  { arch: "phi3", heads: 2, kvHeads: 1 },
  { arch: "gemma2", heads: 2, kvHeads: 1, headLength: 256, seed: 2 },
  { arch: "gemma2", heads: 2, kvHeads: 1, headLength: 128 },
  { arch: "gemma3", layers: 4, heads: 2, kvHeads: 1, headLength: 256 },
];

type Said = { tokens: number[]; logps: number[] };

describe.skipIf(!canCompute)("families by our kernels, in emulation", () => {
  const device = openTestDevice();
  const opened: (() => void)[] = [];
  afterAll(() => {
    for (const close of opened) close();
  });

  function open(path: string, options: Partial<DecoderOptions> = {}): Decoder {
    const header = headerOf(path);
    expect(reasonAgainst(header)).toBeNull();
    const model = loadModel(device, { path, header }, 512);
    const size = { slots: 8, contextLength: 512, pages: 32, promptTokens: 128 };
    const decoder = openDecoder(device, model, { ...size, ...options });
    opened.push(() => {
      decoder.close();
      model.free();
    });
    return decoder;
  }

  function say(decoder: Decoder, admissions: readonly Parameters<Decoder["admit"]>[0][]): Said[] {
    const ids = admissions.map((admission) => decoder.admit(admission)!);
    const said = new Map(ids.map((id) => [id, { tokens: [], logps: [] } as Said]));
    for (let open = ids.length; open > 0; )
      for (const { sequence, token, logp, done } of decoder.step()) {
        said.get(sequence)!.tokens.push(token);
        said.get(sequence)!.logps.push(logp!);
        if (!done) continue;
        decoder.release(sequence);
        open--;
      }
    return [...said.values()];
  }

  const prompt = (seed: number, length: number) =>
    Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17 + i * i) % 50));

  /** The largest and the mean distance of the log-probabilities from the library's. */
  function apart(path: string, text: Int32Array, { tokens, logps }: Said) {
    const all = logpsOf(path, Int32Array.from([...text, ...tokens]));
    const each = logps.map((logp, i) => Math.abs(logp - all[text.length - 1 + i]![tokens[i]!]!));
    return { most: Math.max(...each), mean: each.reduce((sum, one) => sum + one / each.length, 0) };
  }

  test.each(FAMILIES.map((family) => [Object.values(family).join(" "), family] as const))(
    "%s: greedy tokens are libllama's, and a token has the same bits alone and among others",
    (_, family) => {
      const path = makeModel(dir, { type: "F16", width: WIDTH, ...family } as ModelOptions);
      const text = prompt(1, 45);
      const want = greedy(path, text, 8);
      const admission = { prompt: text, maxTokens: 8, drawing: GREEDY };
      const [alone] = say(open(path), [admission]);
      if (process.env["SHOW"]) console.log(_, want.lead, want.tokens.join(), alone!.tokens.join());
      expect(alone!.tokens).toEqual(want.tokens);
      const { most, mean } = apart(path, text, alone!);
      if (process.env["SHOW"]) console.log(_, most.toFixed(4), mean.toFixed(4), want.lead);
      expect(most).toBeLessThan(0.25);
      expect(mean).toBeLessThan(0.04);
      const others = [2, 3].map((seed) => ({ ...admission, prompt: prompt(seed, 10 * seed), maxTokens: 2 + seed }));
      const among = say(open(path, { promptTokens: 16, ahead: true }), [others[0]!, admission, ...others.slice(1)]);
      expect(among[1]).toEqual(alone!);
    },
  );
});
