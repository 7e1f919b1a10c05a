import { readdirSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import type { EventType } from "../src/events/catalog.ts";
import { events } from "../src/events/table.ts";
import type { TestApp } from "./harness.ts";

export const NDJSON = { "content-type": "application/x-ndjson" };
export const prompts = (...texts: string[]) => texts.map((prompt) => ({ prompt }));

/** Calls that many dataset tests need. `app` is a function, because a test may open another app. */
export const datasetCalls = (app: () => TestApp) => ({
  create: async (more: object = {}) =>
    (await app().call("POST", "/v1/datasets", { name: "stream", format: "prompt", ...more })).body.id as string,
  append: (id: string, rows: object[], more: object = {}) =>
    app().call("POST", `/v1/datasets/${id}/rows`, { rows, ...more }),
  get: async (id: string) => (await app().call("GET", `/v1/datasets/${id}`)).body,
  snapshot: (id: string, body?: object) => app().call("POST", `/v1/datasets/${id}/snapshots`, body),
  exported: async (id: string, query = "") =>
    (await app().call("GET", `/v1/datasets/${id}/rows/export${query}`)).body as string,
  uploads: (text: string | Blob, name = "up", key?: string) => {
    const form = new FormData();
    form.append("name", name);
    form.append("file", text instanceof Blob ? text : new File([text], "rows.jsonl"));
    return app().call("POST", "/v1/datasets", undefined, { raw: form, ...(key ? { key } : {}) });
  },
  files: () => readdirSync(join(app().dir, "datasets")).filter((name) => !name.endsWith("-shm")),
  typed: (type: EventType) => app().ctx.db.select().from(events).where(eq(events.type, type)).all(),
});
