/** The storage that a workspace uses, and its quotas. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { type QuotaName, quotaOf } from "../../platform/config/quotas.ts";
import type { Db } from "../../platform/db/db.ts";
import { preparedRow } from "../../platform/db/row.ts";
import type { Chunks } from "../../platform/files.ts";
import { leavingSpace, mustLeaveSpace } from "../../platform/machine/disk.ts";
import { type Kind, storageUsage } from "./table.ts";

const usageOf = preparedRow(
  storageUsage,
  and(eq(storageUsage.workspaceId, sql.placeholder("workspaceId")), eq(storageUsage.kind, sql.placeholder("kind"))),
);

/** `label`: for messages. */
const QUOTAS: Record<Kind, { label: string; name: QuotaName }> = {
  datasets: { label: "datasets", name: "dataset_bytes" },
  models: { label: "models", name: "model_bytes" },
  code_artifacts: { label: "code artifacts", name: "code_artifact_bytes" },
  checkpoints: { label: "checkpoints and exports of training jobs", name: "checkpoint_bytes" },
  files: { label: "files", name: "file_bytes" },
  volumes: { label: "volumes", name: "volume_bytes" },
};

/** One kind of storage of one workspace. */
export type StorageKey = { workspaceId: string; kind: Kind };
type Reading = { db: Db; config: Ctx["config"] };

export const usedBytes = (db: Db, key: StorageKey): number => usageOf(db, key)?.bytes ?? 0;

const limitOf = (config: Ctx["config"], { workspaceId, kind }: StorageKey) =>
  quotaOf(config, workspaceId, QUOTAS[kind].name);

/** Bytes that still fit. Negative after a quota was lowered; Infinity without a limit. */
export function roomOf({ db, config }: Reading, key: StorageKey): number {
  const { most } = limitOf(config, key);
  return most === 0 ? Number.POSITIVE_INFINITY : most - usedBytes(db, key);
}

/** The reason why `bytes` more do not fit; undefined: they fit. */
export function lacksRoom(where: Reading, key: StorageKey, bytes: number): string | undefined {
  if (bytes <= roomOf(where, key)) return undefined;
  const { most, setting } = limitOf(where.config, key);
  const used = usedBytes(where.db, key);
  return `the ${QUOTAS[key.kind].label} of this workspace may hold ${most} bytes (${setting}), and ${used} are in use`;
}

/**
 * Throws 422 if the quota has no room for `bytes`. Called in the commit that keeps them, so that two callers cannot both
 * take the last byte. Also called before content is sent, with its size as far as it is known.
 */
export function mustHaveRoom(where: Reading, key: StorageKey, { bytes, param }: { bytes: number; param?: string }) {
  const why = lacksRoom(where, key, bytes);
  if (why !== undefined)
    throw new AppError(
      "quota_exceeded",
      `${bytes > 1 ? `${bytes} bytes cannot` : "Nothing more can"} be stored: ${why}. Delete some, or ask the operator to raise the setting`,
      param === undefined ? {} : { param },
    );
}

/**
 * Passes the content on, and rejects it once it exceeds the whole quota or the space on the disk. Smaller content may be
 * content that the workspace has already, which takes no room: the commit decides.
 */
export async function* withinQuota(
  where: Reading,
  key: StorageKey,
  body: Chunks,
  param: string,
): AsyncGenerator<Uint8Array> {
  const quota = limitOf(where.config, key).most || Number.POSITIVE_INFINITY;
  let bytes = 0;
  for await (const chunk of leavingSpace(where, body)) {
    bytes += chunk.byteLength;
    if (bytes > quota) mustHaveRoom(where, key, { bytes, param });
    yield chunk;
  }
}

/** Called before work that stores something of unknown size. */
export function mustBeOpen(where: Reading, key: StorageKey, param?: string) {
  mustHaveRoom(where, key, { bytes: 1, ...(param === undefined ? {} : { param }) });
  mustLeaveSpace(where);
}
