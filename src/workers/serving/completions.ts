/** POST /completions. Each prompt is a run of its own; answer i of prompt p has the index p × n + i. */

import {
  type Completion,
  type CompletionLogprobs,
  type CompletionRequest,
  completionLimit,
} from "../../lib/chat/completion.ts";
import type { Timings } from "../../lib/chat/sampling.ts";
import type { Texts } from "../../lib/chat/texts.ts";
import { AppError } from "../../lib/errors.ts";
import { SSE_DONE } from "../../lib/net/sse.ts";
import type { Head } from "./answer.ts";
import type { Delta, Engine, Generation, Run } from "./engine/types.ts";
import { promptTokens, roomFor } from "./prompt.ts";
import {
  countCached,
  countPrompt,
  countTokens,
  type Exchange,
  fingerprintOf,
  finishOf,
  type Served,
  startRun,
  type Tally,
  timingsShown,
  toSampling,
  usageOf,
} from "./request.ts";
import { streamed } from "./sse.ts";
import { append, legacyLogprobs, noLogprobs, promptLogprobs } from "./tokens/logprobs.ts";
import { givenGrammar } from "./tools.ts";

type Choice = {
  echoed: string;
  text: string;
  offset: number;
  logprobs: CompletionLogprobs | null;
  begun: boolean;
  /** The sum over its tokens, for best_of. */
  logprob: number;
  tokens: number;
  /** Undefined: the client does not ask for them. */
  prompt: Int32Array | undefined;
  ids: number[] | undefined;
  reason: Reason | null;
};
type Reason = "stop" | "length";

export async function complete(served: Served, request: CompletionRequest, exchange: Exchange): Promise<Response> {
  const { engine } = served;
  const { tally } = exchange;
  const sources = listOf(request.prompt);
  const prompts = sources.map((prompt, i) => {
    const at = sources.length > 1 || Array.isArray(request.prompt[0]) ? `/prompt/${i}` : "/prompt";
    return request.suffix ? infillTokens(engine, prompt, request.suffix, at) : promptTokens(engine, prompt, at);
  });
  const { grammar, grammarOf } = givenGrammar(request);
  const common = grammar === undefined ? {} : { grammar };
  const generations = prompts.map((prompt) => ({ ...settings(served, request, prompt), ...common }));
  countPrompt(
    prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    tally,
  );
  const samples = generations[0]?.samples ?? 1;
  const choices = sources.flatMap((prompt, i) => {
    const text = typeof prompt === "string" ? prompt : engine.detokenize(prompts[i] as Int32Array);
    const echoed = request.echo ? text : "";
    return Array.from({ length: samples }, () => newChoice(request, echoed, prompts[i] as Int32Array));
  });
  if (request.echo && typeof request.logprobs === "number")
    await scorePrompts(served, prompts, choices, { alternatives: request.logprobs, samples, exchange });
  const runs = generations.map((g) => countCached(startRun(served, g, grammarOf, exchange.signal), tally));
  const head = {
    id: `cmpl-${exchange.id}`,
    created: Math.floor(Date.now() / 1000),
    model: request.model ?? "",
    system_fingerprint: fingerprintOf(served),
  };
  if (!request.stream) return whole(runs, { request, samples }, { head, choices, exchange });

  const withUsage = request.stream_options?.include_usage === true;
  return streamed(exchange, async (write) => {
    const event = createEvents(head, withUsage);
    const eventOf = (index: number, delta: Delta) => {
      const choice = choices[index] as Choice;
      const text = choice.begun ? delta.text : choice.echoed + delta.text;
      const before = choice.begun ? null : choice.logprobs;
      const ids = choice.begun ? idsOf(undefined, delta.tokens) : idsOf(choice.prompt, delta.tokens);
      choice.begun = true;
      const fresh = delta.logprobs && choice.logprobs ? legacyLogprobs(delta.logprobs, choice) : null;
      const logprobs = before?.tokens.length ? append(before, fresh ?? noLogprobs()) : fresh;
      const reason = delta.finish ? ended(delta, exchange) : null;
      const timings = reason || request.timings_per_token ? timingsShown(tally) : undefined;
      const isShown = text !== "" || logprobs || reason || Object.keys(ids).length > 0;
      return isShown ? event(index, text, { logprobs, reason, timings, ids }) : "";
    };
    await eachFrame(runs, tally, (run, deltas) => {
      let events = "";
      for (const delta of deltas) events += eventOf(run * samples + delta.sample, delta);
      if (events !== "") write(events);
    });
    const usage = withUsage
      ? `data: ${JSON.stringify({ ...headOf(head), choices: [], usage: usageOf(tally), timings: timingsShown(tally) })}\n\n`
      : "";
    write(usage + SSE_DONE);
  });
}

type Scoring = { alternatives: number; samples: number; exchange: Exchange };

/** Puts the log-probabilities of each prompt before those of its answers. */
async function scorePrompts(
  served: Served,
  prompts: readonly Int32Array[],
  choices: readonly Choice[],
  { samples, ...how }: Scoring,
) {
  for (const [i, prompt] of prompts.entries()) {
    const scored = await promptLogprobs(served, prompt, how);
    for (const choice of choices.slice(i * samples, (i + 1) * samples))
      if (choice.logprobs) append(choice.logprobs, scored);
  }
}

/** One prompt or many. A list of numbers is one prompt. */
function listOf(prompt: Texts): (string | number[])[] {
  if (typeof prompt === "string") return [prompt];
  return typeof prompt[0] === "number" ? [prompt as number[]] : (prompt as (string | number[])[]);
}

function settings({ engine, adapter, rank }: Served, request: CompletionRequest, prompt: Int32Array): Generation {
  const { n, best_of: best, logprobs, n_probs: probabilities } = request;
  const samples = best ?? n;
  const alternatives = logprobs ?? (probabilities || (samples > n ? 0 : undefined));
  return {
    prompt,
    maxTokens: roomFor(prompt.length, completionLimit(request), engine.facts.contextLength),
    sampling: toSampling(request, engine.facts.vocabSize),
    samples,
    stop: request.stop,
    ignoreEos: request.ignore_eos,
    fresh: !request.cache_prompt,
    rank,
    wantTokens: request.return_token_ids,
    ...(alternatives === undefined ? {} : { topLogprobs: alternatives }),
    ...(adapter === undefined ? {} : { adapter }),
  };
}

/** The fields of a choice about its tokens. */
const idsOf = (prompt: Int32Array | undefined, drawn: ArrayLike<number> | undefined) => ({
  ...(prompt === undefined ? {} : { prompt_token_ids: [...prompt] }),
  ...(drawn === undefined ? {} : { token_ids: Array.from(drawn) }),
});

function newChoice(request: CompletionRequest, echoed: string, prompt: Int32Array): Choice {
  const wanted = typeof request.logprobs === "number" || Boolean(request.n_probs);
  const logprobs = wanted ? noLogprobs() : null;
  const ids = request.return_token_ids ? { prompt, ids: [] } : { prompt: undefined, ids: undefined };
  const state = { begun: false, logprob: 0, tokens: 0, reason: null, ...ids };
  return { echoed, text: echoed, offset: echoed.length, logprobs, ...state };
}

/** The likeliest first, by the mean of their tokens, as many as `n`. */
function best(choices: readonly Choice[], n: number): readonly Choice[] {
  if (choices.length <= n) return choices;
  const mean = ({ logprob, tokens }: Choice) => (tokens === 0 ? Number.NEGATIVE_INFINITY : logprob / tokens);
  return choices.toSorted((a, b) => mean(b) - mean(a)).slice(0, n);
}

type OnDelta = (index: number, delta: Delta) => void;

const each = (runs: readonly Run[], samples: number, tally: Tally, onDelta: OnDelta) =>
  eachFrame(runs, tally, (run, deltas) => {
    for (const delta of deltas) onDelta(run * samples + delta.sample, delta);
  });

async function eachFrame(
  runs: readonly Run[],
  tally: Tally,
  onDeltas: (run: number, deltas: readonly Delta[]) => void,
) {
  await Promise.all(
    runs.map(async (run, i) => {
      for await (const deltas of run) {
        countTokens(deltas, tally);
        onDeltas(i, deltas);
      }
    }),
  );
}

const ended = (delta: Delta, { signal }: Exchange): Reason => finishOf(delta.finish ?? "stop", signal);

const headOf = ({ id, ...rest }: Head) => ({ id, object: "text_completion" as const, ...rest });

async function whole(
  runs: readonly Run[],
  { request, samples }: { request: CompletionRequest; samples: number },
  { head, choices, exchange }: { head: Head; choices: Choice[]; exchange: Exchange },
): Promise<Response> {
  await each(runs, samples, exchange.tally, (index, delta) => {
    const choice = choices[index] as Choice;
    choice.text += delta.text;
    for (const { logprob } of delta.logprobs ?? []) {
      choice.logprob += logprob;
      choice.tokens++;
    }
    if (delta.logprobs && choice.logprobs) append(choice.logprobs, legacyLogprobs(delta.logprobs, choice));
    if (delta.tokens) choice.ids?.push(...delta.tokens);
    if (delta.finish) choice.reason = ended(delta, exchange);
  });
  const shown = runs.flatMap((_, i) => best(choices.slice(i * samples, (i + 1) * samples), request.n));
  const answer: Completion = {
    ...headOf(head),
    choices: shown.map(({ text, logprobs, reason, prompt, ids }, index) => {
      return { index, text, logprobs, finish_reason: reason, ...idsOf(prompt, ids) };
    }),
    usage: usageOf(exchange.tally),
    timings: timingsShown(exchange.tally),
  };
  return Response.json(answer);
}

type Shown = { logprobs: CompletionLogprobs | null; reason: Reason | null; timings: Timings | undefined; ids: object };

function createEvents(head: Head, withUsage: boolean) {
  const open = `data: ${JSON.stringify(headOf(head)).slice(0, -1)},"choices":[{"index":`;
  const close = withUsage ? ',"usage":null}\n\n' : "}\n\n";
  return (index: number, text: string, { logprobs, reason, timings, ids }: Shown) =>
    `${open}${index},"text":${JSON.stringify(text)},"logprobs":${logprobs ? JSON.stringify(logprobs) : "null"},"finish_reason":${reason ? `"${reason}"` : "null"}${Object.keys(ids).length > 0 ? `,${JSON.stringify(ids).slice(1, -1)}` : ""}}]${timings ? `,"timings":${JSON.stringify(timings)}` : ""}${close}`;
}

type Tokenizer = Pick<Engine, "tokenize" | "facts">;

/** A prompt that fills a gap between two texts, for models that were trained with tokens for it. */
function infillTokens(engine: Tokenizer, prefix: string | readonly number[], suffix: string, at: string): Int32Array {
  const { gap, addsBos } = engine.facts;
  if (!gap)
    throw new AppError("schema", "suffix: this model has no tokens to fill a gap with. Remove the field", {
      param: "/suffix",
    });
  const plain = { addBos: false, special: false };
  const before = typeof prefix === "string" ? engine.tokenize(prefix, plain) : promptTokens(engine, prefix, at);
  const bos = addsBos ? engine.tokenize("", { addBos: true, special: false }) : [];
  return Int32Array.from([...bos, gap.prefix, ...before, gap.suffix, ...engine.tokenize(suffix, plain), gap.middle]);
}
