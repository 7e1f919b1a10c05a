/** Containers of OpenAI's clients: sessions, which hold the files and run the commands. */
import { and, eq, inArray } from "drizzle-orm";
import { z } from "zod";
import type { Ctx, Principal } from "../../../context.ts";
import { page } from "../../../http/answer/pagination.ts";
import { readBody } from "../../../http/body/json.ts";
import { isMultipart, readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, createsLater } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { MIB, MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import { open } from "../../machines/sessions/prepare.ts";
import { CreateSession } from "../../machines/sessions/schema.ts";
import * as sessions from "../../machines/sessions/service.ts";
import { type SessionRow, sessions as table } from "../../machines/sessions/table.ts";
import { usable } from "../../machines/sessions/usable.ts";
import * as workspace from "../../machines/sessions/workspace/files.ts";
import { clientList } from "../conversations/schema.ts";
import * as files from "../files/service.ts";
import type { ClientFileRow } from "../files/table.ts";
import {
  ContainerFileId,
  type ContainerFilesQuery,
  type ContainersQuery,
  type CreateContainer,
  pathOfFile,
  toContainer,
  toFile,
} from "./schema.ts";

/** A container that was deleted is not there any more. Its session is, for a while. */
const SHOWN = ["creating", "ready", "failed", "expired"] as const;
const isShown = ({ status }: SessionRow) => (SHOWN as readonly string[]).includes(status);

export async function create(ctx: Ctx, call: Creation & { body: CreateContainer }) {
  const { principal, body, set } = call;
  const { workspaceId } = principal;
  const sources = body.file_ids.map((id, i) => files.mustGet(ctx, workspaceId, id, `/file_ids/${i}`));
  const idle = body.expires_after && (body.expires_after.minutes * MINUTE_MS) / SECOND_MS;
  const input = CreateSession.parse({ name: body.name, ...(idle ? { idle_timeout_seconds: idle } : {}) });
  const session = await createsLater(ctx, call, (once) => open(ctx, workspaceId, input, once));
  set.status = 200; // as OpenAI answers
  if (sources.length > 0 && set.headers["idempotent-replayed"] === undefined)
    try {
      const row = await usable(ctx, principal, session.id);
      for (const source of sources) await copy(ctx, row, source);
    } catch (error) {
      await sessions.stop(ctx, workspaceId, session.id);
      throw error;
    }
  return toContainer(session);
}

export function mustGet(ctx: Ctx, workspaceId: string, id: string): SessionRow {
  const row = sessions.find(ctx, id);
  if (row?.workspaceId === workspaceId && isShown(row)) return row;
  throw new AppError("resource_not_found", `No container ${id.slice(0, 80)}`, { param: "id" });
}

export const get = (ctx: Ctx, workspaceId: string, id: string) =>
  toContainer(sessions.shown(ctx, mustGet(ctx, workspaceId, id)));

export function list(ctx: Ctx, workspaceId: string, { name, ...query }: ContainersQuery) {
  const isOwn = and(eq(table.workspaceId, workspaceId), inArray(table.status, [...SHOWN]));
  const within = name === undefined ? isOwn : and(isOwn, eq(table.name, name));
  return clientList(page(ctx.db, table, within, query, (row) => toContainer(sessions.shown(ctx, row))));
}

/** A session that has ended already stays in the list of sessions alone. */
export async function remove(ctx: Ctx, workspaceId: string, id: string) {
  mustGet(ctx, workspaceId, id);
  await sessions.stop(ctx, workspaceId, id);
}

const ready = (ctx: Ctx, principal: Principal, id: string) => {
  mustGet(ctx, principal.workspaceId, id);
  return usable(ctx, principal, id);
};

async function copy(ctx: Ctx, row: SessionRow, file: ClientFileRow): Promise<string> {
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) throw new LostKeyError(file.storageKey);
  const { written } = await workspace.putChunks(ctx, row, pathFor(file.filename), opened.stream, file.sizeBytes);
  return written.path;
}

/** A name is a name in /workspace, whatever it looks like. */
const pathFor = (filename: string) => {
  const name = filename.split(/[\\/]/).at(-1) ?? "";
  return `/workspace/${name === "" || name === "." || name === ".." ? "file" : name}`;
};

const FileForm = z.object({ file: z.unknown(), file_id: z.string().optional() });

/** A form with the file itself, or the id of one that was uploaded before, also as JSON. */
export async function addFile(ctx: Ctx, { request, principal, set }: Creation, id: string) {
  const row = await ready(ctx, principal, id);
  let path: string | undefined;
  const { file_id } = isMultipart(request)
    ? await readMultipart(request, {
        minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
        onField: formFieldCheck(request, FileForm),
        maxFileBytes: ctx.config.sessions.disk_mib * MIB,
        silenceMs: ctx.config.http.idle_timeout_seconds * SECOND_MS,
        async onFile(part) {
          if (part.name !== "file" || path !== undefined) throw oneFile();
          path = (await workspace.putChunks(ctx, row, pathFor(part.filename), part.stream)).written.path;
        },
      })
    : await readBody(ctx, request, bodyLimits(ctx, "small"), ContainerFileId, {});
  if ((path === undefined) === (file_id === undefined)) throw oneFile();
  path ??= await copy(ctx, row, files.mustGet(ctx, principal.workspaceId, file_id ?? "", "file_id"));
  set.status = 200;
  return toFile(id, await workspace.describeFile(ctx, row, path));
}

const oneFile = () =>
  new AppError("schema", "file: send one file in the field `file`, or the id of an uploaded one in `file_id`", {
    param: "file",
  });

type FileOf = { id: string; file: string };

/** The session and the path of a file. */
async function located(ctx: Ctx, principal: Principal, { id, file }: FileOf) {
  const row = await ready(ctx, principal, id);
  const path = pathOfFile(file);
  if (path !== undefined) return { row, path };
  throw new AppError("resource_not_found", `No file ${file.slice(0, 80)} in this container`, { param: "file" });
}

export async function getFile(ctx: Ctx, principal: Principal, names: FileOf) {
  const { row, path } = await located(ctx, principal, names);
  return toFile(names.id, await workspace.describeFile(ctx, row, path));
}

export async function sendFile(ctx: Ctx, principal: Principal, names: FileOf, request: Request): Promise<Response> {
  const { row, path } = await located(ctx, principal, names);
  return workspace.send(ctx, row, path, request);
}

export async function removeFile(ctx: Ctx, principal: Principal, names: FileOf) {
  const { row, path } = await located(ctx, principal, names);
  await workspace.describeFile(ctx, row, path); // a directory is none
  await workspace.remove(ctx, row, path, false);
}

export async function listFiles(ctx: Ctx, principal: Principal, id: string, query: ContainerFilesQuery) {
  const row = await ready(ctx, principal, id);
  const all = (await workspace.tree(ctx, row)).sort((a, b) => a.changedAt - b.changedAt || (a.path < b.path ? -1 : 1));
  if (query.order === "desc") all.reverse();
  const after = query.after === undefined ? undefined : (pathOfFile(query.after) ?? "");
  const start = after === undefined ? 0 : all.findIndex(({ path }) => path === after) + 1;
  if (after !== undefined && start === 0)
    throw new AppError("invalid_cursor", `after: no file ${query.after?.slice(0, 80)} in this container`, {
      param: "after",
    });
  const data = all.slice(start, start + query.limit).map((file) => toFile(id, file));
  return clientList({ data, has_more: start + query.limit < all.length });
}
