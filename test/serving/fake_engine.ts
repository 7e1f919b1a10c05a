/** An engine that follows a script: one token per character, control tokens by their text. */
import type { Delta, Engine, Generation, ModelFacts, TokenLogprob } from "../../src/workers/serving/engine/types.ts";

export const CONTROLS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "[TOOL_CALLS]"];
const FIRST_CONTROL = 70_000;
const encoder = new TextEncoder();

export type Step = string | Promise<unknown> | Error;
export type Script = (generation: Generation, sample: number) => Iterable<Step>;
export type FakeEngine = Engine & { requests: Generation[]; open: number };

const FACTS: ModelFacts = {
  architecture: "fake",
  isEncoder: false,
  hasPooling: false,
  pooling: "mean",
  pairs: { template: null, bos: -1, eos: -1, sep: -1 },
  contextLength: 4_096,
  trainedContextLength: 4_096,
  parallel: 4,
  vocabSize: FIRST_CONTROL + CONTROLS.length,
  embeddingSize: 4,
  parameters: 0,
  weightBytes: 0,
  memoryBytes: 0,
  bosToken: "<|endoftext|>",
  eosToken: "<|im_end|>",
  addsBos: false,
  gap: null,
  chatTemplate: null,
  toolTemplate: null,
  device: "fake",
  decoder: "a script decodes",
};

/** Each text of the script is a token; a promise is awaited; an error is thrown. Ends with `length` if cut off. */
export function fakeEngine(script: Script, facts: Partial<ModelFacts> = {}): FakeEngine {
  const engine: FakeEngine = {
    model: 0,
    facts: { ...FACTS, ...facts },
    requests: [],
    open: 0,
    tokenize(text, { addBos, special }) {
      const ids: number[] = addBos && engine.facts.addsBos ? [FIRST_CONTROL + 2] : [];
      for (let at = 0; at < text.length; ) {
        const control = special ? CONTROLS.findIndex((name) => text.startsWith(name, at)) : -1;
        ids.push(control >= 0 ? FIRST_CONTROL + control : text.charCodeAt(at));
        at += control >= 0 ? CONTROLS[control]!.length : 1;
      }
      return Int32Array.from(ids);
    },
    detokenize: (tokens) =>
      [...tokens].map((id) => (id >= FIRST_CONTROL ? CONTROLS[id - FIRST_CONTROL] : String.fromCharCode(id))).join(""),
    generate(generation, signal) {
      engine.requests.push(generation);
      return Object.assign(play(engine, generation, script, signal), { cachedTokens: Promise.resolve(3) });
    },
    embed: async (prompts) => prompts.map((prompt) => Float32Array.from([prompt.length, 0, 0.5, 0])),
    attach: async () => 0,
    combine: async () => {},
    grantRoom: () => {},
    share: async () => {},
    detach: async () => {},
    clear: async () => {},
    stats: () => ({
      active: engine.open,
      waiting: 0,
      promptTokens: 0,
      cachedTokens: 0,
      completionTokens: 0,
      decodeCalls: 0,
      idleMs: Number.POSITIVE_INFINITY,
      callsDone: 0,
      running: null,
    }),
    close: async () => {},
  };
  return engine;
}

async function* play(
  engine: FakeEngine,
  generation: Generation,
  script: Script,
  signal?: AbortSignal,
): AsyncGenerator<readonly Delta[]> {
  engine.open++;
  const left = new Promise<void>((done) => signal?.addEventListener("abort", () => done()));
  try {
    for (let sample = 0; sample < generation.samples; sample++) {
      let tokens = 0;
      for (const step of script(generation, sample)) {
        if (step instanceof Error) throw step;
        if (typeof step !== "string") await Promise.race([step, left]);
        else if (!signal?.aborted && tokens < generation.maxTokens) {
          tokens++;
          yield [
            {
              sample,
              text: step,
              ...(generation.topLogprobs === undefined ? {} : { logprobs: [logprobOf(step)] }),
              ...(generation.wantTokens ? { tokens: engine.tokenize(step, { addBos: false, special: true }) } : {}),
            },
          ];
        }
      }
      const finish = signal?.aborted ? "cancelled" : tokens >= generation.maxTokens ? "length" : "stop";
      const ends = finish === "stop" && generation.wantTokens === true;
      yield [
        {
          sample,
          text: "",
          finish,
          completionTokens: tokens,
          ...(ends ? { tokens: engine.tokenize(engine.facts.eosToken, { addBos: false, special: true }) } : {}),
          ...(ends && generation.topLogprobs !== undefined ? { logprobs: [logprobOf("")] } : {}),
        },
      ];
    }
  } finally {
    engine.open--;
  }
}

const logprobOf = (text: string): TokenLogprob => {
  const bytes = encoder.encode(text);
  return {
    token: text.charCodeAt(0),
    bytes,
    logprob: -0.5,
    top: [{ token: text.charCodeAt(0), bytes, logprob: -0.5 }],
  };
};
