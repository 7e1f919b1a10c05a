// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ContextOverflow } from "../../src/workers/serving/engine/types.ts";
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Roller } from "../../src/workers/trainer/rollouts/types.ts";
import { tempDir } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { rowsAreIndependent } from "../serving/batch_bits.ts";
import { logpsOf } from "../serving/reference.ts";
import { digest, longRequests, openTiny, openTouchy, promptOf, requestsOf, SAMPLING, TINY } from "./rolled.ts";

const rollers: Roller[] = [];
const kept = (roller: Roller) => {
  rollers.push(roller);
  return roller;
};
const tiny = async (...args: Parameters<typeof openTiny>) => kept(await openTiny(...args));
afterAll(() => Promise.all(rollers.map((roller) => roller.close())));

/** `expect().rejects` blocks the event loop, and with it the messages of a thread. */
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error,
  );

describe("a rollout is a function of its request", () => {
  const rollOf = (roller: Roller) => (seed: number) => roller.roll(longRequests(seed), SAMPLING).then(digest);

  test("twice in one engine, after other calls and after a cancelled call", async () => {
    const roller = kept(await openTouchy());
    const roll = rollOf(roller);
    const first = await roll(7);
    expect(await roll(7)).toBe(first);
    expect(await roll(8)).not.toBe(first);
    await roller.roll(longRequests(7, 7).slice(0, 4), { ...SAMPLING, topK: 5, maxTokens: 30 });
    expect(await roll(7)).toBe(first);
    const given = new AbortController();
    const ended = failure(roller.roll(longRequests(9), { ...SAMPLING, maxTokens: 100 }, given.signal));
    given.abort(new Error("enough"));
    expect(await ended).toEqual(new Error("enough"));
    expect(await roll(7)).toBe(first);
  }, 120_000);

  test("in another process, and while other work uses the processor", async () => {
    const roll = rollOf(kept(await openTouchy()));
    const here = await roll(7);
    const busy = [1, 2].map(() => Bun.spawn([process.execPath, "-e", "for(;;);"]));
    try {
      const there = Bun.spawn([process.execPath, join(import.meta.dir, "rolled.ts")]);
      expect(await roll(7)).toBe(here);
      expect(await new Response(there.stdout).text()).toBe(here);
    } finally {
      for (const each of busy) each.kill();
    }
  }, 120_000);

  test("a seed belongs to its group: neighbouring seeds share no sample", async () => {
    const roller = await tiny();
    const prompt = promptOf(roller, "Tell me a story");
    const groups = [1, 2, 3].map((seed) => ({ prompt, samples: 6, seed }));
    const rolled = await roller.roll(groups, { ...SAMPLING, temperature: 2 });
    expect(new Set(rolled.flat().map(({ tokens }) => tokens.join())).size).toBe(18);
  });
});

test.each([0.7, 1, 1.3])("logps are of the logits divided by the temperature %p, cut or not", async (temperature) => {
  const roller = await tiny();
  const prompt = promptOf(roller, "What is 7 + 5?");
  const sampling = { ...SAMPLING, temperature, topP: 0.95, topK: 20 };
  const [group] = await roller.roll([{ prompt, samples: 6, seed: 3 }], sampling);
  for (const { tokens, logps } of group!) {
    expect(logps).toHaveLength(tokens.length);
    const rows = logpsOf(TINY, Int32Array.of(...prompt, ...tokens)).map((row) => scaled(row, temperature));
    tokens.forEach((token, i) => {
      expect(Math.abs(logps![i]! - rows[prompt.length - 1 + i]![token]!)).toBeLessThan(5e-3); // F16 cache against F16 cache in other batches
    });
  }
});
function scaled(logps: Float64Array, temperature: number): Float64Array {
  const divided = logps.map((each) => each / temperature);
  const norm = Math.log(divided.reduce((sum, each) => sum + Math.exp(each), 0));
  return divided.map((each) => each - norm);
}

test("the end token is among the tokens and not in the text; without one the sample is truncated", async () => {
  const roller = await tiny();
  const [end] = roller.tokenize("<|im_end|>", { addBos: false, special: true });
  const request = { prompt: promptOf(roller, "What is 7 + 5?"), samples: 3, seed: 1 };
  const [whole] = await roller.roll([request], { ...SAMPLING, temperature: 0 });
  for (const { tokens, text, truncated } of whole!) {
    expect({ last: tokens.at(-1), text, truncated }).toEqual({ last: end, text: "12", truncated: false });
    expect(roller.detokenize(tokens)).toBe("12");
  }
  const [cut] = await roller.roll([request], { ...SAMPLING, temperature: 0, maxTokens: 1 });
  for (const { tokens, truncated } of cut!) expect([tokens.length, truncated]).toEqual([1, true]);
});

test("more samples than slots: every sample arrives in its position", async () => {
  const roller = await tiny({ parallel: 5 });
  const requests = requestsOf(roller, 40);
  const rolled = await roller.roll(requests, { ...SAMPLING, temperature: 0 });
  expect(rolled.map((group) => group.length)).toEqual(requests.map(({ samples }) => samples));
  for (const group of rolled) expect(new Set(group.map(({ text }) => text)).size).toBe(1);
  expect(new Set(rolled.map((group) => group[0]!.text)).size).toBe(rolled.length);
});

describe("several engines over the same weights share the groups", () => {
  const independent = rowsAreIndependent(TINY); // otherwise a sample depends on its batch, which several engines change

  test.skipIf(!independent)("each sample equals the sample of one engine", async () => {
    const [one, three] = [await tiny({ parallel: 9 }), await tiny({ parallel: 9, engines: 3 })];
    const texts = async (roller: Roller) =>
      (await roller.roll(requestsOf(roller, 40), SAMPLING)).map((group) => group.map(({ text }) => text));
    expect(await texts(three)).toEqual(await texts(one));
    expect(await texts(three)).toEqual(await texts(one));
  });

  test("each sample is drawn from the model's distribution for its own prompt", async () => {
    const three = await tiny({ parallel: 9, engines: 3 });
    expect(three.facts.parallel).toBe(9);
    const requests = requestsOf(three, 40);
    const rolled = await three.roll(requests, SAMPLING);
    expect(rolled.map((group) => group.length)).toEqual(requests.map(({ samples }) => samples));
    rolled.forEach((group, i) => {
      const { prompt } = requests[i]!;
      for (const { tokens, logps } of group) {
        const rows = logpsOf(TINY, Int32Array.of(...prompt, ...tokens)).map((row) => scaled(row, SAMPLING.temperature));
        const off = tokens.map((token, at) => Math.abs(logps![at]! - rows[prompt.length - 1 + at]![token]!));
        expect(Math.max(...off)).toBeLessThan(5e-2); // other batches than the reference's; another prompt's are above 1
      }
    });
  });
});

test("a request that does not fit is refused before anything runs", async () => {
  const roller = await tiny();
  const good = { prompt: promptOf(roller, "Hello"), samples: 2, seed: 1 };
  const long = { ...good, prompt: new Int32Array(128).fill(70) };
  expect(await failure(roller.roll([good, long], SAMPLING))).toBeInstanceOf(ContextOverflow);
  expect(await failure(roller.roll([{ ...good, samples: 0 }], SAMPLING))).toBeInstanceOf(RangeError);
  expect((await roller.roll([good], SAMPLING))[0]).toHaveLength(2);
});

describe("weights from memory", () => {
  const dir = tempDir();
  const shape = { arch: "qwen2", type: "F32" } as const;
  const path = makeModel(dir, shape);
  const text = async (roller: Roller) => {
    const prompt = roller.tokenize("hello and the", { addBos: false, special: true });
    const [group] = await roller.roll([{ prompt, samples: 1, seed: 1 }], { ...SAMPLING, temperature: 0 });
    return group![0]!.tokens.join();
  };
  const open = (engines: number) =>
    openRoller({ dataDir: tempDir(), modelPath: path, contextLength: 64, parallel: 2, threads: 1, gpus: [], engines });

  test.each([1, 2])(
    "an adapter is used, replaced and removed; a bad adapter changes nothing: %p engines",
    async (engines) => {
      const roller = await open(engines);
      const adapter = (adapterSeed: number) => readFileSync(makeAdapter(dir, { ...shape, adapterSeed, strength: 4 }));
      const bare = await text(roller);
      await roller.sync(adapter(1));
      const first = await text(roller);
      await roller.sync(adapter(2));
      const second = await text(roller);
      expect(new Set([bare, first, second]).size).toBe(3);
      expect(await failure(roller.sync(new Uint8Array(64)))).toBeInstanceOf(Error);
      expect(await text(roller)).toBe(second);
      await roller.sync(adapter(1));
      expect(await text(roller)).toBe(first);
      await roller.sync(null);
      expect(await text(roller)).toBe(bare);
      await roller.close();
    },
  );

  test.each([1, 2])(
    "all weights are replaced; an earlier failure keeps the old weights: %p engines",
    async (engines) => {
      const roller = await open(engines);
      const bare = await text(roller);
      const other = makeModel(dir, { ...shape, seed: 5 });
      await roller.reload((into) => copyFileSync(other, into));
      const changed = await text(roller);
      expect(changed).not.toBe(bare);
      await roller.reload((into) => copyFileSync(path, into));
      expect(await text(roller)).toBe(bare);
      const failed = await failure(roller.reload(() => Promise.reject(new Error("no room"))));
      expect(failed).toEqual(new Error("no room"));
      expect(await text(roller)).toBe(bare);
      await roller.close();
    },
  );
});
