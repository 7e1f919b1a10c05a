/** One streamed answer. */
import type { ChatCompletionChunk, ToolCallDelta } from "../../../lib/chat/chat_completion.ts";
import type { Timings, Usage } from "../../../lib/chat/sampling.ts";
import { ApiError, send } from "../../data/api.ts";
import { sseParser } from "../../data/follow.ts";
import type { Token } from "./tokens.ts";

export type Call = { id: string; name: string; text: string };

export type Answer = {
  state: "waiting" | "streaming" | "done" | "stopped" | "failed";
  /** While the deployment starts or wakes: its stage. */
  note: string;
  thinking: string;
  text: string;
  tokens: Token[];
  calls: Call[];
  /** The answer's own words about what answered. */
  fingerprint: string | null;
  usage: Usage | undefined;
  timings: Timings | undefined;
  finish: string | null;
  error: string;
  firstMs: number | undefined;
};

export const NEW_ANSWER: Answer = {
  state: "waiting",
  note: "",
  thinking: "",
  text: "",
  tokens: [],
  calls: [],
  fingerprint: null,
  usage: undefined,
  timings: undefined,
  finish: null,
  error: "",
  firstMs: undefined,
};

/** An answer that was read or typed, not streamed. */
export const doneAnswer = (said: Partial<Pick<Answer, "text" | "thinking" | "calls">>): Answer => ({
  ...NEW_ANSWER,
  state: "done",
  ...said,
});

export const isUnderWay = ({ state }: Answer): boolean => state === "waiting" || state === "streaming";

/** Below this many tokens a speed says more about the first token than about the model. */
const LEAST_TOKENS = 20;

/** Tokens per second after the first one, as the server measured them. Undefined: too few, or the answer failed. */
export function speedOf({ state, timings }: Pick<Answer, "state" | "timings">): number | undefined {
  if (state !== "done" || !timings || timings.predicted_n < LEAST_TOKENS || timings.predicted_ms <= 0) return undefined;
  return timings.predicted_per_second;
}

type Asking = {
  signal: AbortSignal;
  /** Gets a new answer at most once a frame, and at the end. */
  onChange: (answer: Answer) => void;
  /** The model of the request. `isMissing`: nothing serves the first one; undefined then means that the error stands. */
  model: (isMissing: boolean) => Promise<string | undefined>;
};

/** Ends when the answer is complete, stopped or failed. */
export async function ask(body: object, { signal, onChange, model }: Asking): Promise<Answer> {
  const begunAt = performance.now();
  let answer: Answer = { ...NEW_ANSWER };
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
    const first = await model(false);
    const response = await request({ ...body, model: first }, signal).catch(async (error: unknown) => {
      if (!isUnserved(error)) throw error;
      const other = await model(true);
      if (other === undefined) throw error;
      return request({ ...body, model: other }, signal);
    });
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
    const isCut = answer.error === "" && answer.finish === null;
    change({ state: answer.error !== "" || isCut ? "failed" : "done", ...(isCut ? { error: BROKEN } : {}) });
  } catch (error) {
    change(signal.aborted ? { state: "stopped" } : { state: "failed", error: whyBroken(error) });
  }
  cancelAnimationFrame(frame ?? 0);
  flush();
  return answer;
}

const request = (body: object, signal: AbortSignal) => send("/v1/chat/completions", { method: "POST", body, signal });

const isUnserved = (error: unknown): boolean => error instanceof ApiError && error.code === "model_not_found";

const BROKEN = "The connection to the server broke before the answer was complete. Try again.";

/** The message of the server. For a broken connection, each browser has another message, which does not help. */
const whyBroken = (error: unknown): string => (error instanceof ApiError ? error.message : BROKEN);

type Chunk = Partial<ChatCompletionChunk> & { error?: { message?: string } };

function read(answer: Answer, chunk: Chunk, now: number): Partial<Answer> {
  if (chunk.error) return { error: chunk.error.message ?? "The answer broke off." };
  const [choice] = chunk.choices ?? [];
  const delta = choice?.delta;
  const text = delta?.content ?? "";
  const thought = delta?.reasoning_content ?? "";
  const tokens = (choice?.logprobs?.content ?? []) as Token[];
  const isNew = text !== "" || thought !== "" || tokens.length > 0 || delta?.tool_calls !== undefined;
  return {
    state: "streaming",
    note: "",
    fingerprint: chunk.system_fingerprint ?? answer.fingerprint,
    usage: chunk.usage ?? answer.usage,
    timings: chunk.timings ?? answer.timings,
    finish: choice?.finish_reason ?? answer.finish,
    ...(isNew ? { firstMs: answer.firstMs ?? now } : {}),
    ...(text === "" ? {} : { text: answer.text + text }),
    ...(thought === "" ? {} : { thinking: answer.thinking + thought }),
    ...(tokens.length === 0 ? {} : { tokens: [...answer.tokens, ...tokens] }),
    ...(delta?.tool_calls ? { calls: withCalls(answer.calls, delta.tool_calls) } : {}),
  };
}

function withCalls(calls: readonly Call[], deltas: readonly ToolCallDelta[]): Call[] {
  const next = calls.map((call) => ({ ...call }));
  for (const delta of deltas) {
    if (delta.type === "custom") continue;
    const { index, id, function: part } = delta;
    const call = next[index] ?? { id: `call_${index}`, name: "", text: "" };
    next[index] = {
      id: id ?? call.id,
      name: call.name + (part.name ?? ""),
      text: call.text + (part.arguments ?? ""),
    };
  }
  return next;
}
