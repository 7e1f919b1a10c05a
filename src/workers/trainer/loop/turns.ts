/**
 * Rollouts of several turns: the model writes, the tools that it calls answer, and it goes on. All rollouts take their
 * turns together, so a killed job that resumes draws the same again. A turn begins with exactly the tokens of those before
 * it; only what the tools answered is tokenized. The loss is over what the model wrote.
 */
import type { ChatMessage, Tool } from "../../../lib/chat/messages.ts";
import { seedOf } from "../../../lib/random.ts";
import type { Act, Environment } from "../../../lib/rewards/contract.ts";
import { joined } from "../../serving/prompt.ts";
import type { Encoder } from "../data/encode.ts";
import type { Prompt } from "../data/examples.ts";
import type { Roller, Rollout, RolloutRequest, RolloutSampling } from "../rollouts/types.ts";
import { Trouble } from "../trouble.ts";

/** `error`: the rollout is lost. Otherwise `text` is what the model reads; null: nothing. */
export type ActResult = { text: string | null; failed: boolean; error: string | null };
export type ActAll = (acts: readonly Act[]) => Promise<readonly ActResult[]>;

export type TurnOptions = {
  roller: Roller;
  encoder: Encoder;
  environments: readonly Environment[];
  act: ActAll;
  sampling: RolloutSampling;
  maxTurns: number;
  /** Tokens behind the prompt of the dataset, also those of tools. */
  maxTokens: number;
  /** A number that no other rollout of this run has. */
  newRollout: () => number;
  signal: AbortSignal;
};

/** One rollout that is over. `tokens`: prompt and all turns. Arrays have one element per token behind `from`. */
export type FinishedRollout = {
  tokens: Int32Array;
  from: number;
  /** 1: the model wrote the token. */
  written: Uint8Array;
  logps: Float32Array | null;
  /** The conversation behind the prompt. */
  messages: ChatMessage[];
  truncated: boolean;
  error: string | null;
  rollout: number;
  turns: number;
  calls: number;
  failedCalls: number;
};

type Called = { id: string; name: string; arguments: string };
type State = FinishedRollout & {
  prompt: number;
  sample: number;
  tools: readonly Tool[];
  before: readonly ChatMessage[];
  parts: { tokens: Int32Array; logps: Float32Array | null; isWritten: boolean }[];
  length: number;
  limit: number;
  isOver: boolean;
  pending: Called[];
};

/** `seeds`: one for each prompt. The result is indexed [prompt][sample]. */
export async function rollTurns(
  prompts: readonly Prompt[],
  samples: number,
  seeds: readonly number[],
  options: TurnOptions,
): Promise<FinishedRollout[][]> {
  const states = await begin(prompts, samples, seeds, options);
  for (let turn = 0; turn < options.maxTurns; turn++) {
    const open = states.filter(({ isOver }) => !isOver);
    if (open.length === 0) break;
    await write(open, turn, seeds, options);
    await answer(
      open.filter(({ isOver }) => !isOver),
      turn,
      seeds,
      options,
    );
  }
  const groups: FinishedRollout[][] = prompts.map(() => []);
  for (const state of states) groups[state.prompt]!.push(finished(state));
  return groups;
}

export const toolsOf = ({ tools }: Environment): Tool[] => tools.map((tool) => ({ type: "function", function: tool }));

/** The environment of a row: the one that its column names, or the first. */
export const environmentOf = (environments: readonly Environment[], row: Record<string, unknown>): Environment =>
  environments.find(({ name }) => name === row["environment"]) ?? environments[0]!;

const RESET = 0;
const WRITE = 1;
const CALL = 2;

async function begin(
  prompts: readonly Prompt[],
  samples: number,
  seeds: readonly number[],
  { environments, act, newRollout, encoder, maxTokens, roller, signal }: TurnOptions,
): Promise<State[]> {
  const rows = prompts.map(({ row }) => JSON.parse(row) as Record<string, unknown>);
  const all = prompts.flatMap((_, prompt) => Array.from({ length: samples }, (_, sample) => ({ prompt, sample })));
  // The samples of a prompt begin alike: their advantages compare what the model did.
  const acts = all.map(({ prompt }): Act => {
    return { rollout: newRollout(), seed: seedOf(seeds[prompt]!, RESET), act: "reset", row: rows[prompt]! };
  });
  const results = await act(acts);
  signal.throwIfAborted();
  return all.map(({ prompt, sample }, i): State => {
    const { text, error } = results[i]!;
    const tools = toolsOf(environmentOf(environments, rows[prompt]!));
    const before = withObservation(messagesOf(prompts[prompt]!.prompt), text);
    const tokens = text === null ? prompts[prompt]!.tokens : encoder.prompt(before, tools);
    const limit = Math.min(roller.facts.contextLength, prompts[prompt]!.tokens.length + maxTokens);
    const isTooLong = tokens.length >= limit;
    return {
      prompt,
      sample,
      tools,
      before,
      tokens,
      from: tokens.length,
      length: tokens.length,
      limit,
      parts: [],
      written: new Uint8Array(),
      logps: null,
      messages: [],
      pending: [],
      truncated: isTooLong,
      isOver: isTooLong || error !== null,
      error: error ?? (isTooLong ? "the environment's first text leaves no room for an answer" : null),
      rollout: acts[i]!.rollout,
      turns: 0,
      calls: 0,
      failedCalls: 0,
    };
  });
}

const messagesOf = (said: unknown): ChatMessage[] =>
  typeof said === "string" ? [{ role: "user", content: said }] : [...(said as ChatMessage[])];

/** The text that `reset` returned follows the last message of the user. */
function withObservation(messages: ChatMessage[], text: string | null): ChatMessage[] {
  if (text === null) return messages;
  const at = messages.findLastIndex(({ role }) => role === "user");
  const last = messages[at];
  if (last?.role !== "user") return [...messages, { role: "user", content: text }];
  const content = Array.isArray(last.content)
    ? [...last.content, { type: "text" as const, text }]
    : `${last.content}${text}`;
  return messages.with(at, { ...last, content });
}

/** One answer of each rollout. In the first turn, samples of one prompt are drawn as a group that shares its memory. */
async function write(open: readonly State[], turn: number, seeds: readonly number[], options: TurnOptions) {
  const { roller, sampling, signal, encoder } = options;
  const groups = turn === 0 ? groupedByPrompt(open) : open.map((state) => [state]);
  const requests = groups.map((group): RolloutRequest => {
    const [{ prompt, sample, tokens, parts, limit, length }] = group as [State];
    const seed = turn === 0 ? seedOf(seeds[prompt]!, WRITE, sample) : seedOf(seeds[prompt]!, WRITE, sample, turn);
    const maxTokens = Math.min(sampling.maxTokens, limit - length);
    return { prompt: joined([tokens, ...parts.map((part) => part.tokens)]), samples: group.length, seed, maxTokens };
  });
  const rolled = await roller.roll(requests, sampling, signal, { continues: turn > 0 });
  signal.throwIfAborted();
  groups.forEach((group, g) => {
    for (const [s, state] of group.entries()) take(state, rolled[g]![s]!, encoder);
  });
}

/** Groups of rollouts whose prompts are equal. */
function groupedByPrompt(open: readonly State[]): State[][] {
  const groups = Map.groupBy(open, ({ prompt, tokens, from }) => `${prompt} ${tokens.subarray(0, from).join()}`);
  return [...groups.values()];
}

function take(state: State, { tokens, logps, text, truncated }: Rollout, encoder: Encoder) {
  state.turns++;
  state.parts.push({ tokens, logps, isWritten: true });
  state.length += tokens.length;
  const message = encoder.message(text, [...state.before, ...state.messages], state.tools);
  const calls = truncated ? [] : (message.tool_calls ?? []);
  state.pending = calls.map(({ function: { name, arguments: given } }, i) => {
    return { id: `call_${state.turns}_${i + 1}`, name, arguments: given };
  });
  const { tool_calls: _, ...said } = message;
  const named = state.pending.map(({ id, ...call }) => ({ id, type: "function" as const, function: call }));
  state.messages.push(named.length > 0 ? { ...said, tool_calls: named } : said);
  state.truncated = truncated;
  state.isOver = truncated || calls.length === 0;
}

/** Calls the tools, and writes what they answer behind the answers. */
async function answer(open: readonly State[], turn: number, seeds: readonly number[], options: TurnOptions) {
  const { act, signal, encoder, maxTurns } = options;
  const calls = open.flatMap((state) => state.pending.map((call, i) => ({ state, call, i })));
  const acts = calls.flatMap(({ state, call, i }): Act[] => {
    const given = argumentsOf(call.arguments);
    const seed = seedOf(seeds[state.prompt]!, CALL, state.sample, turn, i);
    return given ? [{ rollout: state.rollout, seed, act: "call", name: call.name, arguments: given }] : [];
  });
  const results = acts.length > 0 ? [...(await act(acts))] : [];
  signal.throwIfAborted();
  for (const { state, call } of calls) {
    const isRead = argumentsOf(call.arguments) !== null;
    const result = isRead ? results.shift()! : { text: NO_OBJECT, failed: true, error: null };
    state.calls++;
    if (result.failed) state.failedCalls++;
    state.error ??= result.error;
    state.messages.push({ role: "tool", tool_call_id: call.id, name: call.name, content: result.text ?? "" });
  }
  for (const state of open) {
    state.isOver = state.error !== null || turn === maxTurns - 1;
    if (!state.isOver) goOn(state, encoder);
  }
}

const NO_OBJECT = "Error: the arguments are not a JSON object";

function argumentsOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function goOn(state: State, encoder: Encoder) {
  const { before, messages, parts, tools, limit } = state;
  const answerAt = messages.findLastIndex(({ role }) => role === "assistant");
  const end = parts.at(-1)?.tokens.at(-1) ?? null;
  const tokens = encoder.behind([...before, ...messages], { index: before.length + answerAt, end }, tools);
  if (tokens === null)
    throw new Trouble(
      "bad_rows",
      "The model's chat template does not write the result of a tool behind the call, so rollouts with tools are not possible. Choose a model whose template knows tools",
      { param: "base_model" },
    );
  if (state.length + tokens.length >= limit) {
    state.truncated = true;
    state.isOver = true;
    return;
  }
  parts.push({ tokens, logps: null, isWritten: false });
  state.length += tokens.length;
}

function finished(state: State): FinishedRollout {
  const { parts, tokens, from, messages, truncated, error, rollout, turns, calls, failedCalls } = state;
  const own = parts.filter(({ isWritten }) => isWritten);
  const isScored = own.length > 0 && own.every(({ logps }) => logps !== null);
  const logps = parts.flatMap((part) => [...(part.logps ?? new Float32Array(part.tokens.length))]);
  return {
    tokens: joined([tokens, ...parts.map((part) => part.tokens)]),
    from,
    written: Uint8Array.from(parts.flatMap((part) => Array<number>(part.tokens.length).fill(part.isWritten ? 1 : 0))),
    logps: isScored ? Float32Array.from(logps) : null,
    messages,
    truncated,
    error,
    rollout,
    turns,
    calls,
    failedCalls,
  };
}
