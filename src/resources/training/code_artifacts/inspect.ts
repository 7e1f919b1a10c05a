/** Reads an archive in a child process. Few archives are read at a time. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { FromInspector, type ToInspector } from "../../../workers/protocol_inspector.ts";
import type { CodeArtifactRow } from "./table.ts";

const LONGEST_MS = 2 * MINUTE_MS;
const LONGEST_OF_JOB_MS = 60 * MINUTE_MS; // large volumes

type Target = { dir: string; owner: { uid: number; gid: number } | null };
/** With `into`, the archive is also unpacked. */
export type Archive = {
  path: string;
  format: CodeArtifactRow["format"] | "tar";
  into?: Target;
  limits?: { entries: number; bytes: number };
};
export type Contents = Pick<CodeArtifactRow, "fileCount" | "unpackedBytes">;

/** 422 with the entry's name if the archive is refused. */
export async function inspect(ctx: Ctx, workspaceId: string, archive: Archive): Promise<Contents> {
  const release = await ctx.state.codeArtifacts.inspections.acquire({ workspaceId });
  try {
    return await runInspector(ctx, archive);
  } finally {
    release?.();
  }
}

async function runInspector({ supervisor }: Ctx, { path, format, into, limits }: Archive): Promise<Contents> {
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
  const late = setTimeout(
    () => void worker.stop("reading the archive took too long"),
    limits ? LONGEST_OF_JOB_MS : LONGEST_MS,
  );
  try {
    worker.send({ type: "unpack", path, format, into: into ?? null, ...(limits ? { limits } : {}) });
    return await over.promise;
  } finally {
    clearTimeout(late);
    void worker.stop("no work");
  }
}
