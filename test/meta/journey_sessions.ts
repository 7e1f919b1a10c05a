import { transition } from "../../src/events/lifecycle.ts";
import { write } from "../../src/platform/db/db.ts";
import { machine } from "../../src/resources/machines/sessions/machine.ts";
import { CreateSession } from "../../src/resources/machines/sessions/schema.ts";
import * as sessions from "../../src/resources/machines/sessions/service.ts";
import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const session = async (app: TestApp) => {
  const known = (await app.call("GET", "/v1/sessions?status=ready")).body.data[0];
  return { id: (known ?? (await app.call("POST", "/v1/sessions", {})).body).id as string };
};
const file = async (app: TestApp) => {
  const { id } = await session(app);
  const query = "?path=/workspace/a.txt";
  await app.call("PUT", `/v1/sessions/${id}/files/content${query}`, undefined, { raw: "a" });
  return { id, "?": query };
};

const inContainer = async (app: TestApp) => {
  const { id } = await file(app);
  return { id, file: `cfile_${Buffer.from("a.txt").toString("base64url")}` };
};
const form = () => {
  const made = new FormData();
  made.set("file", new Blob(["a"]), "a.txt");
  return made;
};

export const SESSIONS: Step[] = [
  { operation: "POST /v1/sessions", json: { name: "journey" } },
  { operation: "GET /v1/sessions" },
  { operation: "GET /v1/sessions/{id}", own: session },
  { operation: "POST /v1/sessions/{id}/exec", own: session, json: { command: "true" } },
  { operation: "GET /v1/sessions/{id}/files", own: session },
  { operation: "PUT /v1/sessions/{id}/files/content", own: file, body: "b" },
  { operation: "GET /v1/sessions/{id}/files/content", own: file, bytes: true },
  { operation: "DELETE /v1/sessions/{id}/files/content", own: file },
  { operation: "POST /v1/sessions/{id}/stop", own: session },
  { operation: "POST /v1/containers", json: { name: "journey" } },
  { operation: "GET /v1/containers" },
  { operation: "GET /v1/containers/{id}", own: session },
  { operation: "POST /v1/containers/{id}/files", own: session, body: form() },
  { operation: "GET /v1/containers/{id}/files", own: session },
  { operation: "GET /v1/containers/{id}/files/{file}", own: inContainer },
  { operation: "GET /v1/containers/{id}/files/{file}/content", own: inContainer, bytes: true },
  { operation: "DELETE /v1/containers/{id}/files/{file}", own: inContainer },
  { operation: "DELETE /v1/containers/{id}", own: session },
];

/** One session cannot be created, and one is idle too long. */
export function endSessions(app: TestApp) {
  const { ctx } = app;
  const now = ctx.clock.now();
  const make = () => write(ctx.db, (tx) => sessions.create(ctx, tx, app.workspaceA, CreateSession.parse({})));
  write(ctx.db, (tx) => transition(tx, machine, "fail", { id: make().id, now }, { error: "the disk was full" }));
  sessions.begin(ctx, make().id, "expire");
}
