/**
 * The loop `responses.run`. The rows are the queue: a background response is due until it has ended. Only this process
 * knows which ones it works on, so a kill at any line costs at most the repetition of a response.
 */
import { sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import { oldestOfEach } from "../../../platform/db/oldest_of_each.ts";
import { resolveModel } from "../../serving/agents/apply.ts";
import { refuseServers } from "../../serving/agents/tools/run.ts";
import { generate } from "../../serving/deployments/chat/generate.ts";
import { mustFit } from "../conversations/append.ts";
import { appendAnswer } from "../conversations/context.ts";
import { untilIdle } from "../until_idle.ts";
import { machine } from "./machine.ts";
import type { ModelResponse } from "./schema.ts";
import { type ResponseRow, responses } from "./table.ts";
import { toResponse } from "./translate.ts";

const due = oldestOfEach(responses, sql`${responses.status} IN ('queued', 'in_progress')`); // as the index has it

export function runResponses(ctx: Ctx, loop: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([loop, ctx.closing]);
  return untilIdle(ctx.state.responses, signal, (fail) => start(ctx, signal, fail));
}

function start(ctx: Ctx, signal: AbortSignal, fail: (error: unknown) => void) {
  const { running, permits } = ctx.state.responses;
  const idle = due(ctx.db)
    .all({ most: permits.permits })
    .filter(({ id }) => !running.has(id));
  permits.fillFrom(idle, (row, release) => {
    const stop = new AbortController();
    const done = work(ctx, row, AbortSignal.any([signal, stop.signal]))
      .catch(fail)
      .finally(() => {
        running.delete(row.id);
        release();
      });
    running.set(row.id, { stop, done });
  });
}

async function work(ctx: Ctx, row: ResponseRow, signal: AbortSignal): Promise<void> {
  write(ctx.db, (tx) => void transition(tx, machine, "begin", { id: row.id, now: ctx.clock.now() }));
  let response: ModelResponse;
  try {
    response = await answerOf(ctx, row, signal);
  } catch (error) {
    if (signal.aborted || ctx.closing.aborted) return; // still due, or cancelled by its caller
    if (!(error instanceof AppError)) ctx.log.error("a response failed", { response: row.id, error });
    const code = error instanceof AppError ? error.code : "server_error";
    const message = error instanceof AppError ? error.message : "Unexpected server error";
    response = { ...row.response, status: "failed", error: { code, message } };
  }
  const { status } = response;
  const action = status === "failed" ? "fail" : status === "incomplete" ? "cut" : "complete";
  const subject = { id: row.id, now: ctx.clock.now() };
  try {
    write(ctx.db, (tx) => {
      if (!transition(tx, machine, action, subject, { response, task: null })) return; // it was cancelled meanwhile
      mustFit(ctx, tx, row.workspaceId);
      appendAnswer(ctx, tx, { workspaceId: row.workspaceId, input: row.input, response });
    });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const failed = { ...row.response, status: "failed" as const, error: { code: error.code, message: error.message } };
    write(ctx.db, (tx) => void transition(tx, machine, "fail", subject, { response: failed, task: null }));
  }
}

type Task = Pick<ResponseRow, "workspaceId" | "keyId" | "task" | "response">;

export async function answerOf(ctx: Ctx, row: Task, signal: AbortSignal): Promise<ModelResponse> {
  const { workspaceId, keyId, task } = row;
  if (!task) throw new Error("a background response without its request");
  const { model, messages, stream: _stream, n: _n, ...params } = task;
  const { deployment, agentId } = resolveModel(ctx, workspaceId, model);
  refuseServers(ctx, workspaceId, agentId);
  const by = { workspaceId, deploymentId: deployment.id, keyId, background: true, signal };
  const generation = await generate(ctx, { ...by, messages, params });
  const usage = { prompt_tokens: generation.promptTokens, completion_tokens: generation.completionTokens };
  return toResponse(row.response, {
    choices: [{ index: 0, message: generation.message, logprobs: null, finish_reason: generation.finishReason }],
    usage: { ...usage, total_tokens: generation.promptTokens + generation.completionTokens },
  });
}
