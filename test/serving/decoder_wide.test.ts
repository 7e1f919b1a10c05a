// tier: all (serves models)
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Device } from "../../src/native/cuda/decode/kernels.ts";
import type { Extent } from "../../src/native/cuda/kernel_products.ts";
import { quantizeModel } from "../../src/native/llama/quantize.ts";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { type Drawing, PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel } from "../../src/workers/decoder/model.ts";
import type { Wide } from "../../src/workers/decoder/plan.ts";
import { decodedBytes, holdDecoded } from "../../src/workers/decoder/steps/wide.ts";
import type { Decoder } from "../../src/workers/decoder/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { openEmulation } from "../native/emulation/device.ts";
import { greedy } from "./reference.ts";

const dir = tempDir();
const ALWAYS: Wide = { rows: 1, work: 0, prompts: true };
const GREEDY: Drawing = { ...PLAIN, temperature: 0, topLogprobs: 0 };
const SIZE = { width: 256, heads: 4, kvHeads: 2, ff: 512 } as const; // rows of whole blocks of Q4_K

/** Counts products of cuBLAS, by the rows of their passes. */
function counting(device: Device) {
  const rows: number[] = [];
  const wide = () => {
    const found = device.wide();
    if (!found) return null;
    const { byRows, byRowsOfBoth } = found.products;
    const counted = <Of extends readonly [unknown, unknown, unknown, Extent]>(multiply: (...of: Of) => void) => {
      return (...of: Of) => {
        rows.push(of[3].rows);
        multiply(...of);
      };
    };
    return { ...found, products: { byRows: counted(byRows), byRowsOfBoth: counted(byRowsOfBoth) } };
  };
  return { rows, device: { ...device, wide } };
}

describe.skipIf(!canCompute)("passes of many rows by cuBLAS", () => {
  const own = openTestDevice();
  const opened: (() => void)[] = [];
  afterAll(() => {
    for (const close of opened) close();
  });

  function open(path: string, wide: Wide | null) {
    const { rows, device } = counting(own);
    const model = loadModel(device, { path, header: headerOf(path) }, 256);
    const decoder = openDecoder(device, model, { slots: 8, contextLength: 256, pages: 64, promptTokens: 64, wide });
    opened.push(() => {
      decoder.close();
      model.free();
    });
    return { decoder, rows };
  }
  const prompt = (seed: number, length: number) =>
    Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17 + i * i) % 50));

  function say(decoder: Decoder, prompts: readonly Int32Array[], maxTokens: number) {
    const said = new Map(
      prompts.map((text) => [decoder.admit({ prompt: text, maxTokens, drawing: GREEDY })!, [] as [number, number][]]),
    );
    for (let open = said.size; open > 0; )
      for (const { sequence, token, logp, done } of decoder.step()) {
        said.get(sequence)!.push([token, logp!]);
        if (!done) continue;
        decoder.release(sequence);
        open--;
      }
    return [...said.values()];
  }
  const apart = (a: [number, number][], b: [number, number][]) =>
    Math.max(...a.map(([, logp], i) => Math.abs(logp - b[i]![1])));

  test.each(["llama", "qwen2", "qwen3"] as const)("%s: tokens are libllama's, logps those of our kernels", (arch) => {
    const path = makeModel(dir, { arch, type: "BF16", ...SIZE });
    const text = prompt(1, 25);
    const wide = open(path, ALWAYS);
    const [got] = say(wide.decoder, [text], 6);
    const [want] = say(open(path, null).decoder, [text], 6);
    expect(got!.map(([token]) => token)).toEqual(greedy(path, text, 6).tokens);
    expect(apart(got!, want!)).toBeLessThan(0.1);
    expect(new Set(wide.rows)).toEqual(new Set([24, 1]));
  });

  test("quantized weights are decoded first", () => {
    const from = makeModel(dir, { arch: "qwen2", type: "F16", ...SIZE });
    const path = join(dir, "quantised.gguf");
    quantizeModel(dir, { cuda: false }, { from, to: path, quantization: "Q4_K_M", threads: 1 });
    const text = prompt(8, 20);
    const wide = open(path, ALWAYS);
    const [got] = say(wide.decoder, [text], 5);
    const [want] = say(open(path, null).decoder, [text], 5);
    expect(got!.map(([token]) => token)).toEqual(want!.map(([token]) => token));
    expect(apart(got!, want!)).toBeLessThan(0.1);
    expect(wide.rows.length).toBeGreaterThan(0);
  });

  test("a copy of quantized weights in BF16 changes nothing but the speed", () => {
    const from = makeModel(dir, { arch: "llama", type: "F16", ...SIZE });
    const path = join(dir, "copied.gguf");
    quantizeModel(dir, { cuda: false }, { from, to: path, quantization: "Q4_K_M", threads: 1 });
    const model = loadModel(own, { path, header: headerOf(path) }, 256);
    const decoder = openDecoder(own, model, {
      slots: 8,
      contextLength: 256,
      pages: 64,
      promptTokens: 64,
      wide: ALWAYS,
    });
    const want = say(decoder, [prompt(8, 20)], 5);
    const copies = holdDecoded(own, model)!;
    expect(copies.bytes).toBe(decodedBytes(model));
    decoder.clear();
    expect(say(decoder, [prompt(8, 20)], 5)).toEqual(want);
    copies.free();
    decoder.clear();
    expect(say(decoder, [prompt(8, 20)], 5)).toEqual(want);
    decoder.close();
    model.free();
  });

  test("late tokens of a prompt are multiplied in one piece, and have the same bits however it is read", () => {
    const path = makeModel(dir, { arch: "qwen2", type: "BF16", ...SIZE });
    const device = own.exact() ? own : openEmulation({ isExact: true });
    const model = loadModel(device, { path, header: headerOf(path) }, 256);
    const read = (promptTokens: number, lateFrom: number, texts: readonly Int32Array[]) => {
      const size = { slots: 8, contextLength: 256, pages: 64, promptTokens, lateFrom };
      const decoder = openDecoder(device, model, size);
      const said = say(decoder, texts, 4);
      decoder.close();
      return said;
    };
    const texts = [prompt(3, 150), prompt(4, 70), prompt(5, 12)];
    const [late] = read(64, 40, texts);
    expect(read(16, 40, [texts[0]!])).toEqual([late!]);
    expect(read(256, 40, texts)[0]).toEqual(late!);
    const [early] = read(64, 256, [texts[0]!]);
    expect(late!.map(([token]) => token)).toEqual(early!.map(([token]) => token));
    expect(apart(late!, early!)).toBeLessThan(0.1);
    model.free();
  });

  test("below the least number of rows, a sequence keeps its bits", () => {
    const path = makeModel(dir, { arch: "qwen2", type: "BF16", ...SIZE });
    const [text, others] = [prompt(3, 9), [4, 5, 6].map((seed) => prompt(seed, 9))];
    const few = open(path, { ...ALWAYS, rows: 16 });
    const [alone] = say(open(path, null).decoder, [text], 6);
    expect(say(few.decoder, [text], 6)[0]).toEqual(alone!);
    expect(few.rows).toEqual([]);
    say(few.decoder, others, 4); // their prompts are read together
    expect(new Set(few.rows)).toEqual(new Set([24]));
  });

  test("prompts may be read by our kernels alone", () => {
    const path = makeModel(dir, { arch: "qwen2", type: "BF16", ...SIZE });
    const steps = open(path, { ...ALWAYS, prompts: false });
    say(steps.decoder, [prompt(2, 17)], 2);
    expect(new Set(steps.rows)).toEqual(new Set([1]));
  });

  test("small products stay with our kernels", () => {
    const path = makeModel(dir, { arch: "qwen2", type: "BF16", ...SIZE });
    const most = open(path, { ...ALWAYS, work: 512 * 256 * 20 });
    say(most.decoder, [prompt(2, 33)], 2);
    expect(most.rows.length).toBeGreaterThan(0);
    expect(new Set(most.rows)).toEqual(new Set([32])); // of gates, ups and downs of the prompt
  });
});
