/** The context of every request in the worker, and its duties when the request ends. */

import { rankOf } from "../../lib/chat/priority.ts";
import type { Timings, Usage } from "../../lib/chat/sampling.ts";
import { AppError } from "../../lib/errors.ts";
import { ClientLeft } from "../../lib/net/client_left.ts";
import { BadGrammar, type Delta, type Engine, type Generation, type Run, type Sampling } from "./engine/types.ts";
import { createQuoting, type Quotes } from "./prompt.ts";
import { type ChatTemplate, createChatTemplate } from "./template.ts";
import type { Drawn } from "./tokens/drawn.ts";
import type { Vision } from "./vision/vision.ts";

export type ModelIds = { base: string | undefined; adapters: Map<string, string> };

/** One loaded model. */
export type Served = {
  engine: Engine;
  /** The adapter that the request uses, by the name it was attached with. */
  adapter: string | undefined;
  /** Ids of the base model and of the adapters, by the name an adapter was attached with. */
  ids: ModelIds;
  /** The priority of the request. */
  rank: number;
  template: ChatTemplate;
  newQuotes: () => Quotes;
  /** Null: the model reads no images. */
  vision: Vision | null;
};

export const toServed = (engine: Engine, modelId?: string, vision: Vision | null = null): Served => ({
  engine,
  adapter: undefined,
  ids: { base: modelId, adapters: new Map() },
  rank: rankOf("normal"),
  template: createChatTemplate(engine.facts),
  newQuotes: createQuoting(engine),
  vision,
});

/** Names what this request is decoded with: the base model and, if it uses one, the adapter. Null: the ids are not known. */
export function fingerprintOf({ ids, adapter }: Served): string | null {
  const added = adapter === undefined ? "" : ids.adapters.get(adapter);
  if (ids.base === undefined || added === undefined) return null;
  return added === "" ? ids.base : `${ids.base}+${added}`;
}

/** Counted while a request runs, reported when it is over. */
export type Tally = {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Tokens of thoughts, a part of `completionTokens`. */
  reasoningTokens: number;
  /** Times of `performance.now()`: the request came, its prompt was tokens, its first tokens came. */
  readonly begunAt: number;
  preparedAt?: number;
  firstAt?: number;
};

export const newTally = (): Tally => ({
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  begunAt: performance.now(),
});

/** Call when the prompts are tokens and before they run. */
export function countPrompt(tokens: number, tally: Tally) {
  tally.promptTokens = tokens;
  tally.preparedAt = performance.now();
}

/** The stages of a request that have ended or begun. Waiting for a slot counts as a part of the prompt. */
export function timingsOf({ begunAt, preparedAt, firstAt }: Tally) {
  const now = performance.now();
  return {
    template_ms: (preparedAt ?? now) - begunAt,
    prompt_ms: preparedAt === undefined ? 0 : (firstAt ?? now) - preparedAt,
    decode_ms: firstAt === undefined ? 0 : now - firstAt,
  };
}

const per = (whole: number, parts: number) => (parts > 0 ? whole / parts : 0);

/** The times of a request in the form of llama.cpp. */
export function timingsShown(tally: Tally): Timings {
  const { prompt_ms: promptMs, decode_ms: decodeMs } = timingsOf(tally);
  const { cachedTokens, completionTokens } = tally;
  const read = Math.max(tally.promptTokens - cachedTokens, 0);
  return {
    cache_n: cachedTokens,
    prompt_n: read,
    prompt_ms: promptMs,
    prompt_per_token_ms: per(promptMs, read),
    prompt_per_second: per(read * 1000, promptMs),
    predicted_n: completionTokens,
    predicted_ms: decodeMs,
    predicted_per_token_ms: per(decodeMs, completionTokens),
    predicted_per_second: per(completionTokens * 1000, decodeMs),
  };
}

/** A run that generates nothing, for max_tokens: 0. */
function emptyRun(samples: number): Run {
  const deltas = Array.from({ length: samples }, (_, sample): Delta => {
    return { sample, text: "", finish: "length", completionTokens: 0 };
  });
  async function* once() {
    yield deltas;
  }
  return Object.assign(once(), { cachedTokens: Promise.resolve(0) });
}

/** Starts a run. A grammar that does not parse is the fault of the field that it comes from. */
export function startRun({ engine }: Served, generation: Generation, at: string, signal: AbortSignal): Run {
  if (generation.maxTokens === 0) return emptyRun(generation.samples);
  try {
    return engine.generate(generation, signal);
  } catch (cause) {
    if (!(cause instanceof BadGrammar)) throw cause;
    const field = at.slice(1).replaceAll("/", ".");
    const isGrammar = field.endsWith("grammar");
    const what = isGrammar ? `${field}: does not parse` : `The schema in ${field} cannot be turned into a grammar`;
    throw new AppError("schema", `${what}: ${cause.message}`, { param: at, cause });
  }
}

export type Exchange = {
  /** The end of an answer's id: `chatcmpl-…`. */
  id: string;
  /** Aborts when the client leaves or the worker stops. */
  signal: AbortSignal;
  tally: Tally;
  /** Undefined: no rollout records the tokens. */
  drawn?: Drawn | undefined;
  /** The client is one of llama.cpp: a streamed chat begins with the content null, where OpenAI sends "". */
  isOfLlama: boolean;
  /** Must be called for a streamed answer. Other answers are over when they are returned. */
  streamed: (over: Promise<void>) => void;
  /** Converts an error to one that a caller may see. */
  explain: (error: unknown) => AppError;
};

type SamplingRequest = {
  temperature: number;
  top_p: number;
  top_k: number;
  min_p: number;
  frequency_penalty: number;
  presence_penalty: number;
  seed?: number | null | undefined;
  logit_bias: Record<string, number>;
};

export function toSampling(request: SamplingRequest, vocabSize: number): Sampling {
  const logitBias = Object.entries(request.logit_bias).map(([token, bias]) => {
    if (Number(token) >= vocabSize)
      throw new AppError(
        "schema",
        `logit_bias: token ${token} does not exist. The model has tokens from 0 to ${vocabSize - 1}`,
        {
          param: `/logit_bias/${token}`,
        },
      );
    return [Number(token), bias] as const;
  });
  return {
    temperature: request.temperature,
    topP: request.top_p,
    topK: Math.max(request.top_k, 0),
    minP: request.min_p,
    frequencyPenalty: request.frequency_penalty,
    presencePenalty: request.presence_penalty,
    ...(typeof request.seed === "number" ? { seed: Number(BigInt.asUintN(32, BigInt(request.seed))) } : {}),
    logitBias,
  };
}

/** Counts the cached tokens of a run. A failed run reports its error where it is read. */
export function countCached(run: Run, tally: Tally): Run {
  run.cachedTokens.then(
    (cached) => {
      tally.cachedTokens += cached;
    },
    () => {},
  );
  return run;
}

/** Call before checking how a sample ended: cancelled samples have used their tokens too. */
export function countTokens(deltas: readonly Delta[], tally: Tally) {
  tally.firstAt ??= performance.now();
  for (const { completionTokens = 0 } of deltas) tally.completionTokens += completionTokens;
}

export const usageOf = ({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Tally): Usage => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
  completion_tokens_details: {
    reasoning_tokens: reasoningTokens,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

/** Returns `length` or `stop`; throws for a cancelled sample. */
export function finishOf(finish: "stop" | "length" | "cancelled", signal: AbortSignal): "stop" | "length" {
  if (finish !== "cancelled") return finish;
  throw signal.aborted
    ? abortReason(signal)
    : new AppError("worker_failed", "The model stopped working on this request. Try again");
}

export const abortReason = (signal: AbortSignal): Error =>
  signal.reason instanceof AppError ? signal.reason : new ClientLeft();
