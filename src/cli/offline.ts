/**
 * The only entry from the command line into the services. It works on the database directly, with or without a running
 * server. Load it with `await import()`: it takes as long to load as the server.
 */
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { explained, openOffline } from "../app.ts";
import type { Ctx } from "../context.ts";
import { auditCommand } from "../http/audit.ts";
import { UsageError } from "../lib/errors.ts";
import type { Config } from "../platform/config/config.ts";
import { write } from "../platform/db/db.ts";
import { createLog } from "../platform/log.ts";
import { becomeOwnerOf } from "../platform/workers/owner.ts";
import { DEFAULT_WORKSPACE, findDefault } from "../resources/access/setup/service.ts";
import * as workspaces from "../resources/access/workspaces/service.ts";
import type { WorkspaceRow } from "../resources/access/workspaces/table.ts";
import * as imports from "../resources/serving/models/files/import.ts";
import * as models from "../resources/serving/models/service.ts";
import type { ModelRow } from "../resources/serving/models/table.ts";
import type { ModelShape } from "../workers/protocol.ts";
import { openDataDir } from "./open_data_dir.ts";
import { settingsOf } from "./settings.ts";

export { withWorkers } from "../app.ts";
export { SCOPES } from "../context.ts";
export { rotate as rotateKey } from "../resources/access/api_keys/rotate.ts";
export * as keys from "../resources/access/api_keys/service.ts";
export * as auditExport from "../resources/access/audit/export.ts";
export * as invitations from "../resources/access/people/invitations/service.ts";
export * as persons from "../resources/access/people/persons.ts";
export { ROLES } from "../resources/access/people/policy.ts";
export { Email, NewPassword } from "../resources/access/people/schema.ts";
export * as secondFactor from "../resources/access/people/second_factor/service.ts";
export * as people from "../resources/access/people/service.ts";
export { randomPassword } from "../resources/access/people/sign_in/password.ts";
export { open as openSecret } from "../resources/access/secrets/service.ts";
export { present as presentWorkspace } from "../resources/access/workspaces/schema.ts";
export { importRows, Unreadable } from "../resources/data/datasets/stream/importer.ts";
export * as billing from "../resources/money/billing/service.ts";
export { chooseBase } from "../resources/serving/models/base_choice.ts";
export { checkpointAt } from "../resources/serving/models/files/checkpoint.ts";
export { converted } from "../resources/serving/models/files/convert.ts";
export { exportFolder, weightsFor } from "../resources/serving/models/files/export.ts";
export * as projectors from "../resources/serving/models/files/projector_file.ts";
export { removeAsOperator as removeModel } from "../resources/serving/models/remove.ts";
export { present as presentModel } from "../resources/serving/models/schema.ts";
export { secretForms } from "../resources/watching/traces/redact.ts";
export { DEFAULT_WORKSPACE, imports, models, workspaces };

type Opening = {
  /** Makes the data directory if there is none. */
  create?: boolean;
  /** Refuses to run beside a server. */
  alone?: boolean;
};

/**
 * Runs `body` on the database and returns when its writes are on the disk. Root becomes the owner of the data directory,
 * for the rest of the process.
 */
export async function offline<T>(
  config: Config,
  body: (ctx: Ctx) => T | Promise<T>,
  { create = false, alone = false }: Opening = {},
): Promise<T> {
  becomeOwnerOf(config.data_dir);
  if (!create && !existsSync(join(config.data_dir, "verk.db")))
    throw new UsageError(
      `There is no data directory at ${config.data_dir}. Name the directory of your server with --data or VERK_DATA.`,
    );
  const log = createLog({ ...config.log, level: "warn" });
  const { ctx, close } = await openDataDir(config.data_dir, () => openOffline(config, { log, alone }));
  try {
    return await body(ctx);
  } catch (error) {
    throw explained(error, config.data_dir);
  } finally {
    await close(); // flushes first
  }
}

type Where = { data?: string | undefined; config?: string | undefined; workspace?: string | undefined };

/** Runs `body` on one workspace of the data directory that the flags name. */
export const inWorkspace = <T>(
  { workspace = DEFAULT_WORKSPACE, ...where }: Where,
  body: (ctx: Ctx, workspace: WorkspaceRow) => T | Promise<T>,
  opening?: Opening,
): Promise<T> => offline(settingsOf(where), (ctx) => body(ctx, mustFindWorkspace(ctx, workspace)), opening);

const CALLER = `cli:${accountName()}`; // read before root switches to the owner of the data directory

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.()); // this user id has no name
  }
}

/** Writes the change of a command into the audit log, in the same commit. `words`: the command without its values. */
export const audited = (ctx: Ctx, words: string, workspaceId: string, made: string | null = null) =>
  auditCommand(ctx, { who: CALLER, words, workspaceId, made });

/** The first use of a data directory creates the workspace `default`; others are created by name. */
export function mustFindWorkspace(ctx: Ctx, name: string): WorkspaceRow {
  const find = () => (name === DEFAULT_WORKSPACE ? findDefault(ctx) : workspaces.findByName(ctx, name));
  const workspace = write(ctx.db, find); // one commit: another command may create it at the same time
  if (workspace) return workspace;
  throw new UsageError(
    `There is no workspace ${JSON.stringify(name)}. Create it with \`verk workspaces create ${quoted(name)}\`.`,
  );
}

const quoted = (name: string) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** The base model of an adapter, for the default workspace. */
export const baseIn = (ctx: Ctx, shape: ModelShape, base: string | undefined) =>
  imports.baseFor(ctx, mustFindWorkspace(ctx, DEFAULT_WORKSPACE).id, shape, base);

/** Writes the row of an imported file. `fitting`: models that may be the base of an adapter. */
export function registerImport(ctx: Ctx, copy: imports.ImportedFile, shape: ModelShape, base: ModelRow | undefined) {
  const { id } = mustFindWorkspace(ctx, DEFAULT_WORKSPACE);
  const fitting = models.fittingBases(ctx, id, shape).map((each) => each.name);
  return { row: imports.registerChecked(ctx, copy, shape, base), fitting };
}

type Page<T> = { data: T[]; has_more: boolean };

/** All items of a paged list. */
export function allOf<T extends { id: string }>(page: (query: { limit: number; after?: string }) => Page<T>): T[] {
  const items: T[] = [];
  for (;;) {
    const last = items.at(-1);
    const { data, has_more } = page(last ? { limit: 100, after: last.id } : { limit: 100 });
    items.push(...data);
    if (!has_more) return items;
  }
}
