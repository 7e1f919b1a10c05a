/** POST /chat/completions. */

import { continuesLast } from "../../lib/chat/chat_checks.ts";
import type { ChatCompletionRequest } from "../../lib/chat/chat_completion.ts";
import { tokenLimit } from "../../lib/chat/sampling.ts";
import type { TokenPrefix } from "../../lib/chat/tokens.ts";
import { type PlainTools, plainTools } from "../../lib/chat/tools.ts";
import { SSE_DONE } from "../../lib/net/sse.ts";
import { type ChunkWriter, chatCompletion, createChunkWriter, type ToolCallOut } from "./answer.ts";
import { bridge } from "./bridge.ts";
import type { Delta, Generation, Run } from "./engine/types.ts";
import { type Choice, newChoice, readDelta } from "./parts/choice.ts";
import { thoughtState, thoughtTags } from "./parts/thoughts.ts";
import { joined, type Quotes, roomFor } from "./prompt.ts";
import {
  countCached,
  countPrompt,
  countTokens,
  type Exchange,
  fingerprintOf,
  type Served,
  startRun,
  type Tally,
  timingsShown,
  toSampling,
  usageOf,
} from "./request.ts";
import { streamed } from "./sse.ts";
import type { Conversation } from "./template.ts";
import { planAnswer, shownTools } from "./tools.ts";
import { takePictures, withPictures } from "./vision/prompt.ts";

export async function chat(served: Served, input: ChatCompletionRequest, exchange: Exchange): Promise<Response> {
  const request = withTools(input);
  const { text, plan, thoughts, generation } = await toGeneration(served, request, exchange);
  exchange.signal.throwIfAborted();
  const { tally } = exchange;
  countPrompt(generation.prompt.length, tally);
  const { drawn } = exchange;
  if (drawn) Object.assign(drawn, { prompt: generation.prompt, weights: fingerprintOf(served) });
  const run = countCached(startRun(served, generation, plan.grammarOf, exchange.signal), tally);
  const head = {
    id: `chatcmpl-${exchange.id}`,
    created: Math.floor(Date.now() / 1000),
    model: request.model ?? "",
    system_fingerprint: fingerprintOf(served),
  };
  const promptTokens = request.return_token_ids ? [...generation.prompt] : undefined;
  const choices = Array.from({ length: request.n }, () => newChoice(request, plan, thoughts));
  if (!request.stream) {
    for await (const deltas of run) {
      countTokens(deltas, tally);
      for (const delta of deltas) {
        const choice = choices[delta.sample] as Choice;
        readDelta(choice, shownOf(choice, delta, exchange), exchange);
      }
    }
    countThoughts(served, choices, tally);
    const figures = { usage: usageOf(tally), timings: timingsShown(tally) };
    const shown = request.verbose ? { ...figures, prompt: text } : figures;
    return Response.json(
      chatCompletion(head, choices, { ...shown, ...(promptTokens === undefined ? {} : { promptTokens }) }),
    );
  }
  const withUsage = request.stream_options?.include_usage === true;
  const timings = () => timingsShown(tally);
  const chunks = createChunkWriter(head, {
    samples: request.n,
    withUsage,
    timings,
    each: request.timings_per_token,
    opening: exchange.isOfLlama ? null : "",
    promptTokens,
  });
  return streamed(exchange, async (write) => {
    const begun = { chunks, write, exchange };
    if (request.return_progress) await relayProgress(run, begun);
    await relay(run, choices, { ...begun, progress: request.return_progress });
    countThoughts(served, choices, tally);
    write((withUsage ? chunks.usage(usageOf(tally)) : "") + SSE_DONE);
  });
}

/** A request whose tools are all functions. */
export type PlainRequest = Omit<ChatCompletionRequest, keyof PlainTools> & PlainTools & { prefix?: TokenPrefix };

/** `functions` of the older format become tools. The answer has the older format too. */
function withTools(request: ChatCompletionRequest): PlainRequest {
  const { functions, function_call: choice } = request;
  if (!functions?.length) return { ...request, ...plainTools(request.tools, request.tool_choice) };
  return {
    ...request,
    custom: new Set(),
    tools: functions.map((each) => ({ type: "function", function: each })),
    tool_choice: typeof choice === "object" && choice ? { type: "function", function: choice } : (choice ?? "auto"),
    parallel_tool_calls: false,
  };
}

type Continuing = { conversation: Conversation; tokenize: Quotes["tokenize"]; opening: string };

/** The exact tokens of the prefix, and those of what follows it. Undefined: the template does not go on from them. */
function goOn({ engine, template }: Served, prefix: TokenPrefix, { conversation, tokenize, opening }: Continuing) {
  const bytes = Buffer.from(prefix.tokens, "base64");
  const tokens = new Int32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const { messages, has_end: hasEnd, stop } = prefix;
  const rest = bridge(
    conversation,
    { messages, stop, endToken: hasEnd ? (tokens.at(-1) ?? null) : null },
    {
      render: (each) => `${template.render(each)}${opening}`,
      tokenize: (text) => (text === "" ? new Int32Array() : tokenize(text, true)),
      endText: engine.facts.eosToken,
    },
  );
  return rest && joined([tokens, rest]);
}

/** Variables of the template that follow from other fields. */
function variablesOf({ reasoning_effort: effort, chat_template_kwargs: variables }: ChatCompletionRequest) {
  if (!effort) return variables ?? {};
  return { reasoning_effort: effort, enable_thinking: effort !== "none", ...variables };
}

/** The prompt of a chat request: its text, and its tokens. */
export async function renderPrompt(served: Served, input: ChatCompletionRequest, signal: AbortSignal) {
  return await promptOf(served, withTools(input), signal);
}

async function promptOf(served: Served, request: PlainRequest, signal: AbortSignal) {
  const { quote, tokenize } = served.newQuotes();
  const { messages, pictures } = takePictures(request.messages, served.vision !== null);
  const variables = variablesOf(request);
  const conversation = {
    messages,
    tools: shownTools(request),
    variables,
    quote,
    ...(continuesLast(request) ? { continues: true } : { open: request.add_generation_prompt !== false }),
  };
  const rendered = served.template.render(conversation);
  const tags = thoughtTags(served.engine.facts.chatTemplate);
  const thoughts = tags && { tags, state: thoughtState(rendered, tags) };
  const plan = planAnswer(request, served.template.format, thoughts);
  const text = rendered + plan.opening;
  if (pictures.length === 0) {
    const continued = request.prefix && goOn(served, request.prefix, { conversation, tokenize, opening: plan.opening });
    return { text, plan, thoughts, prompt: continued ?? tokenize(text), images: [] };
  }
  return { plan, thoughts, ...(await withPictures(served, text, { pictures, tokenize, signal })) };
}

async function toGeneration(served: Served, request: PlainRequest, { signal, drawn }: Exchange) {
  const { engine, template, adapter, rank } = served;
  const { text, plan, thoughts, prompt, images } = await promptOf(served, request, signal);
  const limit = tokenLimit(request.max_completion_tokens, request.max_tokens, request.n_predict);
  const shown = request.logprobs ? (request.top_logprobs ?? 0) : request.n_probs || undefined;
  const alternatives = shown ?? (drawn ? 0 : undefined);
  const generation: Generation = {
    prompt,
    images,
    maxTokens: roomFor(prompt.length, limit, engine.facts.contextLength),
    sampling: toSampling(request, engine.facts.vocabSize),
    samples: request.n,
    stop: [...request.stop, ...plan.stop, ...template.stop],
    ignoreEos: request.ignore_eos,
    fresh: !request.cache_prompt,
    rank,
    wantTokens: request.return_token_ids || drawn !== undefined,
    ...(alternatives === undefined ? {} : { topLogprobs: alternatives }),
    ...(plan.grammar === undefined ? {} : { grammar: plan.grammar }),
    ...(adapter === undefined ? {} : { adapter }),
  };
  return { text, plan, thoughts, generation };
}

/** Deltas do not say how many tokens a thought has, so its text is split into tokens again. */
function countThoughts({ engine }: Served, choices: readonly Choice[], tally: Tally) {
  for (const { thoughts, apart } of choices)
    if (apart && thoughts !== "")
      tally.reasoningTokens += engine.tokenize(thoughts, { addBos: false, special: false }).length;
  tally.reasoningTokens = Math.min(tally.reasoningTokens, tally.completionTokens);
}

type Relay = { chunks: ChunkWriter; write: (events: string) => void; exchange: Exchange };

/** The engine reports when it has a slot for the prompt. The next report is the first token. */
async function relayProgress(run: Run, { chunks, write, exchange: { tally } }: Relay) {
  const cache = await run.cachedTokens;
  write(chunks.progress(0, { total: tally.promptTokens, cache, processed: cache, time_ms: 0 }));
}

async function relay(
  run: Run,
  choices: readonly Choice[],
  { chunks, write, exchange, progress }: Relay & { progress: boolean },
) {
  const { tally } = exchange;
  let isRead = !progress;
  for await (const deltas of run) {
    countTokens(deltas, tally);
    let events = "";
    if (!isRead) {
      isRead = true;
      const { promptTokens: total, cachedTokens: cache } = tally;
      events += chunks.progress(0, { total, cache, processed: total, time_ms: timingsShown(tally).prompt_ms });
    }
    for (const each of deltas) {
      const index = each.sample;
      const choice = choices[index] as Choice;
      const delta = shownOf(choice, each, exchange);
      if (!choice.begun) {
        choice.begun = true;
        events += chunks.role(index);
      }
      if (choice.tokens && delta.tokens?.length) chunks.bring(index, delta.tokens);
      const plain = !choice.parser && !choice.splitter;
      if (!plain) events += partEvents(choice, readDelta(choice, delta, exchange), { index, chunks });
      else if (delta.text !== "" || delta.logprobs?.length) events += chunks.content(index, delta.text, delta.logprobs);
      if (plain && delta.finish) readDelta(choice, delta, exchange);
      events += chunks.rest(index);
      if (delta.finish)
        events += heldCall(choice, { index, chunks }) + chunks.finish(index, choice.finish, choice.stop);
    }
    if (events !== "") write(events);
  }
}

/** The part of a delta that the client asks for. A rollout records all of it. */
const shownOf = ({ logprobs, tokens }: Choice, delta: Delta, { drawn }: Exchange): Delta =>
  drawn ? drawn.take(delta, { logprobs: logprobs !== undefined, tokens: tokens !== undefined }) : delta;

type At = { index: number; chunks: ChunkWriter };

function partEvents(choice: Choice, parts: ReturnType<typeof readDelta>, { index, chunks }: At): string {
  let events = "";
  for (const { thoughts, content, calls, logprobs } of parts) {
    if (thoughts !== "") events += chunks.thoughts(index, thoughts);
    if (content !== "" || logprobs?.length) events += chunks.content(index, content, logprobs);
    for (const { at, call, piece } of calls) {
      if (call) events += heldCall(choice, { index, chunks });
      if (choice.custom.has(choice.calls[at]?.function.name ?? "")) choice.held = at;
      else events += call ? chunks.call(index, at, call, choice.legacy) : chunks.piece(index, at, piece, choice.legacy);
    }
  }
  return events;
}

/** The call of a custom tool that is complete and not yet sent. */
function heldCall(choice: Choice, { index, chunks }: At): string {
  const { held } = choice;
  choice.held = undefined;
  return held === undefined ? "" : chunks.custom(index, held, choice.calls[held] as ToolCallOut);
}
