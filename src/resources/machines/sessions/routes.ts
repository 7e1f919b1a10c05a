import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { sse } from "../../../http/answer/sse.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { createsLater } from "../../../http/idempotency.ts";
import { openStream } from "../../../http/limits/streams.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import * as exec from "./exec/exec.ts";
import { open } from "./prepare.ts";
import * as schema from "./schema.ts";
import * as sessions from "./service.ts";
import { requireEnabled } from "./support.ts";
import { usable } from "./usable.ts";
import * as files from "./workspace/files.ts";

const TAGS = ["Sessions"];
const PREFIX = "/v1/sessions";
const BIN = "application/octet-stream";

export const routes = (ctx: Ctx) => new Elysia().use(managing(ctx)).use(content(ctx));

const managing = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .post(
      "",
      async ({ request, principal, body, set }) => {
        requireEnabled(ctx);
        keepOpen(ctx, request);
        return createsLater(ctx, { request, principal, body, set }, (once) =>
          open(ctx, principal.workspaceId, body, once),
        );
      },
      { ...takes(schema.CreateSession), detail: describe("Create a session", { 201: schema.Session }) },
    )
    .get(
      "",
      ({ principal, query }) => {
        requireEnabled(ctx);
        return sessions.list(ctx, principal.workspaceId, query);
      },
      {
        ...asks(PageQuery.extend(schema.StatusQuery.unwrap().shape)),
        detail: describe("List sessions", { 200: listOf(schema.Session, "SessionList") }),
      },
    )
    .get(
      "/:id",
      ({ principal, params }) => {
        requireEnabled(ctx);
        return sessions.shown(ctx, sessions.mustGet(ctx, principal.workspaceId, params.id));
      },
      { detail: describe("Get a session", { 200: schema.Session }) },
    )
    .post(
      "/:id/stop",
      async ({ principal, params }) => {
        requireEnabled(ctx);
        return sessions.shown(ctx, await sessions.stop(ctx, principal.workspaceId, params.id));
      },
      { detail: describe("Stop a session and delete its files", { 200: schema.Session }) },
    )
    .post(
      "/:id/exec",
      async ({ request, principal, params, body }) => {
        const row = await usable(ctx, principal, params.id);
        keepOpen(ctx, request);
        if (!body.stream) return exec.run(ctx, await exec.admit(ctx, row, body, request.signal));
        const onEnd = openStream(ctx, principal);
        try {
          return sse(ctx, request, exec.stream(ctx, await exec.admit(ctx, row, body, request.signal)), { onEnd });
        } catch (error) {
          onEnd();
          throw error;
        }
      },
      {
        ...takes(schema.CreateExec, { kind: "exec" }),
        detail: describe(
          "Run a command",
          { 200: schema.Exec },
          {
            description: "With `stream` the answer is text/event-stream. Closing the connection cancels the command.",
          },
        ),
      },
    );
};

const content = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .get(
      "/:id/files",
      async ({ principal, params, query }) => files.list(ctx, await usable(ctx, principal, params.id), query.path),
      {
        ...asks(schema.FilesQuery),
        detail: describe("List a directory, or describe a file", { 200: schema.FileListing }),
      },
    )
    .get(
      "/:id/files/content",
      async ({ request, principal, params, query }) => {
        const row = await usable(ctx, principal, params.id);
        return files.send(ctx, row, files.mustHavePath(query.path), request);
      },
      { ...asks(schema.ContentQuery), detail: describe("Download a file; supports Range", { 200: BIN, 206: BIN }) },
    )
    .put(
      "/:id/files/content",
      async ({ request, principal, params, query, set }) => {
        const row = await usable(ctx, principal, params.id);
        const { replaced, written } = await files.put(ctx, row, files.mustHavePath(query.path), request);
        set.status = replaced ? 200 : 201;
        return written;
      },
      {
        parse: "none",
        ...asks(schema.ContentQuery),
        detail: describe(
          "Write a file; missing directories are created",
          { 200: schema.WrittenFile, 201: schema.WrittenFile },
          { accepts: { [BIN]: "The bytes of the file" } },
        ),
      },
    )
    .delete(
      "/:id/files/content",
      async ({ principal, params, query }) => {
        const row = await usable(ctx, principal, params.id);
        const recursive = query.recursive === "true" || query.recursive === "1";
        return files.remove(ctx, row, files.mustHavePath(query.path), recursive);
      },
      { ...asks(schema.DeleteQuery), detail: describe("Delete a file or a directory", { 200: schema.DeletedFile }) },
    );
};
