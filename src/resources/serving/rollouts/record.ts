/**
 * The model calls of a rollout. Every dialect reaches the model by the chat route, and passes here: the call gets the
 * sampling of the rollout, and its answer becomes a turn before the client reads its end.
 */
import type { Ctx } from "../../../context.ts";
import { openaiEnvelope } from "../../../http/answer/client_errors.ts";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import type { TokenPrefix } from "../../../lib/chat/tokens.ts";
import { AppError } from "../../../lib/errors.ts";
import { CLIENT_LEFT_STATUS } from "../../../lib/net/client_left.ts";
import { SSE_DONE, sseData } from "../../../lib/net/sse.ts";
import { durable } from "../../../platform/db/db.ts";
import type { DrawnTokens } from "../../../workers/protocol.ts";
import { createCollector } from "../../other_apis/completions/collect.ts";
import { type Translator, translated } from "../../other_apis/translated.ts";
import {
  changesThoughts,
  forced,
  hashBeginnings,
  hashRequest,
  hashState,
  hasImages,
  limitOf,
  parentOf,
  settingsOf,
} from "./policy.ts";
import { replayed } from "./replay.ts";
import * as rollouts from "./service.ts";
import type { Branch, Limit, RolloutRow, TurnRow } from "./table.ts";
import * as turns from "./turns.ts";

type Used = { prompt_tokens: number; completion_tokens: number; drawn?: DrawnTokens | undefined };
/** The end of a call, as the request to the deployment reports it. */
type Ended = {
  status: number;
  traceId: string;
  used: Used | undefined;
  latencyMs: number;
  firstTokenMs: number | null;
  costMicros: number;
};
type Recording = { fields: object; onEnd: (end: Ended) => void };
export type RolloutCall = { workspaceId: string; rolloutId: string; request: Request; body: ChatCompletionRequest };
/** Sends a request to the deployment. */
type Send = (body: ChatCompletionRequest, recording: Recording) => Promise<Response>;

export async function record(ctx: Ctx, call: RolloutCall, send: Send): Promise<Response> {
  const { workspaceId, rolloutId, request, body } = call;
  const hash = hashRequest(body);
  if (Number(request.headers.get("x-stainless-retry-count") ?? 0) > 0) {
    await ctx.state.rollouts.of(rolloutId).get(hash); // the first try may still write its turn
    const before = turns.answerTo(ctx.db, rolloutId, hash);
    const completion = before && turns.completionOf(before);
    if (completion) return replayed(body, completion, before.traceId);
  }
  const row = mustBeOpen(ctx, rollouts.mustGet(ctx, workspaceId, rolloutId));
  if (body.n > 1)
    throw new AppError("schema", "n: a rollout takes one answer to each request. Remove n", { param: "/n" });
  if (row.replayOf !== null) return replayTurn(ctx, row, { body, hash });
  const release = ctx.state.rollouts.begin(rolloutId, hash);
  try {
    return await sendAndRecord(ctx, { row, body, hash, release }, send);
  } catch (error) {
    release();
    throw error;
  }
}

const LIMIT_TEXT: Record<Limit, (row: RolloutRow) => string> = {
  turns: ({ maxTurns }) => `its ${maxTurns} turns are used (max_turns)`,
  tokens: ({ maxTokens }) => `its ${maxTokens} tokens are used (max_tokens)`,
  seconds: () => "its time is over (max_seconds)",
  cost: () => "its money is spent (max_cost_usd)",
};

/** A client must not send the call again: no SDK repeats an answer with status 400. */
function mustBeOpen(ctx: Ctx, row: RolloutRow): RolloutRow {
  if (row.status === "finished")
    throw new AppError("rollout_ended", `Rollout ${row.id} is finished: it has its reward`);
  const limit = row.endedBy ?? limitOf(row, ctx.state.rollouts.of(row.id).size, ctx.clock.now());
  if (limit === undefined) return row;
  if (row.status === "open") rollouts.end(ctx, row.id, limit);
  throw new AppError("rollout_ended", `Rollout ${row.id} has ended: ${LIMIT_TEXT[limit](row)}`);
}

type OpenCall = { row: RolloutRow; body: ChatCompletionRequest; hash: string; release: () => void };

async function sendAndRecord(ctx: Ctx, { row, body, hash, release }: OpenCall, send: Send): Promise<Response> {
  const beginnings = hashBeginnings(body);
  const origin = originOf(ctx, row, body, beginnings);
  const tokensLeft = row.maxTokens === null ? null : row.maxTokens - row.completionTokens;
  const sent = forced(body, { sampling: row.sampling, tokensLeft, turn: row.turnCount + 1 });
  const streams = body.stream ? { stream_options: { ...body.stream_options, include_usage: true } } : {};
  const { promise: ended, resolve: onEnd } = Promise.withResolvers<Ended>();
  const collector = createCollector();
  let isStored = false;
  const keep = async (completion: ChatCompletion | null, end: Ended) => {
    if (isStored) return;
    isStored = true;
    const turn = turnOf({ body: sent, hash, beginnings, origin, completion, end });
    const { prompt_tokens: prompt = 0, completion_tokens: drawn = 0 } = end.used ?? {};
    turns.store(ctx, row, turn, { prompt, completion: drawn });
    await durable(ctx.db);
  };
  void ended
    .then(async (end) => {
      if (end.status === CLIENT_LEFT_STATUS && end.used) await keep(collector.whole() ?? null, end);
      if (end.status >= 400) release();
    })
    .catch((error) => {
      release();
      ctx.log.error("a turn that its client left was not recorded", { rollout: row.id, error });
    });
  const response = await send({ ...sent, ...streams }, { fields: fieldsFor(origin), onEnd });
  const done = async (completion: ChatCompletion) => {
    try {
      await keep(completion, await ended);
    } finally {
      release();
    }
  };
  return translated(response, recordingTranslator(body, collector, done));
}

type Collector = ReturnType<typeof createCollector>;

/** The answer stays as it is. Its end waits until the turn is on the disk. */
function recordingTranslator(
  { stream_options: options }: ChatCompletionRequest,
  collector: Collector,
  keep: (completion: ChatCompletion) => Promise<void>,
): Translator<ChatCompletion, ChatCompletionChunk> {
  return {
    async whole(answer) {
      await keep(answer);
      return answer;
    },
    chunk(chunk) {
      collector.add(chunk);
      const { usage, ...rest } = chunk;
      if (options?.include_usage || !usage) return sseData(JSON.stringify(chunk));
      return rest.choices.length === 0 ? "" : sseData(JSON.stringify(rest));
    },
    async end() {
      const completion = collector.whole();
      try {
        if (completion) await keep(completion);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        return sseData(JSON.stringify(openaiEnvelope(error)));
      }
      return SSE_DONE;
    },
    error: (_message, _code, sent) => sseData(JSON.stringify(sent)),
  };
}

/** The turn that a request goes on from, with all its tokens, or the reason why there is none. */
type Origin = { parent: TurnRow; messages: number; tokens: Int32Array } | { branch: Branch | null };

function originOf(ctx: Ctx, row: RolloutRow, body: ChatCompletionRequest, beginnings: readonly string[]): Origin {
  const branch = (reason: Branch) => ({ branch: row.turnCount === 0 ? null : reason });
  if (hasImages(body.messages)) return branch("image");
  const match = parentOf(turns.statesOf(ctx.db, row.id), beginnings);
  const parent = match && turns.turnAt(ctx.db, row.id, match.turn.number);
  const answer = parent && turns.completionOf(parent)?.choices[0]?.message;
  if (!match || !parent || !answer || changesThoughts(body.messages[match.messages - 1], answer))
    return branch("history");
  return { parent, messages: match.messages, tokens: turns.tokensOf(ctx.db, parent) };
}

/** The prompt begins with the exact tokens of the turn that it goes on from. */
function fieldsFor(origin: Origin): { prefix?: TokenPrefix } {
  if ("branch" in origin) return {};
  const { parent, messages, tokens } = origin;
  const bytes = Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  return { prefix: { tokens: bytes.toString("base64"), messages, has_end: parent.hasEnd, stop: parent.stop } };
}

const bytesOf = (text: string | undefined) => Buffer.from(text ?? "", "base64");

type EndedCall = {
  body: ChatCompletionRequest;
  hash: string;
  beginnings: readonly string[];
  origin: Origin;
  completion: ChatCompletion | null;
  end: Ended;
};

function turnOf({ body, hash, beginnings, origin, completion, end }: EndedCall): Parameters<typeof turns.store>[2] {
  const { drawn } = end.used ?? {};
  const prompt = bytesOf(drawn?.prompt);
  const parts = splitPrompt(origin, prompt);
  const answer = completion?.choices[0]?.message ?? { role: "assistant" as const, content: null };
  return {
    ...parts,
    status: end.status < 400 ? "done" : "cancelled",
    requestHash: hash,
    stateHash: hashState(beginnings, answer),
    hasEnd: drawn?.has_end ?? false,
    stop: drawn?.stop ?? null,
    weights: drawn?.weights ?? null,
    traceId: end.traceId,
    latencyMs: end.latencyMs,
    firstTokenMs: end.firstTokenMs,
    costMicros: end.costMicros,
    settings: JSON.stringify(settingsOf(body)),
    messages: JSON.stringify(body.messages.slice(parts.keptMessages)),
    tools: JSON.stringify(body.tools),
    completion: JSON.stringify(completion),
    tokenIds: bytesOf(drawn?.tokens),
    logprobs: bytesOf(drawn?.logprobs),
  };
}

type Parts = Pick<TurnRow, "parent" | "keptMessages" | "keptTokens" | "branch" | "promptIds">;

/** The prompt begins with all tokens of the turn that it goes on from; if not, the turn is a branch. */
function splitPrompt(origin: Origin, prompt: Buffer): Parts {
  const whole = { parent: null, keptMessages: 0, keptTokens: 0, promptIds: prompt };
  if ("branch" in origin) return { ...whole, branch: origin.branch };
  const { parent, messages, tokens } = origin;
  const before = Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  if (!prompt.subarray(0, before.length).equals(before)) return { ...whole, branch: "template" };
  return {
    parent: parent.number,
    keptMessages: messages,
    keptTokens: tokens.length,
    branch: null,
    promptIds: prompt.subarray(before.length),
  };
}

/** The turn of the recorded rollout that answered the same request. It becomes a turn of this rollout too. */
async function replayTurn(
  ctx: Ctx,
  row: RolloutRow,
  { body, hash }: Pick<OpenCall, "body" | "hash">,
): Promise<Response> {
  const source = turns.answerTo(ctx.db, row.replayOf ?? "", hash);
  const completion = source && turns.completionOf(source);
  if (!completion)
    throw new AppError(
      "unsupported_state",
      `Rollout ${row.replayOf} has no turn with this request: the agent differs from the recorded one at turn ${row.turnCount + 1}`,
    );
  const { rolloutId: _, workspaceId: __, number: ___, createdAt: ____, ...turn } = source;
  turns.store(ctx, row, { ...turn, costMicros: 0 }, { prompt: 0, completion: 0 });
  await durable(ctx.db);
  return replayed(body, completion, source.traceId);
}
