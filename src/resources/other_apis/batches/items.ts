/** The work on one batch: its input file becomes items, and each item gets its result. */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { anthropicError, openaiEnvelope, openaiError } from "../../../http/answer/client_errors.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { write } from "../../../platform/db/db.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { execute } from "./execute.ts";
import { parseLine, readRequests } from "./lines.ts";
import { machine } from "./machine.ts";
import { type BatchItemRow, type BatchRow, inferenceBatches, inferenceBatchItems, MESSAGES } from "./table.ts";

const BITE = 1_000; // items that one commit inserts
const PAUSE_MS = 1_000;

const limitsOf = (ctx: Ctx, { endpoint }: BatchRow) => {
  const isTokens = endpoint === "/v1/completions" || endpoint === "/v1/embeddings";
  return { endpoint, ...bodyLimits(ctx, isTokens ? "tokens" : "chat") };
};

async function inputOf(ctx: Ctx, { inputKey }: BatchRow, range?: { offset: number; length: number }) {
  const opened = await ctx.storage.get(inputKey, range);
  if (!opened) throw new LostKeyError(inputKey);
  return opened.stream;
}

/** After a kill the same items are inserted again, which changes nothing. */
export async function check(ctx: Ctx, batch: BatchRow, signal: AbortSignal): Promise<void> {
  const { requests, errors } = await readRequests(await inputOf(ctx, batch), limitsOf(ctx, batch));
  const { id } = batch;
  const turn = takingTurns();
  for (let from = 0; from < requests.length && errors.length === 0; from += BITE) {
    if (signal.aborted) return;
    const rows = requests.slice(from, from + BITE).map((request, i) => ({
      ...request,
      batchId: id,
      number: from + i + 1,
      result: null,
      failed: false,
      finishedAt: null,
    }));
    write(ctx.db, (tx) => {
      const stored = tx
        .select({ id: inferenceBatches.id })
        .from(inferenceBatches)
        .where(eq(inferenceBatches.id, id))
        .get();
      if (stored) tx.insert(inferenceBatchItems).values(rows).onConflictDoNothing().run();
    });
    await turn();
  }
  if (signal.aborted) return;
  const now = ctx.clock.now();
  write(ctx.db, (tx) =>
    errors.length > 0
      ? transition(tx, machine, "fail", { id, now }, { errors, finishedAt: now })
      : transition(tx, machine, "begin", { id, now }, { total: requests.length, inProgressAt: now }),
  );
}

type Result = { status: number; requestId: string; body: object };
type Usage = {
  prompt_tokens?: number;
  completion_tokens?: number;
  input_tokens?: number;
  output_tokens?: number;
  /** In the format of Anthropic they are not among the input tokens. */
  cache_read_input_tokens?: number;
};

export async function answerItem(ctx: Ctx, batch: BatchRow, item: BatchItemRow, signal: AbortSignal): Promise<void> {
  let result: Result;
  try {
    const range = { offset: item.byteOffset, length: item.byteLength };
    const bytes = new Uint8Array(await new Response(await inputOf(ctx, batch, range)).arrayBuffer());
    const line = await parseLine(bytes, limitsOf(ctx, batch));
    if (typeof line === "string") throw new AppError("internal", "The input file has changed");
    result = { status: 200, ...(await execute(ctx, { batch, signal }, line.body)) };
  } catch (error) {
    if (signal.aborted || ctx.closing.aborted) return; // still due, or its batch has ended
    if (error instanceof AppError && (error.status === 503 || error.status === 429))
      return ctx.clock.sleep(PAUSE_MS, signal); // still due
    if (!(error instanceof AppError))
      ctx.log.error("a request of a batch failed", { batch: batch.id, item: item.number, error });
    const shown = error instanceof AppError ? error : new AppError("internal", "Unexpected server error");
    const requestId = newId("req", ctx.clock.now());
    result =
      batch.endpoint === MESSAGES
        ? { requestId, ...anthropicError(shown) }
        : { requestId, status: openaiError(shown).status, body: openaiEnvelope(shown) };
  }
  finish(ctx, item, result);
}

const promptTokensOf = ({
  prompt_tokens: prompt,
  input_tokens: input = 0,
  cache_read_input_tokens: cached = 0,
}: Usage = {}) => prompt ?? input + cached;

/** Writes the result and the counts in one commit. An item that is done stays as it is. */
function finish(ctx: Ctx, { batchId, number, customId }: BatchItemRow, { status, requestId, body }: Result) {
  const now = ctx.clock.now();
  const failed = status >= 400;
  const response = { status_code: status, request_id: requestId, body };
  const result = JSON.stringify({ id: `batch_${requestId}`, custom_id: customId, response, error: null });
  const { usage } = body as { usage?: Usage };
  write(ctx.db, (tx) => {
    const batch = tx.select().from(inferenceBatches).where(eq(inferenceBatches.id, batchId)).get();
    if (batch?.status !== "in_progress") return;
    const one = and(eq(inferenceBatchItems.batchId, batchId), eq(inferenceBatchItems.number, number));
    const done = tx
      .update(inferenceBatchItems)
      .set({ result, failed, finishedAt: now })
      .where(and(one, isNull(inferenceBatchItems.finishedAt)))
      .returning({ number: inferenceBatchItems.number })
      .get();
    if (!done) return;
    const counts = failed ? { failed: batch.failed + 1 } : { completed: batch.completed + 1 };
    const inputTokens = batch.inputTokens + promptTokensOf(usage);
    const outputTokens = batch.outputTokens + (usage?.completion_tokens ?? usage?.output_tokens ?? 0);
    tx.update(inferenceBatches)
      .set({ ...counts, inputTokens, outputTokens, updatedAt: now })
      .where(eq(inferenceBatches.id, batchId))
      .run();
  });
}
