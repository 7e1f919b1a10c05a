/** The disk usage of a session and the space that is left. */
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { AppError } from "../../../../lib/errors.ts";
import { MIB } from "../../../../lib/units.ts";
import { usageOf as measureWorkspace, type Usage } from "../../../../sandbox/files/sandbox_dir.ts";
import type { JailLimits } from "../../../../sandbox/jail/types.ts";
import type { LiveSession } from "../live.ts";
import type { SessionRow } from "../table.ts";
import { dirOf } from "./paths.ts";

const SPARE_BYTES = MIB;
const SPARE_ENTRIES = 16;

export const quotaOf = ({ config }: Pick<Ctx, "config">) => ({
  bytes: config.sessions.disk_mib * MIB,
  entries: config.sessions.disk_entries,
});

const measure = (ctx: Ctx, row: SessionRow): Promise<Usage> =>
  measureWorkspace(dirOf(ctx, row.id), quotaOf(ctx).entries * 2);

/** A running command changes the usage at any moment. A measurement is cached only if no command runs. */
async function usageOf(ctx: Ctx, row: SessionRow, live: LiveSession): Promise<Usage> {
  const cached = live.running === 0 ? live.usage : undefined;
  const usage = cached ?? (await measure(ctx, row));
  live.usage = live.running === 0 ? usage : undefined;
  return usage;
}

const HIDDEN =
  "some directories of /workspace are too deep or cannot be read: change their mode, or delete them (DELETE …/files/content?recursive=true)";

type DiskLimits = Pick<JailLimits, "disk" | "fileBytes"> & { warning: string | null };

/**
 * The disk limits of a command. In a full session a command may delete files, but no file may grow: the limit is the
 * current usage and a small reserve.
 */
export async function diskLimits(ctx: Ctx, row: SessionRow): Promise<DiskLimits> {
  const live = ctx.state.sessions.of(row);
  const quota = quotaOf(ctx);
  const at = "/workspace";
  if (!live.mayBeFull) return { disk: { at, ...quota }, fileBytes: quota.bytes, warning: null };
  const usage = await usageOf(ctx, row, live);
  const full = usage.bytes > quota.bytes || usage.entries > quota.entries;
  if (!full) {
    live.mayBeFull = usage.hidden;
    return { disk: { at, ...quota }, fileBytes: quota.bytes, warning: usage.hidden ? HIDDEN : null };
  }
  return {
    disk: {
      at,
      bytes: Math.max(quota.bytes, usage.bytes) + SPARE_BYTES,
      entries: Math.max(quota.entries, usage.entries) + SPARE_ENTRIES,
    },
    fileBytes: 1,
    warning: `/workspace is full (${formatBytes(quota.bytes)}, ${quota.entries} files): commands cannot write until files are deleted`,
  };
}

/** Returns how many bytes an upload may have. Throws if no space is left, or less than `announced`. */
export async function roomFor(ctx: Ctx, row: SessionRow, announced: number | undefined): Promise<number> {
  const live = ctx.state.sessions.of(row);
  const quota = quotaOf(ctx);
  const left = (usage: Usage) =>
    usage.entries + SPARE_ENTRIES > quota.entries ? 0 : quota.bytes - usage.bytes - live.incomingBytes;
  const usage = await usageOf(ctx, row, live);
  if (usage.hidden) throw new AppError("quota_exceeded", HIDDEN, { param: "path" });
  let room = left(usage);
  if (room < (announced ?? quota.bytes / 4) && live.usage) {
    live.usage = undefined; // Uploads since the last measurement are estimated too high; measure again.
    room = left(await usageOf(ctx, row, live));
  }
  if (room < (announced ?? 1)) throw noRoom(ctx);
  return room;
}

export function noRoom(ctx: Pick<Ctx, "config">): AppError {
  const { bytes, entries } = quotaOf(ctx);
  return new AppError(
    "quota_exceeded",
    `/workspace may hold ${formatBytes(bytes)} and ${entries} files (sessions.disk_mib, sessions.disk_entries): delete some`,
    { param: "path" },
  );
}

/** Adds an upload to the cached usage, with the directories that it may have created. */
export function addUsage(live: LiveSession, bytes: number, path: string) {
  if (!live.usage) return;
  const entries = path.split("/").length;
  live.usage = {
    ...live.usage,
    bytes: live.usage.bytes + bytes + 4096 * entries,
    entries: live.usage.entries + entries,
  };
}
