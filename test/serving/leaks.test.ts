/**
 * Many random requests, of which some leave early and some are refused. Afterwards nothing runs, every slot and page can
 * be used again, and memory has stopped growing. The full run has 100,000 requests.
 */
import { afterAll, expect, test } from "bun:test";
import type { Random } from "../../src/lib/random.ts";
import { MIB } from "../../src/lib/units.ts";
import type { Engine, Generation } from "../../src/workers/serving/engine/types.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute } from "../native/emulation/choice.ts";
import { IS_FULL, randomFor, sweep } from "../sweep.ts";
import { closeEngines, GREEDY, RANDOM, say, sayOne, testEngine } from "./engines.ts";

afterAll(closeEngines);
const SIZE = { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1, layers: 1 } as const;
const model = makeModel(tempDir(), SIZE);
const CONTEXT = 96;
const CLIENTS = 12;
const MAX_GROWTH = 32 * MIB;

const draw = (random: Random, below: number) => Math.floor(random() * below);

/** Prompts begin alike now and then, so that pages are shared. One in forty is too long. */
function someRequest(random: Random): Partial<Generation> & { prompt: Int32Array } {
  const length = random() < 0.025 ? CONTEXT + 1 : 1 + draw(random, CONTEXT - 8);
  const first = draw(random, 3);
  return {
    prompt: Int32Array.from({ length }, (_, i) => (i < 40 ? 30 + first : 30 + draw(random, 60))),
    maxTokens: 1 + draw(random, 12),
    samples: 1 + (random() < 0.1 ? draw(random, 4) : 0),
    sampling: random() < 0.5 ? GREEDY : { ...RANDOM, topK: draw(random, 5), frequencyPenalty: draw(random, 2) },
    stop: random() < 0.2 ? ["a"] : [],
    ignoreEos: random() < 0.5,
    ...(random() < 0.1 ? { grammar: "root ::= [a-z]+" } : {}),
    ...(random() < 0.1 ? { topLogprobs: draw(random, 4) } : {}),
  };
}

async function oneRequest(engine: Engine, random: Random): Promise<void> {
  const request = someRequest(random);
  const leaves = random();
  const caller = new AbortController();
  if (leaves < 0.1) caller.abort();
  else if (leaves < 0.3) setTimeout(() => caller.abort(), draw(random, 10));
  try {
    await say(engine, request, caller.signal);
  } catch {
    // too long, or aborted before it began
  }
}

async function many(engine: Engine, count: number, use: string): Promise<void> {
  const random = randomFor(use);
  let left = count;
  const client = async () => {
    while (left-- > 0) await oneRequest(engine, random);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  await until("every request to be over", () => engine.stats().active + engine.stats().waiting === 0);
}

test.each([
  ["library", sweep({ quick: 300, full: 100_000 })],
  ...(canCompute && IS_FULL ? ([["own", 2_000]] as const) : []),
] as const)(
  "after many requests to %s nothing is held",
  async (decoder, count) => {
    const engine = await testEngine(model, { decoder, contextLength: CONTEXT, parallel: 4 });
    await many(engine, Math.ceil(count / 5), `${decoder} first`);
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    await many(engine, count, decoder);
    Bun.gc(true);
    const growth = process.memoryUsage.rss() - before;
    if (IS_FULL) console.error(`${decoder}: ${count} requests, memory grew by ${(growth / MIB).toFixed(1)} MiB`);
    if (IS_FULL) expect(growth).toBeLessThan(MAX_GROWTH);
    const whole = { maxTokens: 500, ignoreEos: true };
    const prompts = Array.from({ length: 4 }, (_, i) => Int32Array.from({ length: 20 }, (_, j) => 40 + i + j));
    const together = await Promise.all(prompts.map((prompt) => sayOne(engine, { prompt, ...whole })));
    expect(together.map(({ completionTokens }) => completionTokens)).toEqual([77, 77, 77, 77]); // each fills its context
  },
  3_600_000,
);
