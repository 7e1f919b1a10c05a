/** The server's side: an archive is read by a child process, one at a time. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import { FromInspector, type ToInspector } from "../../workers/protocol.ts";
import type { CodeArtifactRow } from "./table.ts";

const LONGEST_MS = 120_000;

type Into = { dir: string; owner: { uid: number; gid: number } | null };
export type Archive = { path: string; format: CodeArtifactRow["format"]; into?: Into };
export type Contents = Pick<CodeArtifactRow, "fileCount" | "unpackedBytes">;

/** The last one of the line. */
const lineOf = oncePer((_supervisor: Supervisor) => ({ last: Promise.resolve() as Promise<unknown> }));

/** What is in it; 422 with the entry's name when it cannot be taken. */
export function inspect(ctx: Ctx, archive: Archive): Promise<Contents> {
  const line = lineOf(ctx.supervisor);
  const mine = line.last.then(() => look(ctx, archive));
  line.last = mine.catch(() => {}); // told to the one who asked
  return mine;
}

async function look({ supervisor }: Ctx, { path, format, into }: Archive): Promise<Contents> {
  const over = Promise.withResolvers<Contents>();
  const worker = supervisor.spawn<FromInspector, ToInspector>({
    kind: "inspector",
    incoming: FromInspector,
    grants: { reads: [path], writes: into ? [into.dir] : [], owner: into?.owner != null },
    onMessage(message) {
      if (message.type === "refused") over.reject(new AppError("schema", `file: ${message.error}`, { param: "file" }));
      if (message.type === "unpacked")
        over.resolve({ fileCount: message.file_count, unpackedBytes: message.unpacked_bytes });
    },
    onExit: ({ message }) =>
      over.reject(new AppError("worker_failed", `The archive could not be read: ${message}. Try again`)),
  });
  const late = setTimeout(() => void worker.stop("the archive takes too long"), LONGEST_MS);
  try {
    worker.send({ type: "unpack", path, format, into: into ?? null });
    return await over.promise;
  } finally {
    clearTimeout(late);
    void worker.stop("no work");
  }
}
