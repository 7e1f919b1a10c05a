/** Decisions about the requests of a rollout. Pure. */
import type { ChatCompletion, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { constraintsOf } from "../../../lib/chat/constraints.ts";
import { functionCallOf, type PromptMessage } from "../../../lib/chat/messages.ts";
import type { RolloutSampling } from "./schema.ts";
import type { Limit, RolloutRow } from "./table.ts";

/** Fields that change neither the prompt nor the answer. A retry may differ in them. */
const OTHER_FIELDS: readonly (keyof ChatCompletionRequest)[] = [
  ...(["model", "stream", "stream_options", "user", "metadata", "store"] as const),
  ...(["return_progress", "timings_per_token", "verbose", "logprobs", "top_logprobs", "return_token_ids"] as const),
];

const digest = (text: string) => Bun.SHA256.hash(text, "hex").slice(0, 32);

/** Two requests with this hash ask for the same answer. */
export function hashRequest(body: ChatCompletionRequest): string {
  const fields = Object.entries(body).filter(([name]) => !(OTHER_FIELDS as readonly string[]).includes(name));
  return digest(JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1))));
}

/**
 * The request as the rollout sends it. Without settings of the rollout it draws from the model as it is, so that the
 * log-probabilities are those of the draw. `turn`: each turn draws with another seed.
 */
export function forced(
  body: ChatCompletionRequest,
  { sampling, tokensLeft, turn }: { sampling: RolloutSampling; tokensLeft: number | null; turn: number },
): ChatCompletionRequest {
  const { temperature = 1, top_p = 1, top_k = 0, min_p = 0, seed, max_completion_tokens: most } = sampling;
  const { max_tokens, max_completion_tokens, n_predict, ...rest } = body;
  const limits = [max_completion_tokens ?? max_tokens ?? n_predict, most, tokensLeft];
  const bounds = limits.filter((limit) => typeof limit === "number" && limit >= 0) as number[];
  return {
    ...rest,
    temperature,
    top_p,
    top_k,
    min_p,
    frequency_penalty: 0,
    presence_penalty: 0,
    logit_bias: {},
    seed: seed === undefined ? undefined : seed + turn,
    n: 1,
    store: undefined,
    ignore_eos: false,
    max_completion_tokens: bounds.length === 0 ? undefined : Math.min(...bounds),
  };
}

/** The settings of a request that its turn keeps. */
export function settingsOf(body: ChatCompletionRequest) {
  const { temperature, top_p, top_k, min_p, seed, stop, max_completion_tokens, tool_choice, response_format } = body;
  const isConstrained =
    constraintsOf(body).length > 0 || response_format.type !== "text" || !["auto", "none"].includes(`${tool_choice}`);
  return { temperature, top_p, top_k, min_p, seed, stop, max_completion_tokens, constrained: isConstrained };
}

/** The limit that a rollout has reached. */
export function limitOf(row: RolloutRow, open: number, now: number): Limit | undefined {
  if (now >= row.expiresAt) return "seconds";
  if (row.turnCount + open >= row.maxTurns) return "turns";
  if (row.maxTokens !== null && row.completionTokens >= row.maxTokens) return "tokens";
  if (row.maxCostMicros !== null && row.costMicros >= row.maxCostMicros) return "cost";
  return undefined;
}

export const hasImages = (messages: readonly PromptMessage[]) =>
  messages.some(({ content }) => Array.isArray(content) && content.some(({ type }) => type !== "text"));

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

type Answer = Omit<ChatCompletion["choices"][number]["message"], "refusal">;

/**
 * The part of a message that clients send back as they read it. Ids of calls and the spaces of their arguments differ by
 * client, and most clients leave out thoughts.
 */
function essence(message: PromptMessage | Answer): unknown {
  const { role, content, ...rest } = message;
  const text =
    typeof content === "string" ? content : (content ?? []).map((part) => (part.type === "text" ? part.text : part));
  const plain = Array.isArray(text) && text.every((part) => typeof part === "string") ? text.join("") : text;
  if (role !== "assistant") return [role, plain, "name" in rest ? (rest.name ?? null) : null];
  const { tool_calls: calls, function_call: call } = rest as Pick<Answer, "tool_calls" | "function_call">;
  const spelt = (calls ?? []).map((each) => ("custom" in each ? functionCallOf(each) : each).function);
  const all = [...spelt, ...(call ? [call] : [])].map(({ name, arguments: args }) => [name, parsed(args)]);
  return [role, typeof plain === "string" ? plain.trim() : plain, all];
}

/** The beginning of every prompt: the tools and the variables of the template. */
function hashHead(body: ChatCompletionRequest): string {
  const { tools, functions, tool_choice, chat_template_kwargs, reasoning_effort } = body;
  const hidden = tool_choice === "none" || constraintsOf(body).length > 0;
  return digest(
    JSON.stringify([hidden ? [] : tools, functions ?? [], chat_template_kwargs ?? {}, reasoning_effort ?? null]),
  );
}

const extend = (hash: string, message: PromptMessage | Answer) => digest(`${hash}${JSON.stringify(essence(message))}`);

/** The hash of each beginning of the request: `[i]` has the first i messages. */
export function hashBeginnings(body: ChatCompletionRequest): string[] {
  const hashes = [hashHead(body)];
  for (const message of body.messages) hashes.push(extend(hashes.at(-1) as string, message));
  return hashes;
}

/** The state after an answer: a later request whose beginning has this hash goes on from it. */
export const hashState = (beginnings: readonly string[], answer: Answer) => extend(beginnings.at(-1) as string, answer);

type Candidate = { number: number; stateHash: string };

/** The turn that a request goes on from: the one with the longest beginning of it, the latest of several. */
export function parentOf<T extends Candidate>(
  turns: readonly T[],
  beginnings: readonly string[],
): { turn: T; messages: number } | undefined {
  const lengths = new Map(beginnings.map((hash, length) => [hash, length]));
  let best: { turn: T; messages: number } | undefined;
  for (const turn of turns) {
    const messages = lengths.get(turn.stateHash);
    if (messages !== undefined && messages >= (best?.messages ?? 0)) best = { turn, messages };
  }
  return best;
}

/** True if the client sends other thoughts than the model had. One that leaves them out changes nothing. */
export function changesThoughts(sent: PromptMessage | undefined, answer: Answer): boolean {
  const thoughts = sent && "reasoning_content" in sent ? sent.reasoning_content : undefined;
  return Boolean(thoughts) && thoughts?.trim() !== (answer.reasoning_content ?? "").trim();
}
