import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { rootOf } from "../../../http/host.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, numberText } from "../../../lib/schema.ts";
import { createDataset } from "./dataset.ts";
import {
  CreatedRollout,
  CreateRollout,
  CreateRolloutDataset,
  FinishRollout,
  present,
  Rollout,
  RolloutDataset,
  RolloutTurn,
} from "./schema.ts";
import * as rollouts from "./service.ts";
import { STATUSES } from "./table.ts";
import { listTurns } from "./turns.ts";

const ListQuery = PageQuery.extend({
  status: z.enum(STATUSES).optional(),
  model: z.string().optional().describe("Only rollouts of this deployment or agent"),
});
const TurnsQuery = z.object({
  after: numberText(z.int().min(0)).default(0).describe("The number of the last turn of the page before"),
  limit: numberText(z.int().min(1).max(100)).default(20),
});
const SHOWN_ONCE = { field: "api_key", fix: "If it is lost, open another rollout." };

export const routes = (ctx: Ctx) => new Elysia().use(datasetRoutes(ctx)).use(rolloutRoutes(ctx));

/** A key for inference alone makes no datasets. */
const datasetRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/rollouts", tags: ["Rollouts"] }).use(authed).post(
    "/dataset",
    ({ request, principal, body, set }) => {
      set.status = 201;
      return createDataset(ctx, request, principal.workspaceId, body);
    },
    {
      ...takes(CreateRolloutDataset),
      detail: describe(
        "Make a dataset of rollouts",
        { 201: RolloutDataset },
        {
          description:
            "One row for each conversation of a rollout, from its first message to an answer that no other turn goes on from: messages, tools, reward, metrics, token_ids, and token_mask, which is 1 where the model wrote. Rollouts without a reward have reward null.",
        },
      ),
    },
  );
};

const rolloutRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const shown = (request: Request, row: Parameters<typeof present>[0]) => present(row, rootOf(ctx, request));
  return new Elysia({ prefix: "/v1/rollouts", tags: ["Rollouts"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(
          ctx,
          { request, principal, body, set },
          () => {
            const { row, key } = rollouts.create(ctx, principal, body);
            return { ...shown(request, row), api_key: key };
          },
          SHOWN_ONCE,
        ),
      {
        ...takes(CreateRollout),
        detail: describe(
          "Open a rollout: an address and a key for an agent, which record its calls",
          { 201: CreatedRollout },
          {
            description:
              "Chat completions, responses, messages and the chat of Ollama work under base_url. Each call becomes a turn with its tokens and log-probabilities. A call that an SDK repeats (x-stainless-retry-count) gets the recorded answer.",
          },
        ),
      },
    )
    .get(
      "",
      ({ request, principal, query }) => rollouts.list(ctx, principal.workspaceId, query, rootOf(ctx, request)),
      { ...asks(ListQuery), detail: describe("List rollouts", { 200: listOf(Rollout, "RolloutList") }) },
    )
    .get(
      "/:id",
      ({ request, principal, params }) => shown(request, rollouts.mustGet(ctx, principal.workspaceId, params.id)),
      { detail: describe("Get a rollout", { 200: Rollout }) },
    )
    .get(
      "/:id/turns",
      ({ principal, params, query }) => listTurns(ctx, rollouts.mustGet(ctx, principal.workspaceId, params.id), query),
      {
        ...asks(TurnsQuery),
        detail: describe("List the turns of a rollout, the first one first", {
          200: listOf(RolloutTurn, "RolloutTurnList"),
        }),
      },
    )
    .post(
      "/:id/finish",
      ({ request, principal, params, body }) =>
        shown(request, rollouts.finish(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(FinishRollout),
        detail: describe(
          "Finish a rollout with its reward",
          { 200: Rollout },
          {
            description:
              "Also after a limit has ended it. The same reward again changes nothing; another one is refused with 400.",
          },
        ),
      },
    )
    .delete(
      "/:id",
      async ({ principal, params }) => {
        const { id } = await rollouts.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "rollout", deleted: true };
      },
      { detail: describe("Delete a rollout with its turns", { 200: Deleted("rollout") }) },
    );
};
