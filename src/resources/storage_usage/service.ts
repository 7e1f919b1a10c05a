/** What a workspace keeps, and how much more it may keep. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import type { Db } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import type { Chunks } from "../../platform/files.ts";
import { leavingSpace, mustLeaveSpace } from "../../platform/machine/disk.ts";
import { type Kind, storageUsage } from "./table.ts";

const usageOf = preparedRow(
  storageUsage,
  and(eq(storageUsage.workspaceId, sql.placeholder("workspaceId")), eq(storageUsage.kind, sql.placeholder("kind"))),
);

type Quota = { words: string; setting: string; bytes: (config: Ctx["config"]) => number };
/** 0 bytes: no limit. */
const QUOTAS: Record<Kind, Quota> = {
  datasets: { words: "datasets", setting: "quotas.dataset_bytes", bytes: ({ quotas }) => quotas.dataset_bytes },
  models: { words: "models", setting: "quotas.model_bytes", bytes: ({ quotas }) => quotas.model_bytes },
  code_artifacts: {
    words: "code artifacts",
    setting: "quotas.code_artifact_bytes",
    bytes: ({ quotas }) => quotas.code_artifact_bytes,
  },
  checkpoints: {
    words: "checkpoints and exports of training jobs",
    setting: "quotas.checkpoint_bytes",
    bytes: ({ quotas }) => quotas.checkpoint_bytes,
  },
  volumes: { words: "volumes", setting: "volumes.quota_bytes", bytes: ({ volumes }) => volumes.quota_bytes },
};

export type Place = { workspaceId: string; kind: Kind };
type Where = { db: Db; config: Ctx["config"] };

export const usedBytes = (db: Db, place: Place): number => usageOf(db, place)?.bytes ?? 0;

/** Bytes that still fit. Below zero where a quota was lowered; Infinity: no limit. */
export function roomOf({ db, config }: Where, place: Place): number {
  const quota = QUOTAS[place.kind].bytes(config);
  return quota === 0 ? Number.POSITIVE_INFINITY : quota - usedBytes(db, place);
}

/** The reason why `bytes` more do not fit; undefined: they do. */
export function lacksRoom(where: Where, place: Place, bytes: number): string | undefined {
  if (bytes <= roomOf(where, place)) return undefined;
  const { words, setting, bytes: quotaOf } = QUOTAS[place.kind];
  const used = usedBytes(where.db, place);
  return `the ${words} of this workspace may hold ${quotaOf(where.config)} bytes (${setting}), and ${used} are in use`;
}

/**
 * 422 where the quota has no room for `bytes`. Called in the commit that keeps them, so that
 * two callers cannot both take the last byte; and before content is sent, with what is known of its size then.
 */
export function mustHaveRoom(where: Where, place: Place, { bytes, param }: { bytes: number; param?: string }) {
  const why = lacksRoom(where, place, bytes);
  if (why !== undefined)
    throw new AppError(
      "quota_exceeded",
      `${bytes > 1 ? `${bytes} bytes cannot` : "Nothing more can"} be kept: ${why}. Delete some, or have the setting raised`,
      param === undefined ? {} : { param },
    );
}

/**
 * The same content, refused as soon as it is more than the whole quota or the disk has room for. Less than that may be
 * content that the workspace has already, which takes no room: the commit decides.
 */
export async function* withinQuota(
  where: Where,
  place: Place,
  body: Chunks,
  param: string,
): AsyncGenerator<Uint8Array> {
  const quota = QUOTAS[place.kind].bytes(where.config) || Number.POSITIVE_INFINITY;
  let bytes = 0;
  for await (const chunk of leavingSpace(where, body)) {
    bytes += chunk.byteLength;
    if (bytes > quota) mustHaveRoom(where, place, { bytes, param });
    yield chunk;
  }
}

/** Before work that will store something, whose size nobody knows yet. */
export function mustBeOpen(where: Where, place: Place, param?: string) {
  mustHaveRoom(where, place, { bytes: 1, ...(param === undefined ? {} : { param }) });
  mustLeaveSpace(where);
}
