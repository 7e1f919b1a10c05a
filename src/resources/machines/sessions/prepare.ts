/** Makes the directory of a session and copies its volumes. Can be interrupted at any point and started again. */
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import type { Once } from "../../../http/idempotency.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import { AppError } from "../../../lib/errors.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { StorageError } from "../../../platform/files.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import type { ForeignDir } from "../../../sandbox/files/foreign_dir.ts";
import { makeSandboxDir } from "../../../sandbox/files/sandbox_dir.ts";
import { openStage } from "../../../sandbox/files/stage.ts";
import { syncTree } from "../../../sandbox/files/trees.ts";
import { sessionOwner } from "../../../sandbox/jail/session_jail.ts";
import * as mounting from "../../data/volumes/materialize.ts";
import * as volumes from "../../data/volumes/service.ts";
import type { VolumeRow } from "../../data/volumes/table.ts";
import type { LiveSession } from "./live.ts";
import { machine } from "./machine.ts";
import type { CreateSession, Session } from "./schema.ts";
import * as sessions from "./service.ts";
import { requireEnabled, requireSupport } from "./support.ts";
import type { Mount, SessionRow } from "./table.ts";
import { isInWorkspace } from "./workspace/mount_paths.ts";
import { dirOf, sessionsDir } from "./workspace/paths.ts";
import { quotaOf } from "./workspace/usage.ts";
import { recordCopy } from "./workspace/write_back.ts";

const ANSWER_MS = 5_000; // Large volumes take longer. The answer then has the status `creating`.

/** `POST /v1/sessions` */
export async function open(ctx: Ctx, workspaceId: string, input: CreateSession, once?: Once): Promise<Session> {
  requireEnabled(ctx);
  mustLeaveSpace(ctx);
  await requireSupport(ctx);
  const outcome = write<{ before?: object; row?: SessionRow }>(ctx.db, (tx) => {
    const before = once?.before(tx);
    if (before) return { before };
    const row = sessions.create(ctx, tx, workspaceId, input);
    requireDisk(ctx, row);
    once?.keep(tx, sessions.shown(ctx, row));
    return { row };
  });
  if (!outcome.row) return outcome.before as Session;
  const enough = new AbortController();
  await Promise.race([prepare(ctx, outcome.row), ctx.clock.sleep(ANSWER_MS, enough.signal)]);
  enough.abort();
  return sessions.shown(ctx, sessions.find(ctx, outcome.row.id) ?? outcome.row);
}

/** Never throws: a failure becomes the `error` of the session. */
export function prepare(ctx: Ctx, row: SessionRow): Promise<void> {
  const live = ctx.state.sessions.of(row);
  live.preparing ??= make(ctx, row, live).finally(() => {
    live.preparing = undefined;
  });
  return live.preparing;
}

async function make(ctx: Ctx, row: SessionRow, live: LiveSession) {
  const { id } = row;
  try {
    await durable(ctx.db);
    await build(ctx, row, live);
    const now = ctx.clock.now();
    live.usedAt = now;
    write(ctx.db, (tx) => transition(tx, machine, "open", { id, now }, { readyAt: now, usedAt: now }));
  } catch (error) {
    if (live.ending.signal.aborted) return;
    if (!(error instanceof AppError)) ctx.log.error("creating a session failed", { session: id, error });
    const message = failureText(error);
    const now = ctx.clock.now();
    write(ctx.db, (tx) => transition(tx, machine, "fail", { id, now }, { error: message, endedAt: now, env: "" }));
    ctx.wake("sessions.reconcile");
  }
}

function failureText(error: unknown): string {
  if (error instanceof AppError) return error.message;
  if (error instanceof StorageError) return `The server cannot use its storage: ${error.advice}`;
  return "The session could not be created; the log of the server has the details";
}

async function build(ctx: Ctx, row: SessionRow, live: LiveSession) {
  const dir = dirOf(ctx, row.id);
  await makeSandboxDir(dir, sessionOwner(ctx.config.data_dir));
  for (const [i, mount] of row.volumes.entries()) {
    const below = isInWorkspace(mount.mountPath) ? mount.mountPath.slice("/workspace/".length) : undefined;
    const at = below === undefined || mount.readOnly ? i : below;
    const hashes = await fill(ctx, { dir, mount, at, share: isShared(ctx, mount), live });
    if (!mount.readOnly) await recordCopy(ctx, row, i, hashes);
    else if (below !== undefined) openStage(dir, below, sessionOwner(ctx.config.data_dir)).close(); // its mount point
  }
  await syncTree(dir);
  await syncTree(sessionsDir(ctx));
}

/** Read-only volumes are mounted as such, so their files can share the stored bytes and take no space. */
const isShared = (ctx: Ctx, { readOnly }: Mount) => readOnly && sessionOwner(ctx.config.data_dir) === undefined;

/** All copied volumes count against the quota, also those that are read-only. */
function requireDisk(ctx: Ctx, row: SessionRow) {
  const copied = row.volumes.filter((each) => ctx.config.storage.kind !== "local" || !isShared(ctx, each));
  const bytes = copied.map((each) => volumes.findAny(ctx, each.volumeId)?.totalBytes ?? 0).reduce((a, b) => a + b, 0);
  const most = quotaOf(ctx).bytes;
  if (bytes <= most) return;
  throw new AppError(
    "quota_exceeded",
    `volumes: have ${formatBytes(bytes)} together, but a session may hold ${formatBytes(most)} (sessions.disk_mib)`,
    { param: "/volumes" },
  );
}

type MountCopy = { dir: ForeignDir; mount: Mount; at: string | number; share: boolean; live: LiveSession };

/** Copies a volume into the session. Returns the hash of each file by its path. */
async function fill(ctx: Ctx, { dir, mount, at, share, live }: MountCopy): Promise<Map<string, string>> {
  const volume: VolumeRow | undefined = volumes.findAny(ctx, mount.volumeId);
  if (!volume) throw new AppError("resource_not_found", `Volume ${mount.name} was deleted meanwhile`);
  const hashes = new Map<string, string>();
  const stage = openStage(dir, at, sessionOwner(ctx.config.data_dir));
  const mode = mount.readOnly ? 0o444 : 0o644;
  try {
    for (const file of mounting.filesOf(ctx, volume)) {
      live.ending.signal.throwIfAborted();
      const copyOut = (temp: string) => mounting.copyOut(ctx, file, temp, { share });
      if ((await stage.put(file.path, mode, copyOut)) !== "gone") hashes.set(file.path, file.sha256);
    }
    return hashes;
  } finally {
    stage.close();
  }
}
