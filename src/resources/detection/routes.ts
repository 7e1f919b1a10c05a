/** Routes of detection, with a header for the key and an error format of their own (src/http/answer/service_errors.ts). */
import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../context.ts";
import { apiKeyHeader, area, type KeyRules } from "../../http/auth.ts";
import { readBody } from "../../http/body/json.ts";
import { keepOpen } from "../../http/connection.ts";
import { createsLater } from "../../http/idempotency.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { setMade } from "../../http/request_state.ts";
import { AppError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import { countRequest, requireQuota } from "./accounts.ts";
import * as batches from "./batches/batches.ts";
import * as config from "./config.ts";
import { fetchFile } from "./intake/files.ts";
import { withRoom } from "./intake/intake.ts";
import { spendRate } from "./intake/rate.ts";
import { type Bytes, readUpload } from "./intake/upload.ts";
import { countFailed } from "./metrics.ts";
import { namedModels } from "./policy.ts";
import { sendReport } from "./report.ts";
import * as schema from "./schema.ts";
import * as detections from "./service.ts";
import { requireQueue } from "./worker.ts";

const TAGS = ["Detection"];
const MAX_VALUES = 10_000; // a batch has three for each of its images
const FORM =
  "image or audio (the file), model, models (separated by commas), robustness and heatmap (true or false). In curl: -F image=@photo.jpg";
const BYTES = "The bytes of the file. The options model, models, robustness and heatmap are query parameters";

/** Every request counts toward the rate of the plan, reads and configuration included. */
const keyRulesOf = (ctx: Ctx): KeyRules => ({
  ...apiKeyHeader,
  admit: ({ workspaceId }) => spendRate(ctx, workspaceId),
});

export const routes = (ctx: Ctx) => new Elysia().use(detecting(ctx)).use(keeping(ctx)).use(batching(ctx));

type Call = { request: Request; principal: Principal };
/** A request for a detection that failed with one of these used nothing: the caller may simply send it again. */
const UNCOUNTED = [401, 402, 403, 429];

const detecting = (ctx: Ctx) => {
  const rules = keyRulesOf(ctx);
  const limited: KeyRules = {
    ...rules,
    admit(principal, request) {
      rules.admit?.(principal, request);
      requireQuota(ctx, principal.workspaceId);
      requireQueue(ctx, principal.workspaceId);
    },
  };
  const { authed, takes } = area(ctx, "detect", limited);
  const detect = async ({ request, principal }: Call, choice: schema.ModelChoice, file: () => Promise<Bytes>) => {
    const begunAt = performance.now();
    const named = namedModels(choice.models ?? (choice.model === undefined ? [] : [choice.model]));
    keepOpen(ctx, request);
    try {
      const bytes = await file();
      const subject = {
        bytes,
        named,
        robustness: choice.robustness,
        heatmap: choice.heatmap,
        begunAt,
        signal: request.signal,
      };
      return await detections.detect(ctx, principal.workspaceId, subject);
    } catch (error) {
      if (error instanceof AppError) countFailed(ctx.db, principal.workspaceId, error);
      throw error;
    }
  };
  /** A request counts toward the month also if its file or its fields are wrong. */
  const counted = async <T>({ workspaceId }: Principal, work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      const isTheirs = error instanceof AppError && error.status < 500 && !UNCOUNTED.includes(error.status);
      if (isTheirs || (error instanceof AppError && error.code === "fetch_failed")) countRequest(ctx, workspaceId);
      throw error;
    }
  };
  const answers = { 200: schema.Detection };
  const app = new Elysia({ tags: TAGS }).use(authed);
  for (const path of ["/api/detect", "/v1/detect"])
    app.post(
      path,
      ({ request, principal }) =>
        counted(principal, async () => {
          const { choice, decode } = await readUpload(ctx, request, principal.workspaceId);
          return detect({ request, principal }, choice, async () => decode());
        }),
      {
        ...asks(schema.DetectQuery),
        parse: "none",
        detail: describe("Detect whether an image or speech was generated", answers, {
          accepts: {
            "application/json": schema.Detect,
            "multipart/form-data": FORM,
            "image/*": BYTES,
            "audio/*": BYTES,
            "application/octet-stream": BYTES,
          },
        }),
      },
    );
  return app.post(
    "/api/detect/url",
    ({ request, principal, body }) =>
      counted(principal, () => detect({ request, principal }, body, () => fetchFile(ctx, body.url, request.signal))),
    { ...takes(schema.DetectUrl), detail: describe("Detect whether a file at a URL was generated", answers) },
  );
};

const keeping = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "detect", keyRulesOf(ctx));
  return new Elysia({ tags: TAGS })
    .use(authed)
    .get(
      "/api/detect/:id",
      ({ principal, params }) => {
        if (params.id === "url" || params.id === "batch")
          throw new AppError("method_not_allowed", `/api/detect/${params.id} takes POST`, {
            headers: { allow: "POST" },
          });
        return schema.present(detections.mustGet(ctx, principal.workspaceId, params.id));
      },
      { detail: describe("Get a detection", { 200: schema.Detection }) },
    )
    .get(
      "/api/detect/:id/crops",
      ({ principal, params }) => schema.presentCrops(detections.mustGet(ctx, principal.workspaceId, params.id)),
      { detail: describe("Get the score of each square of an image that was read", { 200: schema.Crops }) },
    )
    .get(
      "/api/detect/:id/report",
      ({ principal, params }) => sendReport(ctx, detections.mustGet(ctx, principal.workspaceId, params.id), VERSION),
      { detail: describe("Get a signed report of a detection as a page that can be printed", { 200: "text/html" }) },
    )
    .post(
      "/api/detect/:id/feedback",
      ({ principal, params, body }) =>
        schema.present(detections.giveFeedback(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(schema.GiveFeedback),
        detail: describe("Give feedback on a detection; later feedback replaces earlier", { 200: schema.Detection }),
      },
    )
    .get("/v1/config", ({ principal }) => config.present(ctx, principal.workspaceId), {
      detail: describe("Get the configuration of the account", { 200: schema.Config }),
    })
    .put("/v1/config", ({ principal, body }) => config.update(ctx, principal.workspaceId, body), {
      ...takes(schema.ChangeConfig),
      detail: describe("Change the configuration; the answer to a new webhookUrl holds its secret, once", {
        200: schema.Config,
      }),
    })
    .post("/v1/config/rotate_secret", ({ principal }) => config.rotateSecret(ctx, principal.workspaceId), {
      detail: describe("Replace the secret of webhookUrl at once; the answer holds the new one, once", {
        200: schema.Config,
      }),
    });
};

const batching = (ctx: Ctx) => {
  const { authed } = area(ctx, "detect", keyRulesOf(ctx));
  const prefix = "/api/detect/batch";
  const maxBytes = ctx.config.detect.max_batch_bytes;
  const accepting = new Elysia({ prefix, tags: TAGS }).use(authed).post(
    "",
    ({ request, principal, set }) =>
      withRoom(ctx, principal.workspaceId, async (grow) => {
        const list = { name: "images", most: schema.MOST_ITEMS };
        const body = await readBody(ctx, request, { maxBytes, maxValues: MAX_VALUES, list, grow }, schema.CreateBatch);
        keepOpen(ctx, request);
        const batch = await createsLater(ctx, { request, principal, body, set }, (once) => {
          set.status = 202;
          return batches.create(ctx, principal.workspaceId, body, once);
        });
        setMade(request, { id: batch.jobId });
        return batch;
      }),
    {
      detail: describe(
        "Detect up to 1,000 images in the background, robustness included",
        { 202: schema.Batch },
        { accepts: { "application/json": schema.CreateBatch } },
      ),
    },
  );
  const following = new Elysia({ prefix, tags: TAGS })
    .use(authed)
    .get(
      "/:jobId",
      ({ principal, params }) => batches.presentBatch(batches.mustGet(ctx, principal.workspaceId, params.jobId)),
      { detail: describe("Get a batch", { 200: schema.Batch }) },
    )
    .get(
      "/:jobId/results",
      ({ principal, params, query }) => batches.results(ctx, principal.workspaceId, params.jobId, query),
      { ...asks(schema.ResultsQuery), detail: describe("List the results of a batch", { 200: schema.BatchResults }) },
    )
    .post(
      "/:jobId/cancel",
      ({ principal, params }) => batches.presentBatch(batches.cancel(ctx, principal.workspaceId, params.jobId)),
      { detail: describe("Cancel a batch; finished results stay", { 200: schema.Batch }) },
    );
  return new Elysia().use(accepting).use(following);
};
