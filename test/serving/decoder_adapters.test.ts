// tier: all (serves models)
/** Adapters of our decoder in emulation, against merged weights, alone and mixed in one batch. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { openBackend } from "../../src/native/ggml/ggml.ts";
import { quantizeModel } from "../../src/native/llama/quantize.ts";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { type Drawing, PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel } from "../../src/workers/decoder/model.ts";
import type { Decoder, DecoderOptions } from "../../src/workers/decoder/types.ts";
import type { Adapter } from "../../src/workers/trainer/results/adapter.ts";
import { writeAdapterGguf } from "../../src/workers/trainer/results/adapter_gguf.ts";
import { writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { randomAdapter } from "../results_kit.ts";

const dir = tempDir();
const GREEDY: Drawing = { ...PLAIN, temperature: 0, topLogprobs: 20, logprobTemperature: 4 };
const SIZE = { arch: "qwen2", width: 128, heads: 2, kvHeads: 1 } as const;
const ALL = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
/** By name: which matrices they change, and their ranks. */
const KINDS = {
  small: { rank: 4, parts: ALL },
  usual: { rank: 16, parts: ["attn_q", "attn_v", "ffn_up", "ffn_down"] },
  large: { rank: 128, parts: ["attn_k", "attn_output", "ffn_gate"] },
  headed: { rank: 12, parts: ["attn_v", "output"] },
} as const;
type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as Kind[];

/** `first`: the likeliest tokens in the place of the first, with their log-probabilities. */
type Said = {
  tokens: number[];
  logps: number[];
  /** The likeliest tokens at the first place. */
  first: readonly (readonly [token: number, logp: number])[];
  /** The likeliest tokens at each place. */
  tops: ReadonlyMap<number, number>[];
};
/** So much may log-probabilities differ, because merged weights are rounded to BF16. */
const ROUNDING = 0.2;
const NEAR_TIE = 0.02;

describe.skipIf(!canCompute)("adapters of our decoder", () => {
  const memory = new Set<number>();
  const own = openTestDevice();
  const device = {
    ...own,
    allocate(bytes: number) {
      const at = own.allocate(bytes);
      memory.add(at);
      return at;
    },
    free(at: number) {
      memory.delete(at);
      own.free(at);
    },
  };
  const base = makeModel(dir, { ...SIZE, type: "F32" });
  const files = new Map<Kind, string>();
  const merged = new Map<Kind, string>();
  const opened: (() => void)[] = [];

  beforeAll(async () => {
    const backend = openBackend(dir, { kind: "cpu", threads: 1 });
    for (const name of NAMES) {
      const { rank, parts } = KINDS[name];
      const adapter: Adapter = randomAdapter(base, { rank, alpha: 4 * rank ** 0.5, rslora: false, parts });
      files.set(name, join(dir, `${name}.gguf`));
      merged.set(name, join(dir, `${name}-merged.gguf`));
      await writeAdapterGguf(files.get(name)!, adapter);
      await writeMergedGguf(backend, { base, path: merged.get(name)!, type: "F32", learned: { adapter } });
    }
    backend.close();
  }, 60_000);
  afterAll(() => {
    for (const close of opened) close();
    expect(memory.size).toBe(0);
  });

  function open(path: string, options: Partial<DecoderOptions> = {}): Decoder {
    const model = loadModel(device, { path, header: headerOf(path) }, 512);
    const size = { slots: 16, contextLength: 256, pages: 96, promptTokens: 160, adapters: { most: 6 } };
    const decoder = openDecoder(device, model, { ...size, ...options });
    opened.push(() => {
      decoder.close();
      model.free();
    });
    return decoder;
  }
  function attach(decoder: Decoder, ...of: readonly (readonly [name: Kind, scale: number])[]): number {
    const load = decoder.attach(
      of.map(([name, scale]) => ({ path: files.get(name)!, header: headerOf(files.get(name)!), scale })),
    );
    if (typeof load === "string") throw new Error(load);
    while (load.more());
    return load.adapter;
  }
  const prompt = (seed: number, length: number) =>
    Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17 + i * i) % 50));

  function drain(decoder: Decoder, ids: readonly number[]): Said[] {
    const said = new Map(ids.map((id): [number, Said] => [id, { tokens: [], logps: [], first: [], tops: [] }]));
    for (let running = ids.length; running > 0; )
      for (const { sequence, token, logp, alternatives, done } of decoder.step()) {
        const own = said.get(sequence)!;
        if (own.tokens.length === 0) own.first = alternatives ?? [];
        own.tops.push(new Map(alternatives ?? []));
        own.tokens.push(token);
        own.logps.push(logp!);
        if (!done) continue;
        decoder.release(sequence);
        running--;
      }
    return ids.map((id) => said.get(id)!);
  }
  const say = (
    decoder: Decoder,
    of: { adapter?: number | undefined; text?: Int32Array; maxTokens?: number; drawing?: Drawing },
  ) => {
    const { adapter, text = prompt(1, 45), maxTokens = 8, drawing = GREEDY } = of;
    return drain(decoder, [decoder.admit({ prompt: text, maxTokens, drawing, adapter })!])[0]!;
  };
  /** Compares the log-probabilities of the first token, among the likeliest of `b`. */
  function apart(a: Said, b: Said) {
    const others = new Map(a.first);
    const both = b.first.filter(([token]) => others.has(token));
    expect(both.length).toBeGreaterThan(3);
    return Math.max(...both.map(([token, logp]) => Math.abs(logp - others.get(token)!)));
  }

  /** The tokens are equal up to a near tie, where rounding may decide. Behind it the texts are others. */
  function expectAlike(a: Said, b: Said) {
    const at = a.tokens.findIndex((token, i) => token !== b.tokens[i]);
    if (at < 0) return;
    for (const { tops } of [a, b]) {
      const [first, second] = [a, b].map(({ tokens }) => tops[at]?.get(tokens[at]!) ?? Number.NEGATIVE_INFINITY);
      expect(Math.abs(first! - second!)).toBeLessThan(NEAR_TIE);
    }
  }

  test.each(NAMES)("%s: tokens and log-probabilities are those of merged weights", (name) => {
    const decoder = open(base);
    const plain = say(decoder, {});
    const got = say(decoder, { adapter: attach(decoder, [name, 1]) });
    const want = say(open(merged.get(name)!), {});
    expectAlike(got, want);
    expect(apart(got, want)).toBeLessThan(ROUNDING);
    expect(apart(got, plain)).toBeGreaterThan(0.3);
    expect(say(decoder, {})).toEqual(plain);
  });

  test.each([
    ["phi3", ["attn_qkv", "attn_output", "ffn_up", "ffn_down"]],
    ["gemma2", ALL],
  ] as const)("%s: an adapter of joined matrices, and before norms of results", async (arch, parts) => {
    const of = makeModel(dir, { ...SIZE, arch, type: "F32" });
    const adapter = randomAdapter(of, { rank: 8, alpha: 8, rslora: false, parts });
    const [file, whole] = [join(dir, `${arch}.adapter.gguf`), join(dir, `${arch}-merged.gguf`)];
    const backend = openBackend(dir, { kind: "cpu", threads: 1 });
    await writeAdapterGguf(file, adapter);
    await writeMergedGguf(backend, { base: of, path: whole, type: "F32", learned: { adapter } });
    backend.close();
    const decoder = open(of);
    const plain = say(decoder, {});
    const load = decoder.attach([{ path: file, header: headerOf(file), scale: 1 }]);
    if (typeof load === "string") throw new Error(load);
    while (load.more());
    const got = say(decoder, { adapter: load.adapter });
    const want = say(open(whole), {});
    expect(apart(got, want)).toBeLessThan(ROUNDING / 4);
    expect(apart(got, plain)).toBeGreaterThan(arch === "gemma2" ? 0.1 : 0.3); // its logits are limited
    expect(say(decoder, {})).toEqual(plain);
  });

  test("every sequence of a mixed batch gets the bits that it gets alone, however its prompt is read", () => {
    const alone = open(base, { promptTokens: 16 });
    const mixed = open(base, { ahead: true, slots: 12 });
    const both = [
      ["small", 0.5],
      ["usual", 2],
    ] as const;
    const numbers = [alone, mixed].map((decoder) => [
      ...NAMES.map((name) => attach(decoder, [name, 1])),
      attach(decoder, ...both),
      undefined,
    ]);
    const admissions = Array.from({ length: 10 }, (_, i) => ({
      prompt: prompt(i, 20 + 9 * i),
      maxTokens: 4 + (i % 3),
      drawing: { ...PLAIN, seed: i, topLogprobs: 0 },
    }));
    const of = (decoder: 0 | 1, i: number) => ({ ...admissions[i]!, adapter: numbers[decoder]![(i * 5 + 1) % 6] });
    const want = admissions.map((_, i) => drain(alone, [alone.admit(of(0, i))!])[0]!);
    const ids = admissions.map((_, i) => mixed.admit(of(1, i))!);
    expect(drain(mixed, ids)).toEqual(want);
    expect(mixed.stats()).toMatchObject({ active: 0, reading: 0, availablePages: 96 });
  });

  test("beginnings are shared by sequences of the same adapter alone", () => {
    const decoder = open(base);
    const [a, b] = [attach(decoder, ["small", 1]), attach(decoder, ["usual", 1])];
    const first = [undefined, a, b].map((adapter) => say(decoder, { adapter }));
    expect(decoder.stats().cachedTokens).toBe(0);
    expect(new Set(first.map(({ logps }) => logps.join())).size).toBe(3);
    expect([undefined, a, b].map((adapter) => say(decoder, { adapter }))).toEqual(first);
    expect(decoder.stats().cachedTokens).toBe(3 * 44);
    decoder.detach(a);
    const again = attach(decoder, ["small", 1]);
    expect(say(decoder, { adapter: again })).toEqual(first[1]!);
    expect(decoder.stats().cachedTokens).toBe(3 * 44); // the pages of the detached one are not taken
  });

  test("a detached adapter leaves its place and its memory to another", () => {
    const decoder = open(base, { adapters: { most: 1 } });
    const one = attach(decoder, ["large", 1]);
    const held = memory.size;
    expect(() => attach(decoder, ["usual", 1])).toThrow("no room for another adapter");
    decoder.detach(one);
    expect(memory.size).toBe(held - 1);
    expect(() => say(decoder, { adapter: one })).toThrow(`no adapter ${one}`);
    const other = attach(decoder, ["usual", 1]);
    expect(memory.size).toBe(held);
    const alone = open(base);
    expect(say(decoder, { adapter: other })).toEqual(say(alone, { adapter: attach(alone, ["usual", 1]) }));
  });

  test("other sequences decode while an adapter is copied", () => {
    const decoder = open(base);
    const plain = say(decoder, {});
    const id = decoder.admit({ prompt: prompt(1, 45), maxTokens: 8, drawing: GREEDY })!;
    const load = decoder.attach([{ path: files.get("small")!, header: headerOf(files.get("small")!), scale: 1 }]);
    if (typeof load === "string") throw new Error(load);
    const said: number[] = [];
    while (said.length < 8) {
      load.more();
      for (const { token } of decoder.step()) said.push(token);
    }
    decoder.release(id);
    expect(said).toEqual(plain.tokens);
    expect(apart(say(decoder, { adapter: load.adapter }), plain)).toBeGreaterThan(0.3);
  });

  test("guessed tokens and tokens drawn again have the adapter too", () => {
    const decoder = open(base, { guesses: true, ahead: true });
    const [want, adapter] = [open(base), attach(decoder, ["usual", 1])];
    const other = attach(want, ["usual", 1]);
    const text = Int32Array.from({ length: 40 }, (_, i) => 50 + (i % 5));
    const before = decoder.stats().steps;
    const got = say(decoder, { adapter, text, maxTokens: 32 });
    expect(got).toEqual(say(want, { adapter: other, text, maxTokens: 32 }));
    expect(decoder.stats().steps - before).toBeLessThan(32);
    const checked = decoder.admit({ prompt: text, maxTokens: 2, drawing: GREEDY, checked: true, adapter })!;
    const bits = new Uint32Array(64).fill(0);
    bits[77 >> 5]! |= 1 << (77 & 31);
    const [first] = decoder.step();
    decoder.redraw(checked, text.at(-1)!, bits.subarray(0, 16));
    const [second] = decoder.step();
    expect([first!.token, second!.token]).toEqual([got.tokens[0]!, 77]);
    const [third] = decoder.step();
    decoder.release(checked);
    const on = Int32Array.from([...text, 77]);
    expect(third!.token).toBe(say(want, { adapter: other, text: on, maxTokens: 1 }).tokens[0]!);
  });

  test("an adapter that the kernels cannot apply is refused with the reason", () => {
    const decoder = open(base);
    const header = headerOf(files.get("large")!);
    const reason = (change: Partial<typeof header>, ...more: Kind[]) =>
      decoder.attach([
        { path: files.get("large")!, header: { ...header, ...change }, scale: 1 },
        ...more.map((name) => ({ path: files.get(name)!, header: headerOf(files.get(name)!), scale: 1 })),
      ]);
    const renamed = (from: string, to: string) =>
      new Map(
        [...header.tensors].map(([name, of]) => [name.replace(from, to), { ...of, name: of.name.replace(from, to) }]),
      );
    expect(reason({ tensors: renamed("blk.0.attn_k", "token_embd") })).toBe("changes token_embd.weight");
    expect(() => reason({ tensors: renamed("blk.0.attn_k", "blk.0.ffn_up") })).toThrow(
      "not an adapter of this model: blk.0.ffn_up.weight has another shape",
    );
    expect(() => reason({ metadata: new Map() })).toThrow("The file is not an adapter");
    expect(reason({}, "small")).toStartWith("has the rank 132 in blk.0.attn_k.weight; the most is 128");
  });
  test("passes by cuBLAS, and weights in several types", async () => {
    const path = join(dir, "quantised.gguf");
    const from = makeModel(dir, { ...SIZE, type: "F16", width: 256, heads: 4, kvHeads: 2, ff: 512 }); // whole blocks
    quantizeModel(dir, { cuda: false }, { from, to: path, quantization: "Q4_K_M", threads: 1 });
    const adapter = randomAdapter(path, { rank: 8, alpha: 6, rslora: false, parts: ALL });
    files.set("small", join(dir, "wider.gguf"));
    await writeAdapterGguf(files.get("small")!, adapter);
    const said = [null, { rows: 1, work: 0, prompts: true }].map((wide) => {
      const decoder = open(path, { wide });
      return say(decoder, { adapter: attach(decoder, ["small", 1]), maxTokens: 4, text: prompt(2, 20) });
    });
    expect(said[0]!.tokens).toEqual(said[1]!.tokens);
    expect(apart(said[0]!, said[1]!)).toBeLessThan(0.1);
    expect(apart(said[0]!, say(open(path), { maxTokens: 4, text: prompt(2, 20) }))).toBeGreaterThan(0.3);
  });
});
