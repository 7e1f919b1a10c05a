/** The storage that a workspace uses, and its quotas. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { type QuotaName, quotaOf } from "../../../platform/config/quotas.ts";
import type { Db } from "../../../platform/db/db.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import type { OpenMeter } from "../../../platform/storage/meter.ts";
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
  chats: { label: "conversations, stored responses, stored chats and rollouts", name: "chat_bytes" },
  prefixes: { label: "prompts on the disk", name: "prefix_bytes" },
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
  return fullText(key.kind, { ...limitOf(where.config, key), used: usedBytes(where.db, key) });
}

const fullText = (kind: Kind, { most, setting, used }: { most: number; setting: string; used: number }) =>
  `the ${QUOTAS[kind].label} of this workspace may hold ${most} bytes (${setting}), and ${used} are in use`;

const refusalOf = (bytes: number, why: string, param?: string) =>
  new AppError(
    "quota_exceeded",
    `${bytes > 1 ? `${bytes} bytes cannot` : "Nothing more can"} be stored: ${why}. Delete some, or ask the operator to raise the setting`,
    param === undefined ? {} : { param },
  );

/**
 * Throws 422 if the quota has no room for `bytes`. Called in the commit that keeps them, so that two callers cannot both
 * take the last byte. Also called before content is sent, with its size as far as it is known.
 */
export function mustHaveRoom(where: Reading, key: StorageKey, { bytes, param }: { bytes: number; param?: string }) {
  const why = lacksRoom(where, key, bytes);
  if (why !== undefined) throw refusalOf(bytes, why, param);
}

type Metering = {
  /** Names the field in an error. */
  param?: string;
  /** Bytes that the commit removes which keeps the new ones. */
  replaced?: number;
  /**
   * For content that the workspace may have already, which then takes no room: only the commit can tell. Everything on
   * its way under this name may have as many bytes together as the whole quota.
   */
  onItsWay?: string;
};

/** Counts bytes of one kind while they are written. The caller disposes of the meter. */
export function meterOf(ctx: Ctx, key: StorageKey, { param, onItsWay, replaced = 0 }: Metering = {}): OpenMeter {
  const { workspaceId, kind } = key;
  const { most, setting } = limitOf(ctx.config, key);
  const used = () => usedBytes(ctx.db, key);
  return ctx.state.storageUsage.meters.open({
    key: [workspaceId, kind, onItsWay ?? ""].join(" "),
    most: most === 0 ? Number.POSITIVE_INFINITY : most,
    used: onItsWay === undefined ? () => used() - replaced : () => 0,
    refusal: (bytes, others) => {
      const written = others > 0 ? `, and ${others} more are being written` : "";
      return refusalOf(bytes, `${fullText(key.kind, { most, setting, used: used() })}${written}`, param);
    },
    mustFit: (bytes) => mustHaveRoom(ctx, key, { bytes, ...(param === undefined ? {} : { param }) }),
  });
}

/** For content without a quota: only the free space of the disk counts. The caller disposes of the meter. */
export const spaceMeter = (ctx: Pick<Ctx, "state">): OpenMeter => ctx.state.storageUsage.meters.open();

/** Called before work that stores something of unknown size. */
export function mustBeOpen(where: Reading, key: StorageKey, param?: string) {
  mustHaveRoom(where, key, { bytes: 1, ...(param === undefined ? {} : { param }) });
  mustLeaveSpace(where);
}
