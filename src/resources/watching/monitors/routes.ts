import { and, eq } from "drizzle-orm";
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks, MOST_IDS, named } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { tryNow } from "./evaluate.ts";
import { SEVERITIES } from "./policy.ts";
import { preview } from "./preview.ts";
import {
  CreateMonitor,
  Monitor,
  MonitorChange,
  MonitorPreview,
  MonitorTest,
  MuteMonitor,
  PreviewMonitor,
  present,
  UpdateMonitor,
} from "./schema.ts";
import * as monitors from "./service.ts";
import { monitors as table } from "./table.ts";
import { MonitorValues, ValuesQuery, valuesOf } from "./values.ts";

const ListQuery = PageQuery.extend({ severity: z.enum(SEVERITIES).optional() });

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/monitors", tags: ["Monitors"] })
    .use(authed)
    .use(byName(ctx))
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => present(monitors.create(ctx, principal, body))),
      {
        ...takes(CreateMonitor),
        detail: describe(
          "Create a monitor: thresholds over a metric in a window",
          { 201: Monitor },
          {
            description:
              "Changes of severity emit monitor.triggered (warning, alert) and monitor.recovered (ok), which webhooks deliver. The metric disk_free needs a key with the scope admin.",
          },
        ),
      },
    )
    .post("/preview", ({ principal, body }) => preview(ctx, principal, body), {
      ...takes(PreviewMonitor),
      detail: describe(
        "Replay a rule over the past and count how often it would have fired",
        { 200: MonitorPreview },
        {
          description:
            "Nothing is stored. It covers the last day, or 14 days for windows over six hours. The metrics gpu_memory, gpu_temperature, disk_free and balance have a past only if a monitor recorded it.",
        },
      ),
    })
    .get("", ({ principal, query }) => monitors.list(ctx, principal.workspaceId, query), {
      ...asks(ListQuery),
      detail: describe("List monitors", { 200: listOf(Monitor, "MonitorList") }),
    })
    .get("/:id", ({ principal, params }) => present(monitors.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a monitor", { 200: Monitor }),
    })
    .patch(
      "/:id",
      ({ principal, params, body }) => {
        const row = monitors.update(ctx, principal.workspaceId, params.id, body);
        ctx.wake("monitors.evaluate");
        return present(row);
      },
      {
        ...takes(UpdateMonitor),
        detail: describe(
          "Change a monitor",
          { 200: Monitor },
          { description: "The metric and what it measures stay. The next evaluation uses the new rule." },
        ),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = monitors.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "monitor", deleted: true };
      },
      { detail: describe("Delete a monitor and its history", { 200: Deleted("monitor") }) },
    )
    .get(
      "/:id/history",
      ({ principal, params, query }) => monitors.history(ctx, principal.workspaceId, params.id, query),
      {
        ...asks(PageQuery),
        detail: describe("List the changes of a monitor's severity", {
          200: listOf(MonitorChange, "MonitorChangeList"),
        }),
      },
    )
    .get("/:id/values", ({ principal, params, query }) => valuesOf(ctx, principal.workspaceId, params.id, query), {
      ...asks(ValuesQuery),
      detail: describe(
        "Get the values of a monitor over time",
        { 200: MonitorValues },
        { description: "One value of each minute is kept. Points without data have the value null." },
      ),
    })
    .post(
      "/:id/mute",
      ({ principal, params, body }) => present(monitors.mute(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(MuteMonitor),
        detail: describe(
          "Mute a monitor until a time, or unmute it",
          { 200: Monitor },
          {
            description:
              "A muted monitor is evaluated and emits no events. If its severity is still another one when the mute ends, the event follows.",
          },
        ),
      },
    )
    .post("/:id/test", ({ principal, params }) => tryNow(ctx, principal.workspaceId, params.id), {
      detail: describe("Evaluate a monitor now without changing it", { 200: MonitorTest }),
    });
};

/** Monitors by name, in the paths of routes. */
const byName = ({ db }: Pick<Ctx, "db">) =>
  named("mon", "monitors", (workspaceId, name) =>
    db
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), eq(table.name, name)))
      .limit(MOST_IDS)
      .all(),
  );
