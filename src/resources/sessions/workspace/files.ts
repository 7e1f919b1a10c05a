/** The files of a session from outside, while its commands run. */

import { closeSync } from "node:fs";
import type { Ctx } from "../../../context.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { contentLength, receive } from "../../../http/body/receive.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Chunks, writeTemp } from "../../../platform/files.ts";
import { streamOf } from "../../../sandbox/files/chunks.ts";
import { type Beneath, incomingPath, openWorkspace } from "../../../sandbox/files/sandbox_dir.ts";
import { discard, makeTheirs } from "../../../sandbox/files/stage.ts";
import { sessionOwner } from "../../../sandbox/jail/session_jail.ts";
import { during, type Live, liveOf } from "../live.ts";
import * as sessions from "../service.ts";
import type { SessionRow } from "../table.ts";
import { isInWorkspace } from "./mount_paths.ts";
import { dirOf } from "./paths.ts";
import { addUsage, noRoom, roomFor } from "./usage.ts";
import { writeBack } from "./write_back.ts";

const MOST_LEVELS = 200;

/** A call that uses the session's files: what it opened is closed at its end. */
function using<T>(ctx: Ctx, row: SessionRow, work: (beneath: Beneath, live: Live) => Promise<T>): Promise<T> {
  const live = liveOf(ctx, row);
  return during(ctx, live, async () => {
    const beneath = openWorkspace(dirOf(ctx, row.id), sessionOwner(ctx.config.data_dir));
    try {
      return await work(beneath, live);
    } finally {
      beneath.close();
    }
  });
}

export const list = (ctx: Ctx, row: SessionRow, path: string) =>
  using(ctx, row, async (beneath) => ({ object: "session.file_listing" as const, ...(await beneath.list(path)) }));

export function mustHavePath(path: string | undefined): string {
  if (path !== undefined) return path;
  throw new AppError("schema", "path: is missing: name a file such as /workspace/a.txt", { param: "path" });
}

/** GET and HEAD. */
export const send = (ctx: Ctx, row: SessionRow, path: string, request: Request): Promise<Response> =>
  using(ctx, row, async (beneath) => {
    const { fd, path: at, stat } = beneath.openFile(path);
    let taken = false;
    try {
      const response = await fileResponse(request, {
        name: at.split("/").at(-1) ?? at,
        contentType: "application/octet-stream",
        sizeBytes: stat.bytes,
        sha256: `${stat.inode}-${stat.bytes}-${stat.ctimeNs}`, // names the version; a hash would need a reading
        updatedAt: Number(stat.mtimeNs / 1_000_000n),
        async open({ offset, length = stat.bytes - offset }) {
          taken = true;
          const stream = streamOf(fd, { offset, length });
          return { stream, bytes: length, totalBytes: stat.bytes, sha256: "" };
        },
      });
      return response as Response; // undefined is for what `open` does not find
    } finally {
      if (!taken) closeSync(fd);
    }
  });

export const put = (ctx: Ctx, row: SessionRow, path: string, request: Request) =>
  using(ctx, row, async (beneath, live) => {
    const target = beneath.target(path);
    requireWritable(row, target);
    requireShallow(target);
    const maxBytes = await roomFor(ctx, row, contentLength(request));
    const temp = incomingPath(dirOf(ctx, row.id));
    const meter = metered(ctx, live, maxBytes);
    try {
      const { bytes, sha256 } = await receive(ctx, request, { maxBytes }, (body, options) =>
        writeTemp(temp, meter.over(body), options),
      ).catch((error) => {
        throw error instanceof AppError && error.code === "payload_too_large" ? noRoom(ctx) : error;
      });
      await makeTheirs(temp, 0o644, sessionOwner(ctx.config.data_dir));
      requireStillReady(ctx, row);
      const placed = beneath.place(temp, path);
      if (placed.replaced) live.usage = undefined;
      else addUsage(live, bytes, placed.path);
      const volume_errors = await writeBack(ctx, row);
      const written = { object: "session.file" as const, session_id: row.id, path: placed.path, size: bytes, sha256 };
      return { replaced: placed.replaced, written: { ...written, volume_errors } };
    } finally {
      meter.close();
      await discard(temp);
    }
  });

export const remove = (ctx: Ctx, row: SessionRow, path: string, recursive: boolean) =>
  using(ctx, row, async (beneath, live) => {
    requireWritable(row, beneath.target(path));
    const gone = await beneath.remove(path, { recursive });
    live.usage = undefined;
    const volume_errors = await writeBack(ctx, row);
    return {
      object: "session.file" as const,
      session_id: row.id,
      path: gone.path,
      deleted: true as const,
      volume_errors,
    };
  });

/** Many may come at once: together they have the room that is left, not each. */
function metered(ctx: Ctx, live: Live, maxBytes: number) {
  let mine = 0;
  const others = live.incomingBytes;
  return {
    async *over(body: Chunks) {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        mine += chunk.byteLength;
        live.incomingBytes += chunk.byteLength;
        if (live.incomingBytes - others > maxBytes) throw noRoom(ctx);
        yield chunk;
      }
    },
    close() {
      live.incomingBytes -= mine;
    },
  };
}

function requireStillReady(ctx: Ctx, row: SessionRow) {
  const fresh = sessions.find(ctx, row.id) ?? row;
  if (fresh.status !== "ready") throw sessions.notReady(fresh);
}

/** What lies deeper than the guard of a command looks would be the end of every command. */
function requireShallow(path: string) {
  if (path.split("/").length > MOST_LEVELS)
    throw new AppError("invalid_request", `path: takes at most ${MOST_LEVELS} directories`, { param: "path" });
}

/** As it is written: whoever goes there by a link changes the session's copy, and never the volume. */
function requireWritable({ volumes }: SessionRow, path: string) {
  const held = volumes.find(
    ({ mountPath, readOnly }) =>
      readOnly && isInWorkspace(mountPath) && (path === mountPath || path.startsWith(`${mountPath}/`)),
  );
  if (held)
    throw new AppError("invalid_request", `path: ${held.mountPath} is the volume ${held.name}, mounted read-only`, {
      param: "path",
    });
}
