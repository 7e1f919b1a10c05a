/** Engines for tests: small, one thread, closed when the file is done. */
import { openEngine } from "../../src/workers/serving/engine/engine.ts";
import type { Delta, Engine, EngineOptions, Generation, Sampling } from "../../src/workers/serving/engine/types.ts";
import { tempDir } from "../harness.ts";

export const GREEDY: Sampling = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
};
export const RANDOM: Sampling = { ...GREEDY, temperature: 1 };

const open: Engine[] = [];
export async function testEngine(modelPath: string, options: Partial<EngineOptions> = {}): Promise<Engine> {
  const all = { dataDir: tempDir(), modelPath, contextLength: 256, parallel: 4, threads: 1, gpus: [], ...options };
  const prepared = options.decoder === "own" ? { thread: new Worker(EMULATED) } : undefined;
  const engine = await openEngine(all, prepared);
  open.push(engine);
  return engine;
}
const EMULATED = new URL("./emulated_thread.ts", import.meta.url);
export const closeEngines = () => Promise.all(open.splice(0).map((engine) => engine.close()));

export const tokens = (engine: Engine, text: string) => engine.tokenize(text, { addBos: false, special: true });

export type Said = {
  text: string;
  tokens: number[];
  logprobs: NonNullable<Delta["logprobs"]>[number][];
  finish: Delta["finish"];
  completionTokens: number;
  parts: string[];
};

/** Runs to the end and returns one entry per sample. */
export async function say(
  engine: Engine,
  generation: Partial<Generation> & { prompt: Int32Array },
  signal?: AbortSignal,
): Promise<Said[]> {
  const whole: Generation = { maxTokens: 24, sampling: GREEDY, samples: 1, stop: [], wantTokens: true, ...generation };
  const said = Array.from(
    { length: whole.samples },
    (): Said => ({ text: "", tokens: [], logprobs: [], finish: undefined, completionTokens: -1, parts: [] }),
  );
  for await (const deltas of engine.generate(whole, signal)) {
    for (const delta of deltas) {
      const one = said[delta.sample]!;
      one.text += delta.text;
      one.parts.push(delta.text);
      one.tokens.push(...(delta.tokens ?? []));
      one.logprobs.push(...(delta.logprobs ?? []));
      one.finish = delta.finish ?? one.finish;
      one.completionTokens = delta.completionTokens ?? one.completionTokens;
    }
  }
  return said;
}

export async function sayOne(...args: Parameters<typeof say>): Promise<Said> {
  return (await say(...args))[0]!;
}

export const ask = (text: string) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;

/** `expect().rejects` blocks the event loop, and with it the messages of a thread. */
export const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => () => {},
    (error) => () => {
      throw error;
    },
  );
