/** The context of every request in the worker, and its duties when the request ends. */
import { AppError } from "../../lib/errors.ts";
import { ClientLeft } from "../../lib/net/client_left.ts";
import type { Delta, Engine, Run, Sampling } from "./engine/types.ts";
import { createQuoting, type Quotes } from "./prompt.ts";
import { type ChatTemplate, createChatTemplate } from "./template.ts";

/** One loaded model. */
export type Served = {
  engine: Engine;
  /** The adapter that the request uses, by the name it was attached with. */
  adapter: string | undefined;
  template: ChatTemplate;
  newQuotes: () => Quotes;
};

export const toServed = (engine: Engine): Served => ({
  engine,
  adapter: undefined,
  template: createChatTemplate(engine.facts),
  newQuotes: createQuoting(engine),
});

/** Counted while a request runs, reported when it is over. */
export type Tally = {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Times of `performance.now()`: the request came, its prompt was tokens, its first tokens came. */
  readonly begunAt: number;
  preparedAt?: number;
  firstAt?: number;
};

export const newTally = (): Tally => ({
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
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

export type Exchange = {
  /** The end of an answer's id: `chatcmpl-…`. */
  id: string;
  /** Aborts when the client leaves or the worker stops. */
  signal: AbortSignal;
  tally: Tally;
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

export const usageOf = ({ promptTokens, cachedTokens, completionTokens }: Tally) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
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
