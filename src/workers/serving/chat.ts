/** POST /chat/completions. */

import type { ChatCompletionRequest, FinishReason } from "../../lib/chat/chat_completion.ts";
import { AppError } from "../../lib/errors.ts";
import { SSE_DONE } from "../../lib/net/sse.ts";
import { type ChatChoice, chatCompletion, createChunkWriter, newToolCall, type ToolCallOut } from "./answer.ts";
import type { CallParser, Parsed } from "./call_parsers.ts";
import { BadGrammar, type Delta, type Generation, type Run } from "./engine/types.ts";
import { roomFor } from "./prompt.ts";
import {
  countCached,
  countPrompt,
  countTokens,
  type Exchange,
  finishOf,
  type Served,
  toSampling,
  usageOf,
} from "./request.ts";
import { streamed } from "./sse.ts";
import { type Plan, planAnswer } from "./tools.ts";

export async function chat(served: Served, request: ChatCompletionRequest, exchange: Exchange): Promise<Response> {
  const plan = planAnswer(request, served.template.format);
  const generation = toGeneration(served, request, plan);
  countPrompt(generation.prompt.length, exchange.tally);
  const run = countCached(start(served, generation, plan, exchange), exchange.tally);
  const head = { id: `chatcmpl-${exchange.id}`, created: Math.floor(Date.now() / 1000), model: request.model ?? "" };
  const choices = Array.from({ length: request.n }, () => newChoice(request, plan));
  if (!request.stream) {
    for await (const deltas of run) {
      countTokens(deltas, exchange.tally);
      for (const delta of deltas) read(choices, delta, exchange);
    }
    return Response.json(chatCompletion(head, choices, usageOf(exchange.tally)));
  }
  const withUsage = request.stream_options?.include_usage === true;
  const chunks = createChunkWriter(head, request.n, withUsage);
  return streamed(exchange, async (write) => {
    await relay(run, choices, { chunks, write, exchange });
    write((withUsage ? chunks.usage(usageOf(exchange.tally)) : "") + SSE_DONE);
  });
}

function start({ engine }: Served, generation: Generation, plan: Plan, { signal }: Exchange): Run {
  try {
    return engine.generate(generation, signal);
  } catch (cause) {
    if (!(cause instanceof BadGrammar)) throw cause;
    const message = `The schema in ${plan.grammarOf.slice(1)} cannot be turned into a grammar: ${cause.message}`;
    throw new AppError("schema", message, { param: plan.grammarOf, cause });
  }
}

function toGeneration(served: Served, request: ChatCompletionRequest, plan: Plan): Generation {
  const { engine, template, adapter } = served;
  const { quote, tokenize } = served.newQuotes();
  const text = template.render({
    messages: request.messages,
    tools: plan.shown,
    variables: request.chat_template_kwargs ?? {},
    quote,
  });
  const prompt = tokenize(text + plan.opening);
  const requested = request.max_completion_tokens ?? request.max_tokens;
  return {
    prompt,
    maxTokens: roomFor(prompt.length, requested, engine.facts.contextLength),
    sampling: toSampling(request, engine.facts.vocabSize),
    samples: request.n,
    stop: [...request.stop, ...plan.stop, ...template.stop],
    ...(request.logprobs ? { topLogprobs: request.top_logprobs ?? 0 } : {}),
    ...(plan.grammar === undefined ? {} : { grammar: plan.grammar }),
    ...(adapter === undefined ? {} : { adapter }),
  };
}

type Choice = ChatChoice & { parser: CallParser | undefined; single: boolean; begun: boolean };

function newChoice(request: ChatCompletionRequest, plan: Plan): Choice {
  return {
    content: "",
    calls: [],
    logprobs: request.logprobs ? [] : undefined,
    finish: "stop",
    parser: plan.newParser?.(),
    single: !request.parallel_tool_calls,
    begun: false,
  };
}

/** Adds the new calls to this choice and gives them ids. */
function addCalls(choice: Choice, { calls }: Parsed): ToolCallOut[] {
  const fresh = calls.slice(0, choice.single ? Math.max(1 - choice.calls.length, 0) : undefined).map(newToolCall);
  choice.calls.push(...fresh);
  return fresh;
}

function finishReason(choice: Choice, delta: Delta, exchange: Exchange): FinishReason {
  const reason = finishOf(delta.finish ?? "stop", exchange.signal);
  return choice.calls.length > 0 ? "tool_calls" : reason;
}

function read(choices: readonly Choice[], delta: Delta, exchange: Exchange) {
  const choice = choices[delta.sample] as Choice;
  if (delta.logprobs) choice.logprobs?.push(...delta.logprobs);
  if (choice.parser) {
    for (const parsed of delta.finish
      ? [choice.parser.push(delta.text), choice.parser.end()]
      : [choice.parser.push(delta.text)]) {
      choice.content += parsed.content;
      addCalls(choice, parsed);
    }
  } else choice.content += delta.text;
  if (delta.finish) choice.finish = finishReason(choice, delta, exchange);
}

type Relay = {
  chunks: ReturnType<typeof createChunkWriter>;
  write: (events: string) => void;
  exchange: Exchange;
};

async function relay(run: Run, choices: readonly Choice[], { chunks, write, exchange }: Relay) {
  for await (const deltas of run) {
    countTokens(deltas, exchange.tally);
    let events = "";
    for (const delta of deltas) {
      const index = delta.sample;
      const choice = choices[index] as Choice;
      if (!choice.begun) {
        choice.begun = true;
        events += chunks.role(index);
      }
      if (!choice.parser) {
        if (delta.text !== "" || delta.logprobs?.length) events += chunks.content(index, delta.text, delta.logprobs);
      } else events += parsedEvents(choice, delta, chunks);
      if (delta.finish) events += chunks.finish(index, finishReason(choice, delta, exchange));
    }
    if (events !== "") write(events);
  }
}

function parsedEvents(choice: Choice, delta: Delta, chunks: Relay["chunks"]): string {
  const index = delta.sample;
  const parser = choice.parser as CallParser;
  let logprobs = delta.logprobs;
  let events = "";
  for (const parsed of delta.finish ? [parser.push(delta.text), parser.end()] : [parser.push(delta.text)]) {
    if (parsed.content !== "" || logprobs?.length) events += chunks.content(index, parsed.content, logprobs);
    logprobs = undefined;
    for (const call of addCalls(choice, parsed)) events += chunks.call(index, choice.calls.indexOf(call), call);
  }
  return events;
}
