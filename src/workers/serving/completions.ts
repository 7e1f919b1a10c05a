/** POST /completions. Each prompt is a run of its own; answer i of prompt p has the index p × n + i. */

import type { Completion, CompletionLogprobs, CompletionRequest } from "../../lib/chat/completion.ts";
import type { Texts } from "../../lib/chat/texts.ts";
import { SSE_DONE } from "../../lib/net/sse.ts";
import { finite, type Head } from "./answer.ts";
import type { Delta, Run, TokenLogprob } from "./engine/types.ts";
import { promptTokens, roomFor } from "./prompt.ts";
import {
  countCached,
  countPrompt,
  countTokens,
  type Exchange,
  fingerprintOf,
  finishOf,
  type Served,
  type Tally,
  toSampling,
  usageOf,
} from "./request.ts";
import { streamed } from "./sse.ts";

type Choice = { echoed: string; text: string; offset: number; logprobs: CompletionLogprobs | null; begun: boolean };
type Reason = "stop" | "length";

export async function complete(served: Served, request: CompletionRequest, exchange: Exchange): Promise<Response> {
  const prompts = listOf(request.prompt).map((prompt, i, all) =>
    promptTokens(
      served.engine,
      prompt,
      all.length > 1 || Array.isArray(request.prompt[0]) ? `/prompt/${i}` : "/prompt",
    ),
  );
  countPrompt(
    prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    exchange.tally,
  );
  const generations = prompts.map((prompt) => ({ ...settings(served, request, prompt), prompt }));
  const runs = generations.map((g) => countCached(served.engine.generate(g, exchange.signal), exchange.tally));
  const choices = listOf(request.prompt).flatMap((prompt, i) => {
    const text = typeof prompt === "string" ? prompt : served.engine.detokenize(prompts[i] as Int32Array);
    const echoed = request.echo ? text : "";
    return Array.from({ length: request.n }, () => newChoice(request, echoed));
  });
  const head = {
    id: `cmpl-${exchange.id}`,
    created: Math.floor(Date.now() / 1000),
    model: request.model ?? "",
    system_fingerprint: fingerprintOf(served),
  };
  if (!request.stream) return whole(runs, request, { head, choices, exchange });

  const withUsage = request.stream_options?.include_usage === true;
  return streamed(exchange, async (write) => {
    const event = createEvents(head, withUsage);
    const eventOf = (index: number, delta: Delta) => {
      const choice = choices[index] as Choice;
      const text = choice.begun ? delta.text : choice.echoed + delta.text;
      choice.begun = true;
      const logprobs = delta.logprobs && choice.logprobs ? legacyLogprobs(delta.logprobs, choice) : null;
      const reason = delta.finish ? ended(delta, exchange) : null;
      return text !== "" || logprobs || reason ? event(index, text, logprobs, reason) : "";
    };
    await eachFrame(runs, exchange.tally, (run, deltas) => {
      let events = "";
      for (const delta of deltas) events += eventOf(run * request.n + delta.sample, delta);
      if (events !== "") write(events);
    });
    const usage = withUsage
      ? `data: ${JSON.stringify({ ...headOf(head), choices: [], usage: usageOf(exchange.tally) })}\n\n`
      : "";
    write(usage + SSE_DONE);
  });
}

/** One prompt or many. A list of numbers is one prompt. */
function listOf(prompt: Texts): (string | number[])[] {
  if (typeof prompt === "string") return [prompt];
  return typeof prompt[0] === "number" ? [prompt as number[]] : (prompt as (string | number[])[]);
}

function settings({ engine, adapter }: Served, request: CompletionRequest, prompt: Int32Array) {
  return {
    maxTokens: roomFor(prompt.length, request.max_tokens, engine.facts.contextLength),
    sampling: toSampling(request, engine.facts.vocabSize),
    samples: request.n,
    stop: request.stop,
    ...(typeof request.logprobs === "number" ? { topLogprobs: request.logprobs } : {}),
    ...(adapter === undefined ? {} : { adapter }),
  };
}

function newChoice(request: CompletionRequest, echoed: string): Choice {
  const wanted = typeof request.logprobs === "number";
  const logprobs = wanted ? { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] } : null;
  return { echoed, text: echoed, offset: echoed.length, logprobs, begun: false };
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
  request: CompletionRequest,
  { head, choices, exchange }: { head: Head; choices: Choice[]; exchange: Exchange },
): Promise<Response> {
  const reasons: Reason[] = choices.map(() => "stop");
  await each(runs, request.n, exchange.tally, (index, delta) => {
    const choice = choices[index] as Choice;
    choice.text += delta.text;
    if (delta.logprobs && choice.logprobs) append(choice.logprobs, legacyLogprobs(delta.logprobs, choice));
    if (delta.finish) reasons[index] = ended(delta, exchange);
  });
  const answer: Completion = {
    ...headOf(head),
    choices: choices.map(({ text, logprobs }, index) => ({
      index,
      text,
      logprobs,
      finish_reason: reasons[index] ?? null,
    })),
    usage: usageOf(exchange.tally),
  };
  return Response.json(answer);
}

function createEvents(head: Head, withUsage: boolean) {
  const open = `data: ${JSON.stringify(headOf(head)).slice(0, -1)},"choices":[{"index":`;
  const close = withUsage ? '}],"usage":null}\n\n' : "}]}\n\n";
  return (index: number, text: string, logprobs: CompletionLogprobs | null, reason: Reason | null) =>
    `${open}${index},"text":${JSON.stringify(text)},"logprobs":${logprobs ? JSON.stringify(logprobs) : "null"},"finish_reason":${reason ? `"${reason}"` : "null"}${close}`;
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A piece that is not a whole character is written as its bytes. */
function pieceOf(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}

function legacyLogprobs(tokens: readonly TokenLogprob[], choice: Choice): CompletionLogprobs {
  const out: CompletionLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
  for (const { bytes, logprob, top } of tokens) {
    const piece = pieceOf(bytes);
    out.tokens.push(piece);
    out.token_logprobs.push(finite(logprob));
    out.top_logprobs?.push(Object.fromEntries(top.map((t) => [pieceOf(t.bytes), finite(t.logprob)])));
    out.text_offset.push(choice.offset);
    choice.offset += piece.length;
  }
  return out;
}

function append(to: CompletionLogprobs, more: CompletionLogprobs) {
  to.tokens.push(...more.tokens);
  to.token_logprobs.push(...more.token_logprobs);
  to.top_logprobs?.push(...(more.top_logprobs ?? []));
  to.text_offset.push(...more.text_offset);
}
