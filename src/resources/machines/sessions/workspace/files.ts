/** Reads and writes files of a session for API calls, while its commands may be running. */
import { closeSync } from "node:fs";
import type { Ctx } from "../../../../context.ts";
import { fileResponse } from "../../../../http/answer/file_response.ts";
import { contentLength, receive, take } from "../../../../http/body/receive.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Chunks, writeTemp } from "../../../../platform/files.ts";
import { streamOf } from "../../../../sandbox/files/chunks.ts";
import { scanFiles } from "../../../../sandbox/files/collect.ts";
import { type Beneath, incomingPath } from "../../../../sandbox/files/sandbox_dir.ts";
import { discard, makeTheirs } from "../../../../sandbox/files/stage.ts";
import { sessionOwner } from "../../../../sandbox/jail/session_jail.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import type { LiveSession } from "../live.ts";
import * as sessions from "../service.ts";
import type { SessionRow } from "../table.ts";
import { dirOf } from "./paths.ts";
import { mustBeWritable, openAt } from "./read_only.ts";
import { addUsage, noRoom, roomFor } from "./usage.ts";
import { writeBack } from "./write_back.ts";

const MOST_LEVELS = 200;

type Work<T> = (beneath: Beneath, live: LiveSession) => Promise<T>;

/** Opens what is at the path for one call, and closes it at the end. */
function using<T>(ctx: Ctx, row: SessionRow, path: string, work: Work<T>): Promise<T> {
  const live = ctx.state.sessions.of(row);
  return live.use(ctx.clock, async () => {
    const beneath = openAt(ctx, row, path);
    try {
      return await work(beneath, live);
    } finally {
      beneath.close();
    }
  });
}

export const list = (ctx: Ctx, row: SessionRow, path: string) =>
  using(ctx, row, path, async (beneath) => ({
    object: "session.file_listing" as const,
    ...(await beneath.list(path)),
  }));

export type FoundFile = { path: string; bytes: number; changedAt: number };

/** The regular files below /workspace, without those of volumes that are mounted read-only. */
export const tree = (ctx: Ctx, row: SessionRow): Promise<FoundFile[]> =>
  using(ctx, row, "/workspace", async (beneath) => {
    const top = beneath.openDirectory("/workspace");
    try {
      const { files } = await scanFiles(top);
      return [...files].map(([path, { bytes, changedAt }]) => ({ path: `/workspace/${path}`, bytes, changedAt }));
    } finally {
      closeSync(top);
    }
  });

export const describeFile = (ctx: Ctx, row: SessionRow, path: string): Promise<FoundFile> =>
  using(ctx, row, path, async (beneath) => {
    const { fd, path: at, stat } = beneath.openFile(path);
    closeSync(fd);
    return { path: at, bytes: stat.bytes, changedAt: Number(stat.ctimeNs / 1_000_000n) };
  });

export function mustHavePath(path: string | undefined): string {
  if (path !== undefined) return path;
  throw new AppError("schema", "path: is required: name a file such as /workspace/a.txt", { param: "path" });
}

/** Answers GET and HEAD. */
export const send = (ctx: Ctx, row: SessionRow, path: string, request: Request): Promise<Response> =>
  using(ctx, row, path, async (beneath) => {
    const { fd, path: at, stat } = beneath.openFile(path);
    let taken = false;
    try {
      const response = await fileResponse(request, {
        name: at.split("/").at(-1) ?? at,
        contentType: "application/octet-stream",
        sizeBytes: stat.bytes,
        sha256: `${stat.inode}-${stat.bytes}-${stat.ctimeNs}`, // Only names the version: a hash would read the file.
        updatedAt: Number(stat.mtimeNs / 1_000_000n),
        async open({ offset, length = stat.bytes - offset }) {
          taken = true;
          const stream = streamOf(fd, { offset, length });
          return { stream, bytes: length, totalBytes: stat.bytes, sha256: "" };
        },
      });
      return response as Response; // It is undefined only if `open` finds no file.
    } finally {
      if (!taken) closeSync(fd);
    }
  });

/** Takes at most `maxBytes` from somewhere, and writes them with `store`. */
type Transfer = (maxBytes: number, store: Parameters<typeof receive>[3]) => ReturnType<typeof receive>;

export const put = (ctx: Ctx, row: SessionRow, path: string, request: Request) =>
  putFrom(ctx, row, path, contentLength(request), (maxBytes, store) => receive(ctx, request, { maxBytes }, store));

/** `announced`: bytes, where they are known. */
export const putChunks = (ctx: Ctx, row: SessionRow, path: string, chunks: Chunks, announced?: number) =>
  putFrom(ctx, row, path, announced, (maxBytes, store) => take({ maxBytes }, (options) => store(chunks, options)));

const putFrom = (ctx: Ctx, row: SessionRow, path: string, announced: number | undefined, transfer: Transfer) =>
  using(ctx, row, path, async (beneath, live) => {
    const target = beneath.target(path);
    mustBeWritable(row, target);
    requireShallow(target);
    const maxBytes = await roomFor(ctx, row, announced);
    const temp = incomingPath(dirOf(ctx, row.id));
    using meter = spaceMeter(ctx);
    const incoming = metered(ctx, live, maxBytes);
    try {
      const { bytes, sha256 } = await transfer(maxBytes, (body, options) =>
        writeTemp(temp, incoming.over(body), { ...options, meter }),
      ).catch((error) => {
        throw error instanceof AppError && error.code === "payload_too_large" ? noRoom(ctx) : error;
      });
      await makeTheirs(temp, 0o644, sessionOwner(ctx.config.data_dir));
      requireStillReady(ctx, row);
      const { path: at, replaced } = beneath.moveIn(temp, path);
      if (replaced) live.usage = undefined;
      else addUsage(live, bytes, at);
      const volume_errors = await writeBack(ctx, row);
      const written = { object: "session.file" as const, session_id: row.id, path: at, size: bytes, sha256 };
      return { replaced, written: { ...written, volume_errors } };
    } finally {
      incoming.close();
      await discard(temp);
    }
  });

export const remove = (ctx: Ctx, row: SessionRow, path: string, recursive: boolean) =>
  using(ctx, row, path, async (beneath, live) => {
    mustBeWritable(row, beneath.target(path));
    const removed = await beneath.remove(path, { recursive });
    live.usage = undefined;
    const volume_errors = await writeBack(ctx, row);
    return {
      object: "session.file" as const,
      session_id: row.id,
      path: removed.path,
      deleted: true as const,
      volume_errors,
    };
  });

/** Uploads at the same time share the space that is left. */
function metered(ctx: Ctx, live: LiveSession, maxBytes: number) {
  let ownBytes = 0;
  const others = live.incomingBytes;
  return {
    async *over(body: Chunks) {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        ownBytes += chunk.byteLength;
        live.incomingBytes += chunk.byteLength;
        if (live.incomingBytes - others > maxBytes) throw noRoom(ctx);
        yield chunk;
      }
    },
    close() {
      live.incomingBytes -= ownBytes;
    },
  };
}

function requireStillReady(ctx: Ctx, row: SessionRow) {
  const fresh = sessions.find(ctx, row.id) ?? row;
  if (fresh.status !== "ready") throw sessions.notReady(fresh);
}

/** The disk guard of a command does not look deeper than this, and kills a command whose files it cannot count. */
function requireShallow(path: string) {
  if (path.split("/").length > MOST_LEVELS)
    throw new AppError("invalid_request", `path: must have at most ${MOST_LEVELS} levels`, { param: "path" });
}
