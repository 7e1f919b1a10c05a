// tier: all (serves models)
import { afterAll, describe, expect, test } from "bun:test";
import { openDecoder } from "../../src/workers/decoder/decoder.ts";
import { type Drawing, PLAIN } from "../../src/workers/decoder/drawing.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { loadModel } from "../../src/workers/decoder/model.ts";
import type { Decoder } from "../../src/workers/decoder/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute, openTestDevice } from "../native/emulation/choice.ts";
import { sweep } from "../sweep.ts";

type Said = { said: unknown[]; redrawn: number; steps: number };
const PROMPT = Int32Array.from({ length: 40 }, (_, i) => 50 + (i % 5)); // it repeats, so its end is guessed
const GREEDY: Drawing = { ...PLAIN, temperature: 0, topLogprobs: 2 };

describe.skipIf(!canCompute)("guesses of our decoder, in emulation", () => {
  const device = openTestDevice();
  const path = makeModel(tempDir(), { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1 });
  const model = loadModel(device, { path, header: headerOf(path) }, 256);
  const size = { slots: 2, contextLength: 256, pages: 16, promptTokens: 128, ahead: true };
  const plain = openDecoder(device, model, size);
  const guessing = openDecoder(device, model, { ...size, guesses: true });
  afterAll(() => {
    plain.close();
    guessing.close();
    model.free();
  });

  function say(decoder: Decoder, drawing: Drawing, maxTokens: number) {
    const before = decoder.stats().steps;
    const id = decoder.admit({ prompt: PROMPT, maxTokens, drawing })!;
    const said: unknown[] = [];
    for (let over = false; !over; )
      for (const { token, logp, alternatives, done } of decoder.step()) {
        said.push([token, logp, alternatives]);
        over = done;
      }
    decoder.release(id);
    return { said, steps: decoder.stats().steps - before };
  }

  test("a text that repeats takes fewer steps, and its tokens and log-probabilities are the same", () => {
    const want = say(plain, GREEDY, 48);
    const got = say(guessing, GREEDY, 48);
    expect(got.said).toEqual(want.said);
    expect(want.steps).toBe(48);
    expect(got.steps).toBeLessThan(36);
    expect(guessing.stats().availablePages).toBe(guessing.stats().pages);
  });

  test("drawn tokens have the random numbers of their places", () => {
    for (let seed = 1; seed <= sweep({ quick: 1, full: 6 }); seed++) {
      const drawing = { ...PLAIN, temperature: 0.1, topK: 4, seed };
      expect(say(guessing, drawing, 20).said, `seed ${seed}`).toEqual(say(plain, drawing, 20).said);
    }
  });

  test("no answer is longer than it may be", () => {
    for (const most of [1, 2, 3, 5, 9]) expect(say(guessing, GREEDY, most).said).toHaveLength(most);
  });

  test("a second sequence ends the guesses, and neither changes", () => {
    const alone = say(plain, GREEDY, 20).said.map((each) => (each as [number])[0]);
    const said = new Map<number, number[]>();
    const admit = () => {
      const id = guessing.admit({ prompt: PROMPT, maxTokens: 20, drawing: GREEDY })!;
      said.set(id, []);
      return id;
    };
    admit();
    for (let open = 1, steps = 0; open > 0; steps++) {
      if (steps === 9) {
        admit();
        open++;
      }
      for (const { sequence, token, done } of guessing.step()) {
        said.get(sequence)!.push(token);
        if (!done) continue;
        guessing.release(sequence);
        open--;
      }
    }
    for (const tokens of said.values()) expect(tokens).toEqual(alone);
  });

  /** A stand-in for a grammar: tokens below `limit`. The drawn token is taken back once if it is another one. */
  function sayChecked(decoder: Decoder, drawing: Drawing, limit: number, maxTokens: number) {
    const allowed = new Uint32Array(16).map((_, i) => (32 * (i + 1) <= limit ? 0xffffffff : 0));
    const propose = (fromText: Int32Array, most: number) => {
      const end = fromText.findIndex((token) => token >= limit);
      return fromText.subarray(0, Math.min(most, end < 0 ? fromText.length : end));
    };
    const before = decoder.stats().steps;
    const id = decoder.admit({ prompt: PROMPT, maxTokens, drawing, checked: true, propose })!;
    const said: unknown[] = [];
    let [newest, redrawn] = [PROMPT.at(-1)!, 0];
    for (let over = false; !over; )
      for (const { token, logp, done } of decoder.step()) {
        if (token >= limit) {
          decoder.redraw(id, newest, allowed);
          redrawn++;
          continue;
        }
        newest = token;
        said.push([token, logp]);
        over = done;
      }
    decoder.release(id);
    return { said, redrawn, steps: decoder.stats().steps - before };
  }

  test("tokens that are checked are guessed as well, and redrawn where the check refuses them", () => {
    const [want, got] = [plain, guessing].map((decoder) => sayChecked(decoder, GREEDY, 512, 40)) as [Said, Said];
    expect(got.said).toEqual(want.said);
    expect(got.steps).toBeLessThan(want.steps - 6);
    for (const drawing of [GREEDY, { ...PLAIN, temperature: 0.3, seed: 5 }]) {
      const [want, got] = [plain, guessing].map((decoder) => sayChecked(decoder, drawing, 96, 24)) as [Said, Said];
      expect(want.redrawn).toBeGreaterThan(0);
      expect([got.said, got.redrawn]).toEqual([want.said, want.redrawn]);
    }
    expect(guessing.stats().availablePages).toBe(guessing.stats().pages);
  });

  test("sequences with penalties, biases or checks are not guessed", () => {
    const drawings = [
      { ...GREEDY, frequencyPenalty: 0.1 },
      { ...GREEDY, repeatPenalty: 1.1 },
      { ...GREEDY, logitBias: [[50, -1]] as const },
    ];
    for (const drawing of drawings) {
      const got = say(guessing, drawing, 6);
      expect(got.steps).toBe(6);
      expect(got.said).toEqual(say(plain, drawing, 6).said);
    }
  });
});
