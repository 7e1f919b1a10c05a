/** One streamed answer of a deployment. */
import type { ChatCompletionChunk, ToolCallDelta } from "../../../lib/chat/chat_completion.ts";
import type { Timings, Usage } from "../../../lib/chat/sampling.ts";
import { ApiError, send } from "../../data/api.ts";
import { sseParser } from "../../data/follow.ts";
import type { Token } from "./tokens.ts";

export type Answer = {
  state: "waiting" | "streaming" | "done" | "stopped" | "failed";
  /** While the deployment wakes: its stage. */
  note: string;
  text: string;
  tokens: Token[];
  calls: { name: string; text: string }[];
  /** The answer's own words about what answered. */
  model: string;
  fingerprint: string | null;
  usage: Usage | undefined;
  timings: Timings | undefined;
  finish: string | null;
  error: string;
  firstMs: number | undefined;
  lastMs: number;
};

const EMPTY: Answer = {
  state: "waiting",
  note: "",
  text: "",
  tokens: [],
  calls: [],
  model: "",
  fingerprint: null,
  usage: undefined,
  timings: undefined,
  finish: null,
  error: "",
  firstMs: undefined,
  lastMs: 0,
};

/** Below this many tokens a speed says more about the first token than about the model. */
const LEAST_TOKENS = 20;

/** Tokens per second after the first one, as the server measured them. Undefined: too few, or the answer failed. */
export function speedOf({ state, timings }: Pick<Answer, "state" | "timings">): number | undefined {
  if (state !== "done" || !timings || timings.predicted_n < LEAST_TOKENS || timings.predicted_ms <= 0) return undefined;
  return timings.predicted_per_second;
}

/** `onChange` gets a new answer at most once a frame, and at the end. */
export async function ask(
  deployment: string,
  body: object,
  { signal, onChange }: { signal: AbortSignal; onChange: (answer: Answer) => void },
): Promise<void> {
  const begunAt = performance.now();
  let answer: Answer = { ...EMPTY };
  let frame: number | undefined;
  const flush = () => {
    frame = undefined;
    onChange(answer);
  };
  const change = (patch: Partial<Answer>) => {
    answer = { ...answer, ...patch };
    frame ??= requestAnimationFrame(flush);
  };
  change({});
  try {
    const path = `/v1/deployments/${encodeURIComponent(deployment)}/chat/completions`;
    const response = await send(path, { method: "POST", body, signal });
    const parse = sseParser(({ data }) => {
      if (data !== "[DONE]" && data !== "")
        change(read(answer, JSON.parse(data) as Chunk, performance.now() - begunAt));
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
      const stage = /^: ?waking: (.*)$/m.exec(next.value)?.[1];
      if (stage !== undefined) change({ note: stage });
      parse(next.value);
    }
    change({ state: answer.error === "" ? "done" : "failed" });
  } catch (error) {
    change(signal.aborted ? { state: "stopped" } : { state: "failed", error: whyBroken(error) });
  }
  cancelAnimationFrame(frame ?? 0);
  flush();
}

const BROKEN = "The connection to the server broke before the answer was complete. Try again.";

/** The message of the server. For a broken connection, each browser has another message, which does not help. */
const whyBroken = (error: unknown): string => (error instanceof ApiError ? error.message : BROKEN);

type Chunk = Partial<ChatCompletionChunk> & { error?: { message?: string } };

function read(answer: Answer, chunk: Chunk, now: number): Partial<Answer> {
  if (chunk.error) return { error: chunk.error.message ?? "The answer broke off." };
  const [choice] = chunk.choices ?? [];
  const delta = choice?.delta;
  const text = delta?.content ?? "";
  const tokens = (choice?.logprobs?.content ?? []) as Token[];
  const isNew = text !== "" || tokens.length > 0 || delta?.tool_calls !== undefined;
  return {
    state: "streaming",
    note: "",
    model: chunk.model ?? answer.model,
    fingerprint: chunk.system_fingerprint ?? answer.fingerprint,
    usage: chunk.usage ?? answer.usage,
    timings: chunk.timings ?? answer.timings,
    finish: choice?.finish_reason ?? answer.finish,
    ...(isNew ? { firstMs: answer.firstMs ?? now, lastMs: now } : {}),
    ...(text === "" ? {} : { text: answer.text + text }),
    ...(tokens.length === 0 ? {} : { tokens: [...answer.tokens, ...tokens] }),
    ...(delta?.tool_calls ? { calls: withCalls(answer.calls, delta.tool_calls) } : {}),
  };
}

function withCalls(calls: Answer["calls"], deltas: readonly ToolCallDelta[]): Answer["calls"] {
  const next = calls.map((call) => ({ ...call }));
  for (const { index, function: part } of deltas.filter((delta) => delta.type !== "custom")) {
    const call = next[index] ?? { name: "", text: "" };
    next[index] = { name: call.name + (part.name ?? ""), text: call.text + (part.arguments ?? "") };
  }
  return next;
}
