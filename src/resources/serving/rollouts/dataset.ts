/** Rollouts as rows of a dataset: one row for each conversation, from its first message to an answer that ends it. */
import { asc, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { setMade } from "../../../http/request_state.ts";
import type { Row } from "../../../lib/rows/format.ts";
import { takingTurns } from "../../../lib/turns.ts";
import * as datasets from "../../data/datasets/service.ts";
import { appendRows } from "../../data/datasets/stream/append.ts";
import type { CreateRolloutDataset, RolloutTurn } from "./schema.ts";
import * as rollouts from "./service.ts";
import { type RolloutRow, rolloutTurns as table } from "./table.ts";
import { presentTurn } from "./turns.ts";

export async function createDataset(
  ctx: Ctx,
  request: Request,
  workspaceId: string,
  { name, rollouts: ids }: CreateRolloutDataset,
) {
  const rows = ids.map((id, index) => rollouts.mustGet(ctx, workspaceId, id, `/rollouts/${index}`));
  const fields = { name, format: "chat" as const, auto_snapshot_rows: null, metadata: {} };
  const dataset = datasets.createStream(ctx, workspaceId, fields);
  setMade(request, dataset);
  const turn = takingTurns();
  let count = 0;
  for (const rollout of rows) {
    await turn();
    const conversations = conversationsOf(turnsOf(ctx, rollout)).map((each) => rowOf(rollout, each));
    if (conversations.length === 0) continue;
    await appendRows(ctx, { workspaceId, datasetId: dataset.id }, conversations);
    count += conversations.length;
  }
  return { object: "rollout.dataset" as const, id: dataset.id, rows: count };
}

const turnsOf = (ctx: Ctx, { id }: RolloutRow) =>
  ctx.db.select().from(table).where(eq(table.rolloutId, id)).orderBy(asc(table.number)).all().map(presentTurn);

/** The turns of each conversation in order. It ends with a turn that no other one goes on from. */
export function conversationsOf(turns: readonly RolloutTurn[]): RolloutTurn[][] {
  const done = turns.filter(({ status, completion }) => status === "done" && completion);
  const byNumber = new Map(done.map((turn) => [turn.number, turn]));
  const parents = new Set(done.map(({ parent }) => parent));
  return done
    .filter(({ number }) => !parents.has(number))
    .map((last) => {
      const path: RolloutTurn[] = [];
      for (let at: RolloutTurn | undefined = last; at; at = at.parent === null ? undefined : byNumber.get(at.parent))
        path.unshift(at);
      return path;
    });
}

function rowOf({ id, reward, metrics, metadata }: RolloutRow, path: readonly RolloutTurn[]): Row {
  const last = path.at(-1);
  const messages = path.flatMap((turn) => [...turn.messages, turn.completion?.choices[0]?.message ?? {}].map(shown));
  const tokens = path.flatMap((turn) => [...turn.prompt_token_ids, ...turn.token_ids]);
  const mask = path.flatMap((turn) => [...turn.prompt_token_ids.map(() => 0), ...turn.token_ids.map(() => 1)]);
  const logprobs = path.flatMap((turn) => [...turn.prompt_token_ids.map(() => 0), ...turn.logprobs]);
  return {
    messages,
    ...(last && last.tools.length > 0 ? { tools: last.tools } : {}),
    reward,
    metrics: metrics ?? {},
    rollout_id: id,
    metadata,
    token_ids: tokens,
    token_mask: mask,
    logprobs,
  } as Row;
}

/** Fields that only an answer has say nothing to a trainer. */
function shown(message: object): object {
  const { refusal: _, ...rest } = message as { refusal?: unknown };
  return rest;
}
