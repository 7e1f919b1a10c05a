import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx, Principal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { callerSignal } from "../reward_functions/check.ts";
import { create } from "./admission/create.ts";
import { CreateTrainingJob } from "./admission/create_schema.ts";
import { validate } from "./admission/validate.ts";
import { JobValidation } from "./admission/validation_schema.ts";
import { TrainingJob, UpdateTrainingJob } from "./schema.ts";
import * as jobs from "./service.ts";
import { byName, mustGet } from "./state/rows.ts";
import type { JobRow } from "./table.ts";
import { listJobs, presentJob } from "./views/jobs.ts";
import * as lists from "./views/lists.ts";
import * as metrics from "./views/metrics.ts";
import { setPublished } from "./views/publishing.ts";
import * as shapes from "./views/schema.ts";
import * as system from "./views/system.ts";

const PREFIX = "/v1/training_jobs";
const TAGS = ["Training jobs"];

const payerOf = ({ workspaceId, keyId }: Principal) => ({ workspaceId, keyId });

export const routes = (ctx: Ctx) => new Elysia().use(managing(ctx)).use(moving(ctx)).use(reading(ctx));

const callerOf = (ctx: Ctx, { workspaceId, keyId, scopes }: Principal, request: Request) => ({
  workspaceId,
  keyId,
  scopes,
  signal: callerSignal(ctx, request),
});

const managing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .use(byName(ctx))
    .post(
      "",
      ({ request, principal, body, set }) => {
        keepOpen(ctx, request);
        const caller = callerOf(ctx, principal, request);
        if (body.dry_run) return validate(ctx, caller, body);
        const { credentials: _, ...rest } = body; // not stored, not even as a hash, so a retry need not match them
        return createsLater<object>(ctx, { request, principal, body: rest, set }, (once) =>
          create(ctx, caller, body, once),
        );
      },
      {
        ...takes(CreateTrainingJob, { kind: "code" }),
        detail: describe("Create a training job", { 200: JobValidation, 201: TrainingJob }),
      },
    )
    .post(
      "/validate",
      ({ request, principal, body }) => {
        keepOpen(ctx, request);
        const caller = callerOf(ctx, principal, request);
        return validate(ctx, caller, body);
      },
      {
        ...takes(CreateTrainingJob, { kind: "code" }),
        detail: describe(
          "Validate a training job",
          { 200: JobValidation },
          {
            description: "Creates nothing. Loads the real model, samples a few prompts and runs the reward on them.",
          },
        ),
      },
    )
    .get("", ({ principal, query }) => listJobs(ctx, principal.workspaceId, query), {
      ...asks(shapes.ListQuery),
      detail: describe("List training jobs", {
        200: listOf(z.union([TrainingJob, shapes.ChosenJob]), "TrainingJobList"),
      }),
    })
    .get("/:id", ({ principal, params }) => presentJob(ctx, mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a training job", { 200: TrainingJob }),
    })
    .patch(
      "/:id",
      ({ principal, params, body }) => presentJob(ctx, jobs.update(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(UpdateTrainingJob),
        detail: describe("Change a job's tags, notes or group", { 200: TrainingJob }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = jobs.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "training_job", deleted: true };
      },
      {
        detail: describe(
          "Delete a finished training job",
          { 200: Deleted("training_job").meta({ id: "DeletedTrainingJob" }) },
          { description: "Also deletes its checkpoints, metrics, samples and logs. Models that it made stay." },
        ),
      },
    );
};

const moving = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  type Move = (ctx: Ctx, workspaceId: string, id: string) => JobRow;
  const handle =
    (move: Move) =>
    ({ principal, params }: { principal: { workspaceId: string }; params: { id: string } }) =>
      presentJob(ctx, move(ctx, principal.workspaceId, params.id));
  const answers = { 200: TrainingJob };
  return new Elysia({ prefix: `${PREFIX}/:id`, tags: TAGS })
    .use(authed)
    .use(byName(ctx))
    .post("/cancel", handle(jobs.cancel), { detail: describe("Cancel a training job", answers) })
    .post("/pause", handle(jobs.pause), {
      detail: describe("Pause a training job", answers, {
        description: "The job saves a checkpoint and frees its device.",
      }),
    })
    .post("/resume", ({ principal, params }) => presentJob(ctx, jobs.resume(ctx, payerOf(principal), params.id)), {
      detail: describe("Resume a paused training job", answers),
    })
    .post(
      "/publish",
      handle((...job) => setPublished(...job, true)),
      {
        detail: describe("Publish a training job", answers),
      },
    )
    .delete(
      "/publish",
      handle((...job) => setPublished(...job, false)),
      {
        detail: describe("Stop publishing a training job", answers),
      },
    );
};

const reading = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  const jobOf = ({ workspaceId }: { workspaceId: string }, id: string) => mustGet(ctx, workspaceId, id);
  return new Elysia({ prefix: `${PREFIX}/:id`, tags: TAGS })
    .use(authed)
    .use(byName(ctx))
    .get("/events", ({ principal, params, query }) => lists.events(ctx, jobOf(principal, params.id), query), {
      ...asks(PageQuery),
      detail: describe("List the events of a job", { 200: listOf(shapes.JobEvent, "TrainingJobEventList") }),
    })
    .get(
      "/metrics",
      ({ principal, params, query }) => metrics.answer(ctx, principal, jobOf(principal, params.id), query),
      {
        ...asks(shapes.MetricsQuery),
        detail: describe(
          "Get a job's metrics",
          { 200: shapes.JobMetrics },
          { description: "format=csv answers text/csv." },
        ),
      },
    )
    .get("/system", ({ principal, params }) => system.read(ctx, jobOf(principal, params.id)), {
      detail: describe(
        "Get the figures of the machine while a job ran",
        { 200: shapes.JobSystem },
        { description: "One in ten seconds, fewer for a long job. Jobs on other machines have none." },
      ),
    })
    .get("/samples", ({ principal, params, query }) => lists.samples(ctx, jobOf(principal, params.id), query), {
      ...asks(shapes.SamplesQuery),
      detail: describe("List scored completions of a step", { 200: listOf(shapes.JobSample, "TrainingJobSampleList") }),
    })
    .get("/checkpoints", ({ principal, params, query }) => lists.checkpoints(ctx, jobOf(principal, params.id), query), {
      ...asks(PageQuery),
      detail: describe("List a job's checkpoints", {
        200: listOf(shapes.JobCheckpoint, "TrainingJobCheckpointList"),
      }),
    });
};
