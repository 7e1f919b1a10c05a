// tier: all (serves models in emulated CUDA)
/** Keys and values in 8 bits, by our kernels and by the library. */
import { afterAll, describe, expect, test } from "bun:test";
import type { KvType } from "../../src/lib/gguf/memory.ts";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel } from "../../src/workers/decoder/model.ts";
import type { Decoder, DecoderOptions } from "../../src/workers/decoder/types.ts";
import { tempDir } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { ask, closeEngines, sayOne, testEngine, tokens } from "./engines.ts";

const dir = tempDir();
const PAGES = 32;

describe.skipIf(!canCompute)("keys and values in 8 bits, by our kernels", () => {
  const device = openTestDevice();
  const opened: (() => void)[] = [];
  afterAll(() => {
    for (const close of opened) close();
  });

  function open(model: ModelOptions, kvType: KvType, options: Partial<DecoderOptions> = {}): Decoder {
    const path = makeModel(dir, model);
    const loaded = loadModel(device, { path, header: headerOf(path) }, 512);
    const size = { slots: 4, contextLength: 512, pages: PAGES, promptTokens: 128 };
    const decoder = openDecoder(device, loaded, { ...size, kvType, ...options });
    opened.push(() => {
      decoder.close();
      loaded.free();
    });
    return decoder;
  }
  const admission = (seed: number, length: number) => ({
    prompt: Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17 + i * i) % 50)),
    maxTokens: 8,
    drawing: { ...PLAIN, temperature: 0, topLogprobs: 0 },
  });
  function say(decoder: Decoder, admissions: readonly ReturnType<typeof admission>[]) {
    const said = new Map(admissions.map((each) => [decoder.admit(each)!, [] as [token: number, logp: number][]]));
    for (let open = said.size; open > 0; )
      for (const { sequence, token, logp, done } of decoder.step()) {
        said.get(sequence)!.push([token, logp!]);
        if (!done) continue;
        decoder.release(sequence);
        open--;
      }
    return [...said.values()];
  }

  test.each([
    { arch: "llama", heads: 2, kvHeads: 1 },
    { arch: "qwen3", heads: 2, kvHeads: 1 },
    { arch: "llama", heads: 2, kvHeads: 1, headLength: 96 },
    { arch: "gemma2", heads: 2, kvHeads: 1, headLength: 256, seed: 2 },
  ] as const)(
    "$arch: nearly the same numbers, the same bits alone and among others, about half of the memory",
    (of) => {
      const model = { type: "F16", width: 128, ...of } as const;
      const [wide, narrow] = [open(model, "f16"), open(model, "q8_0")];
      const length = "headLength" in of ? of.headLength : of.arch === "qwen3" ? 128 : 64;
      expect(wide.bytes - narrow.bytes).toBe(PAGES * 32 * 2 * 2 * (length - (length / 32) * 2)); // two layers, one key head
      const text = admission(1, 45);
      const [[expected], [got]] = [say(wide, [text]), say(narrow, [text])];
      const apart = expected!.map(([, logp], i) => Math.abs(logp - got![i]![1]));
      expect(got!.map(([token]) => token)).toEqual(expected!.map(([token]) => token));
      expect(Math.max(...apart)).toBeLessThan(0.3); // these models have steep scores
      expect(Math.max(...apart)).toBeGreaterThan(0);
      const among = say(open(model, "q8_0", { promptTokens: 16, ahead: true }), [admission(2, 20), text]);
      expect(among[1]).toEqual(got!);
    },
  );
});

describe("keys and values in 8 bits, by the library", () => {
  afterAll(closeEngines);
  test("it answers, with less memory; its answers have other bits", async () => {
    const path = makeModel(dir, { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1 });
    const [wide, narrow] = [await testEngine(path), await testEngine(path, { kvType: "q8_0" })];
    expect(narrow.facts.memoryBytes).toBeLessThan(wide.facts.memoryBytes);
    const say = (engine: typeof wide) =>
      sayOne(engine, { prompt: tokens(engine, ask("once upon a time")), maxTokens: 8, topLogprobs: 0 });
    const [expected, got] = [await say(wide), await say(narrow)];
    const apart = expected.logprobs.map(({ logprob }, i) => Math.abs(logprob - got.logprobs[i]!.logprob));
    expect(Math.max(...apart)).toBeGreaterThan(0);
    expect(got.tokens[0]).toBe(expected.tokens[0]!);
  });
});
