/** The turns of a chat as one stream: texts as they come, calls that the client must make at the end. */
import type { Ctx } from "../../../../context.ts";
import { openaiEnvelope } from "../../../../http/answer/client_errors.ts";
import type { ChatCompletion, ChatCompletionChunk } from "../../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../../lib/errors.ts";
import { encodeSse, SSE_DONE, SSE_HEADERS, sseData } from "../../../../lib/net/sse.ts";
import { createCollector } from "../../../other_apis/completions/collect.ts";
import { translated } from "../../../other_apis/translated.ts";
import type { Conversation } from "./conversation.ts";
import type { ExecutedTool } from "./toolbox.ts";

const SILENCE_MS = 10_000;
const PING = encodeSse({ comment: "waiting" });
const encoder = new TextEncoder();

type Options = { includesUsage: boolean; end: () => Promise<void> };
type Head = Pick<ChatCompletionChunk, "id" | "created" | "model" | "system_fingerprint" | "object">;

/** `first`: the streamed answer of the first turn. `end` is called once, also after a client that leaves. */
export function streamTurns(ctx: Ctx, conversation: Conversation, first: Response, options: Options): Response {
  const source = turns(ctx, conversation, first, options);
  let isLeft = false;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await source.next();
      if (isLeft) return;
      if (next.done) controller.close();
      else controller.enqueue(typeof next.value === "string" ? encoder.encode(next.value) : next.value);
    },
    async cancel() {
      isLeft = true;
      const ended = options.end(); // ends a call that the generator waits for
      await source.return(undefined).catch(() => {}); // its failure has no reader
      await ended;
    },
  });
  const trace = first.headers.get("x-trace-id");
  return new Response(body, { headers: { ...SSE_HEADERS, ...(trace === null ? {} : { "x-trace-id": trace }) } });
}

async function* turns(
  ctx: Ctx,
  conversation: Conversation,
  first: Response,
  { includesUsage, end }: Options,
): AsyncGenerator<string | Uint8Array> {
  let head: Head | undefined;
  try {
    if (conversation.executed.length > 0) yield* executedSoon(conversation.executed);
    for (let response = first; ; ) {
      const turn = readTurn(head);
      const passed = await translated(response, turn.translator);
      yield* { [Symbol.asyncIterator]: () => (passed.body as ReadableStream<Uint8Array>).values() };
      const completion = turn.collector.whole();
      if (turn.hasFailed() || !completion) return;
      head ??= turn.head();
      const before = conversation.executed.length;
      const answering = conversation.answerCalls(completion);
      yield* pingsUntil(ctx, answering);
      if (!(await answering)) {
        for (const chunk of turn.last()) yield data(head, chunk);
        if (includesUsage) yield data(head, { choices: [], usage: conversation.usage });
        return yield SSE_DONE;
      }
      yield data(head, { choices: [choiceOf({ executed_tools: conversation.executed.slice(before) })] });
      const asking = conversation.ask();
      yield* pingsUntil(ctx, asking);
      response = await asking;
      if (response.status >= 400) return yield sseData(await response.text());
    }
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    yield sseData(JSON.stringify(openaiEnvelope(error)));
  } finally {
    await end();
  }

  /** Calls that the client has approved come before the first text. */
  function* executedSoon(executed: readonly ExecutedTool[]): Generator<string> {
    const blank = {
      id: "chatcmpl-tools",
      created: Math.floor(ctx.clock.now() / 1000),
      model: "",
      system_fingerprint: "",
    };
    const { model } = conversation.options.body;
    head = { ...blank, model: model ?? "", object: "chat.completion.chunk" } as Head;
    yield data(head, { choices: [choiceOf({ role: "assistant", executed_tools: [...executed] })] });
  }
}

type Delta = ChatCompletionChunk["choices"][number]["delta"];
const choiceOf = (delta: Delta) => ({ index: 0, delta, logprobs: null, finish_reason: null });
const data = (head: Head | undefined, chunk: object) => sseData(JSON.stringify({ ...head, ...chunk }));

/** Passes the texts of a turn, and keeps its calls and its end. `head`: of the first turn, which all chunks then have. */
function readTurn(head: Head | undefined) {
  const collector = createCollector();
  const calls: ChatCompletionChunk["choices"] = [];
  let end: ChatCompletionChunk | undefined;
  let own: Head | undefined;
  let failed = false;
  const isFirst = head === undefined;
  return {
    collector,
    hasFailed: () => failed,
    head: () => own,
    /** The calls for the client, and the end. */
    last: (): object[] => [
      ...calls.map((choice) => ({ choices: [{ ...choice, finish_reason: null }] })),
      ...(end ? [{ ...end, ...head, usage: undefined, choices: end.choices.map(endOf) }] : []),
    ],
    translator: {
      whole: (answer: ChatCompletion) => answer,
      chunk(chunk: ChatCompletionChunk): string {
        collector.add(chunk);
        const { id, created, model, system_fingerprint, object } = chunk;
        own ??= { id, created, model, system_fingerprint, object };
        const [choice] = chunk.choices;
        if (!choice) return "";
        const { tool_calls: called, role, ...text } = choice.delta;
        if (called) calls.push({ ...choice, delta: { tool_calls: called } });
        if (choice.finish_reason) end = chunk;
        const delta = { ...(isFirst && role ? { role } : {}), ...text };
        const isEmpty = Object.values(delta).every((value) => value === undefined || value === null || value === "");
        if (choice.finish_reason || (isEmpty && !("role" in delta))) return "";
        return data(head ?? own, { choices: [{ ...choice, delta }] });
      },
      end: () => "",
      error(_message: string, _code: string | undefined, sent?: object): string {
        failed = true;
        return sseData(JSON.stringify(sent));
      },
    },
  };
}

const endOf = (choice: ChatCompletionChunk["choices"][number]) => {
  const { tool_calls: _, role: __, ...delta } = choice.delta;
  return { ...choice, delta };
};

/** A comment from time to time, so that no proxy cuts the connection while a tool works. */
async function* pingsUntil({ clock }: Ctx, work: Promise<unknown>): AsyncGenerator<string> {
  const settled = work.then(
    () => true,
    () => true,
  );
  for (;;) {
    const pause = new AbortController();
    const isDone = await Promise.race([settled, clock.sleep(SILENCE_MS, pause.signal).then(() => false)]);
    pause.abort();
    if (isDone) return;
    yield PING;
  }
}
