import { seedOf } from "../../../lib/random.ts";
import { weightPlaces } from "../../../native/llama/weights.ts";
import { closeEngines, openEngines } from "../../serving/engine/engine.ts";
import type { Delta, Engine, Generation } from "../../serving/engine/types.ts";
import { openDecoderRoller } from "./decoder_roller.ts";
import { inMemory, inTurn, mustFit } from "./shared.ts";
import type { Roller, RollerOptions, Rollout, RolloutRequest, RolloutSampling } from "./types.ts";

const MOST_ENGINES = 4;
const LEAST_SHARE = 32; // fewer sequences per engine are not worth another thread

/** Our own kernels draw where they can, otherwise engines of the serving. */
export async function openRoller(options: RollerOptions): Promise<Roller> {
  const decoderRoller = options.gpus.length > 0 || options.device ? await openDecoderRoller(options) : null;
  return decoderRoller ?? new EngineRoller(options, await open(options));
}

/** A GPU waits about as long for the library to prepare a batch as it computes. Several engines fill the gaps. */
function open({ engines, device: _, frozen: __, kernels: ___, ...options }: RollerOptions): Promise<Engine[]> {
  const worthwhile = options.gpus.length === 0 ? 1 : Math.floor(options.parallel / LEAST_SHARE);
  const count = engines ?? Math.min(MOST_ENGINES, Math.max(1, worthwhile));
  return openEngines({ ...options, steady: true, unified: false }, count);
}

class EngineRoller implements Roller {
  readonly isExact = false; // the library draws with other last bits
  readonly #options: RollerOptions;
  #engines: readonly Engine[];
  #adapter: string | null = null;
  #adapters = 0;
  readonly #inTurn = inTurn();

  constructor(options: RollerOptions, engines: readonly Engine[]) {
    this.#options = options;
    this.#engines = engines;
  }

  get facts() {
    const all = this.#engines.map(({ facts }) => facts);
    const sum = (of: (facts: (typeof all)[number]) => number) => all.reduce((total, facts) => total + of(facts), 0);
    return {
      ...all[0]!,
      parallel: sum(({ parallel }) => parallel),
      memoryBytes: sum(({ memoryBytes }) => memoryBytes),
    };
  }
  tokenize: Roller["tokenize"] = (text, options) => this.#engines[0]!.tokenize(text, options);
  detokenize: Roller["detokenize"] = (tokens) => this.#engines[0]!.detokenize(tokens);

  roll: Roller["roll"] = (requests, sampling, signal, { continues = false } = {}) =>
    this.#inTurn(async () => {
      signal?.throwIfAborted();
      mustFit(requests, sampling, this.facts.contextLength);
      if (!continues) await Promise.all(this.#engines.map((engine) => engine.clear()));
      return this.#draw(requests, sampling, signal);
    });

  sync: Roller["sync"] = (adapter) =>
    this.#inTurn(async () => {
      const old = this.#adapter;
      this.#adapter = adapter && (await this.#attach(adapter));
      if (old === null) return;
      const [first, ...others] = this.#engines;
      await Promise.all(others.map((engine) => engine.detach(old)));
      await first!.detach(old); // frees the adapter that the others have released
    });

  /** The first engine loads the adapter once for all of them. */
  async #attach(adapter: Uint8Array): Promise<string> {
    const name = `policy ${++this.#adapters}`;
    const [first, ...others] = this.#engines;
    await inMemory(adapter, async (path) => {
      const address = await first!.attach(name, path);
      await Promise.all(others.map((engine) => engine.share(name, address)));
    });
    return name;
  }

  merge: Roller["merge"] = (write) =>
    this.#inTurn(async () => {
      const { dataDir, gpus } = this.#options;
      return gpus.length === 1 && write(weightPlaces(dataDir, this.#engines[0]!.model, { cuda: true }));
    });

  reload: Roller["reload"] = (write) =>
    this.#inTurn(async () => {
      await inMemory(new Uint8Array(0), async (modelPath) => {
        await write(modelPath);
        await closeEngines(this.#engines); // close before opening the next: a device may have room for only one
        this.#adapter = null;
        const { onProgress: _, ...options } = this.#options;
        this.#engines = await open({ ...options, modelPath });
      });
    });

  close = () => this.#inTurn(() => closeEngines(this.#engines));

  /** All requests of an engine are sent in one message, so that batches do not depend on arrival times. */
  async #draw(requests: readonly RolloutRequest[], sampling: RolloutSampling, signal?: AbortSignal) {
    const stop = new AbortController();
    const ends = signal ? AbortSignal.any([stop.signal, signal]) : stop.signal;
    const scored = this.#options.gpus.length === 0 || uncut(sampling);
    const share = shares(
      requests.map(({ samples }) => samples),
      this.#engines.length,
    );
    try {
      const rolled = await Promise.all(
        requests.map(async (request, i): Promise<Rollout[]> => {
          const collector = new Collector(request.samples, scored);
          const engine = this.#engines[share[i]!]!;
          const run = engine.generate(toGeneration(request, sampling, this.#generationOptions(scored)), ends);
          for await (const deltas of run) for (const delta of deltas) collector.take(delta);
          return collector.finish();
        }),
      );
      signal?.throwIfAborted();
      return rolled;
    } finally {
      stop.abort(); // one failure aborts the others
    }
  }

  #generationOptions(scored: boolean): Partial<Generation> {
    return { ...(scored ? { topLogprobs: 0 } : {}), ...(this.#adapter === null ? {} : { adapter: this.#adapter }) };
  }
}

/** True if tokens are drawn from the whole distribution: only then does the device report their probability. */
const uncut = ({ temperature, topP, topK, minP }: RolloutSampling) =>
  temperature > 0 && topP >= 1 && topK <= 0 && minP <= 0;

function toGeneration(
  { prompt, samples, seed, maxTokens: own }: RolloutRequest,
  { maxTokens, ...sampling }: RolloutSampling,
  options: Partial<Generation>,
): Generation {
  const none = { frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };
  return {
    prompt,
    samples,
    maxTokens: own ?? maxTokens,
    // neighbouring seeds must not share draws: sample i uses seed + i
    sampling: { ...sampling, ...none, seed: seedOf(seed) },
    stop: [],
    wantTokens: true,
    logprobTemperature: sampling.temperature > 0 ? sampling.temperature : 1,
    ...options,
  };
}

/** Assigns each group to the engine with the least work so far. The result depends only on the sizes. */
function shares(sizes: readonly number[], count: number): number[] {
  const load = Array.from({ length: count }, () => 0);
  return sizes.map((size) => {
    const least = load.indexOf(Math.min(...load));
    load[least]! += size;
    return least;
  });
}

type Sample = { tokens: number[]; logps: number[]; text: string; truncated: boolean; over: boolean };

/** Assembles the samples of one group from the engine's deltas. */
class Collector {
  readonly #samples: Sample[];
  readonly #scored: boolean;

  constructor(samples: number, scored: boolean) {
    this.#scored = scored;
    this.#samples = Array.from({ length: samples }, () => ({
      tokens: [],
      logps: [],
      text: "",
      truncated: false,
      over: false,
    }));
  }

  take({ sample, text, tokens, logprobs, finish }: Delta) {
    const state = this.#samples[sample]!;
    state.text += text;
    for (const token of tokens ?? []) state.tokens.push(token);
    for (const { logprob } of logprobs ?? []) state.logps.push(logprob);
    if (finish === undefined) return;
    state.over = true;
    state.truncated = finish !== "stop";
  }

  finish(): Rollout[] {
    return this.#samples.map(({ tokens, logps, text, truncated, over }) => {
      if (!over || (this.#scored && logps.length !== tokens.length))
        throw new Error("the engine ended before a sample was complete");
      const scores = this.#scored ? Float32Array.from(logps) : null;
      return { tokens: Int32Array.from(tokens), logps: scores, text, truncated };
    });
  }
}
