/** Unpacks an archive of a job's files. It is read in a process of its own, as on the server. */
import { EMPTY_TAR_BYTES } from "../../lib/archive/tar_write.ts";
import { MIB } from "../../lib/units.ts";
import type { Config } from "../../platform/config/config.ts";
import type { CustomPlan } from "../../platform/providers/protocol.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import { type ForeignDir, pathForWorker } from "../../sandbox/files/foreign_dir.ts";
import { sessionOwner } from "../../sandbox/jail/session_jail.ts";
import { FromInspector, type ToInspector } from "../../workers/protocol_inspector.ts";

type Host = { supervisor: Supervisor; custom: CustomPlan; config: Config };
type Format = "tar.gz" | "zip" | "tar";

/** `dir` is empty, or has no file that the archive has. */
export async function unpack({ supervisor, custom, config }: Host, path: string, format: Format, dir: ForeignDir) {
  if (format === "tar" && Bun.file(path).size <= EMPTY_TAR_BYTES) return;
  const into = { dir: pathForWorker(dir), owner: sessionOwner(config.data_dir) ?? null };
  const over = Promise.withResolvers<void>();
  const worker = supervisor.spawn<FromInspector, ToInspector>({
    kind: "inspector",
    incoming: FromInspector,
    grants: { reads: [path], writes: [into.dir], owner: into.owner !== null },
    onMessage(message) {
      if (message.type === "unpacked") over.resolve();
      if (message.type === "refused") over.reject(new Error(message.error));
    },
    onExit: ({ message }) => over.reject(new Error(`an archive could not be read: ${message}`)),
  });
  const limits = { entries: custom.limits.entries, bytes: custom.resources.disk_mib * MIB };
  worker.send({ type: "unpack", path, format, into, ...(format === "tar" ? { limits } : {}) });
  await over.promise.finally(() => worker.stop("no work"));
}
