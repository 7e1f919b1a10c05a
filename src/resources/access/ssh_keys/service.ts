import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { regions } from "../../machines/regions/table.ts";
import { isPair, parsePrivateKey, parsePublicKey, SshKeyError, type SshPublicKey } from "./key.ts";
import { keyFileOf } from "./key_file.ts";
import { type CreateSshKey, present } from "./schema.ts";
import { type SshKeyRow, sshKeys } from "./table.ts";

const byId = preparedRow(
  sshKeys,
  and(eq(sshKeys.id, sql.placeholder("id")), eq(sshKeys.workspaceId, sql.placeholder("workspaceId"))),
);

export function mustGet(ctx: Ctx, workspaceId: string, id: string, param = "id"): SshKeyRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No SSH key ${id.slice(0, 80)}`, { param });
  return row;
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, sshKeys, eq(sshKeys.workspaceId, workspaceId), query, present);

export function create(ctx: Ctx, workspaceId: string, input: CreateSshKey): SshKeyRow {
  const now = ctx.clock.now();
  const { type, fingerprint, line } = checkPair(input);
  const id = newId("ssh", now);
  const { name, provider, metadata } = input;
  const privateKeySealed = ctx.secrets.seal(asFile(input.private_key), aad(workspaceId, id));
  const stored = { publicKey: line, privateKeySealed, fingerprint, type, provider, metadata };
  return withUniqueName(`An SSH key named ${JSON.stringify(name)} exists: choose another name`, () =>
    write(ctx.db, (tx) => {
      const row = tx
        .insert(sshKeys)
        .values({ id, workspaceId, name, ...stored, createdAt: now, updatedAt: now })
        .returning()
        .get();
      emit(tx, "ssh_key.created", { workspaceId, now }, present(row));
      return row;
    }),
  );
}

export function remove(ctx: Ctx, workspaceId: string, id: string): SshKeyRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    const user = tx.select().from(regions).where(eq(regions.sshKeyId, id)).get();
    if (user)
      throw new AppError("unsupported_state", `The region ${user.id} uses this key: delete the region first`, {
        param: "id",
      });
    tx.delete(sshKeys).where(eq(sshKeys.id, id)).run();
    emit(tx, "ssh_key.deleted", { workspaceId, now: ctx.clock.now() }, present(row));
    return row;
  });
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db.select().from(sshKeys).where(eq(sshKeys.workspaceId, workspaceId)).all();
  for (const { id } of rows) remove(ctx, workspaceId, id);
}

/** Decrypts the private key as the content of a key file of OpenSSH, for use inside this server. */
export function revealPrivateKey(ctx: Ctx, workspaceId: string, id: string): string {
  const row = mustGet(ctx, workspaceId, id);
  return keyFileOf(new TextDecoder().decode(ctx.secrets.open(row.privateKeySealed, aad(workspaceId, id))));
}

function checkPair(input: CreateSshKey): SshPublicKey {
  try {
    const publicKey = parsePublicKey(input.public_key);
    if (!isPair(publicKey.key, parsePrivateKey(input.private_key)))
      throw new SshKeyError("private_key", "does not belong to public_key");
    return publicKey;
  } catch (error) {
    if (!(error instanceof SshKeyError)) throw error;
    throw new AppError("schema", `${error.part}: ${error.message}`, { param: `/${error.part}` });
  }
}

/** ssh rejects a key file with CRLF or without a newline at the end. */
const asFile = (text: string) => `${text.trim().replaceAll("\r\n", "\n")}\n`;
const aad = (workspaceId: string, id: string) => `${workspaceId}:${id}`;
