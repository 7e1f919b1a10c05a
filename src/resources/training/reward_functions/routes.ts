import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { uploadsBy } from "../../../http/body/upload.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, flagText } from "../../../lib/schema.ts";
import { builtins } from "./builtin.ts";
import { callerSignal } from "./check.ts";
import { resolveOne, resolveRewards } from "./resolve.ts";
import { run } from "./run.ts";
import * as schema from "./schema.ts";
import * as functions from "./service.ts";
import { KINDS } from "./table.ts";
import { upload } from "./upload.ts";

const ROWS_BODY = { kind: "rewards", list: { name: "rows", most: schema.MAX_ROWS, exact: true } } as const;
const ListQuery = PageQuery.extend({
  name: z.string().optional().describe("Only versions of this name"),
  kind: z.enum(KINDS).optional().describe("Only rewards, or only data resolvers"),
  latest: flagText.default(false).describe("Only the newest version of each name"),
});
const FORM =
  "name, kind (reward or resolver), file (.py, .ts or .js, 1 MiB at most), language, description, timeout_seconds, metadata (JSON)";
const UPLOAD = `Each upload under a name is its next version. The code is loaded in the sandbox. If that fails, the version is
stored as invalid, with line and column, and cannot be run. 200: the newest version of this name has the same code and is returned.`;
const RUN = `Each function runs in its own sandboxed process. A failure is an error of one sample, not of the run. Code that
cannot be loaded is 422.`;

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const milliseconds = (seconds: number | undefined) => (seconds === undefined ? undefined : seconds * 1000);
  return new Elysia({ prefix: "/v1/reward_functions", tags: ["Reward functions"] })
    .use(authed)
    .post(
      "",
      ...uploadsBy(
        ctx,
        upload,
        describe(
          "Upload a reward function or a data resolver, or the next version of one",
          { 200: schema.RewardFunction, 201: schema.RewardFunction },
          {
            description: UPLOAD.replaceAll("\n", " "),
            accepts: { "multipart/form-data": FORM, "application/json": schema.CreateRewardFunction },
          },
        ),
      ),
    )
    .get("", ({ principal, query }) => functions.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List the versions of reward functions", {
        200: listOf(schema.RewardFunction, "RewardFunctionList"),
      }),
    })
    .get("/library", () => ({ object: "list", data: builtins(ctx), has_more: false }), {
      detail: describe("List the built-in rewards", { 200: listOf(schema.RewardFunction, "RewardFunctionList") }),
    })
    .post(
      "/run",
      ({ request, principal, body }) => {
        keepOpen(ctx, request);
        const { workspaceId } = principal;
        const { source, language, params, reward_functions: refs, seed, rows } = body;
        const parts = resolveRewards(ctx, workspaceId, {
          refs,
          source: source === undefined ? undefined : { source, language, params },
          seed,
          timeoutMs: milliseconds(body.timeout_seconds),
        });
        return run(ctx, { workspaceId, signal: callerSignal(ctx, request), parts, rows });
      },
      {
        ...takes(schema.RunRewards, ROWS_BODY),
        detail: describe(
          "Run code, or several reward functions with weights, over rows",
          { 200: schema.RewardRun },
          { description: RUN.replaceAll("\n", " ") },
        ),
      },
    )
    .get("/:id", ({ principal, params }) => functions.get(ctx, principal.workspaceId, params.id), {
      detail: describe("Get a version by id or name@3, the newest by name, or a built-in reward", {
        200: schema.RewardFunction,
      }),
    })
    .get(
      "/:id/source",
      ({ request, principal, params }) => functions.send(ctx, principal.workspaceId, params.id, request),
      { detail: describe("Get the code as it was uploaded", { 200: "text/plain" }) },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = functions.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "reward_function", deleted: true };
      },
      { detail: describe("Delete one version, by id or name@3", { 200: Deleted("reward_function") }) },
    )
    .post(
      "/:id/run",
      ({ request, principal, params: { id }, body }) => {
        keepOpen(ctx, request);
        const { workspaceId } = principal;
        const { params, seed, rows } = body;
        const part = resolveOne(ctx, workspaceId, { id, params, seed, at: { id: "id", params: "/params" } });
        const timeoutMs = milliseconds(body.timeout_seconds);
        const parts = [timeoutMs === undefined ? part : { ...part, timeoutMs }];
        return run(ctx, { workspaceId, signal: callerSignal(ctx, request), parts, rows });
      },
      {
        ...takes(schema.RunRewardFunction, ROWS_BODY),
        detail: describe(
          "Run a reward function over rows",
          { 200: schema.RewardRun },
          { description: RUN.replaceAll("\n", " ") },
        ),
      },
    );
};
