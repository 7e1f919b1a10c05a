import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { warn } from "../../../http/warnings.ts";
import { callerSignal } from "../../training/reward_functions/check.ts";
import * as trainingJobs from "../../training/training_jobs/service.ts";
import type { JobRow } from "../../training/training_jobs/table.ts";
import { present } from "./present.ts";
import { CreateFineTuningJob, FineTuningCheckpoint, FineTuningEvent, FineTuningJob, NO_EFFECT } from "./schema.ts";
import * as fineTuning from "./service.ts";

function nameIgnored(request: Request, { method }: CreateFineTuningJob) {
  if (method?.type !== "reinforcement") return;
  const hyperparameters = method.reinforcement.hyperparameters ?? {};
  for (const name of NO_EFFECT)
    if (Object.hasOwn(hyperparameters, name))
      warn(request, `unknown field /method/reinforcement/hyperparameters/${name}`);
}

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  type Call = { principal: Principal; params: { id: string } };
  const recordOf = ({ principal, params }: Call) => fineTuning.mustGet(ctx, principal.workspaceId, params.id);
  const moved = (move: (call: Call) => JobRow) => (call: Call) => present(recordOf(call).row, move(call));
  const answers = { 200: FineTuningJob };
  return new Elysia({ prefix: "/v1/fine_tuning/jobs", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        nameIgnored(request, body);
        const caller = { ...principal, signal: callerSignal(ctx, request) };
        return createsLater(ctx, { request, principal, body, set }, (once) => {
          set.status = 200; // as OpenAI answers
          return fineTuning.create(ctx, caller, body, once);
        });
      },
      {
        ...takes(CreateFineTuningJob, { kind: "code" }),
        detail: describe("Create a fine-tuning job, in the format of OpenAI", answers, {
          description: "A training job of the same id does the work. Its result becomes a deployment.",
        }),
      },
    )
    .get("", ({ principal, query }) => fineTuning.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List fine-tuning jobs", { 200: listOf(FineTuningJob, "FineTuningJobList") }),
    })
    .get(
      "/:id",
      (call) => {
        const { row, job } = recordOf(call);
        return present(row, job);
      },
      { detail: describe("Get a fine-tuning job", answers) },
    )
    .post(
      "/:id/cancel",
      moved(({ principal, params }) => trainingJobs.cancel(ctx, principal.workspaceId, params.id)),
      { detail: describe("Cancel a fine-tuning job", answers) },
    )
    .post(
      "/:id/pause",
      moved(({ principal, params }) => trainingJobs.pause(ctx, principal.workspaceId, params.id)),
      { detail: describe("Pause a fine-tuning job", answers) },
    )
    .post(
      "/:id/resume",
      moved(({ principal, params }) => trainingJobs.resume(ctx, principal, params.id)),
      { detail: describe("Resume a paused fine-tuning job", answers) },
    )
    .get("/:id/events", ({ query, ...call }) => fineTuning.events(ctx, recordOf(call).job, query), {
      ...asks(PageQuery),
      detail: describe("List the events of a fine-tuning job", { 200: listOf(FineTuningEvent, "FineTuningEventList") }),
    })
    .get("/:id/checkpoints", ({ query, ...call }) => fineTuning.checkpoints(ctx, recordOf(call).job, query), {
      ...asks(PageQuery),
      detail: describe("List the checkpoints of a fine-tuning job", {
        200: listOf(FineTuningCheckpoint, "FineTuningCheckpointList"),
      }),
    });
};
