/**
 * One try of a push, from the row to the commit. Each step can be repeated: the repository may exist, the hub says which
 * contents it has, and the same commit twice changes nothing. So a kill at any line only repeats a step.
 */
import { createHash } from "node:crypto";
import type { Ctx } from "../../../context.ts";
import { MIB } from "../../../lib/units.ts";
import { HubError, type HubFile, listFiles } from "../../serving/models/hub/hub.ts";
import { tokenFor } from "../../serving/models/hub/token.ts";
import { contentsOf, type PushedFile } from "./contents.ts";
import { canGoOn } from "./policy.ts";
import * as protocol from "./protocol.ts";
import * as rows from "./rows.ts";
import { dropSpooled, type Spooled, spool } from "./spool.ts";
import type { PushRow, SentFile, Upload } from "./table.ts";

const SAMPLE_BYTES = 512;
/** A hub that wants more than this inside a commit is refused. */
const MOST_SMALL_BYTES = 32 * MIB;
const CARD = "README.md";
/** False: the files are still being made. */
export async function pushOnce(ctx: Ctx, row: PushRow, signal: AbortSignal): Promise<boolean> {
  const { workspaceId, repo } = row;
  const access = tokenFor(ctx, workspaceId);
  if ("refusal" in access) throw new HubError(access.refusal, false);
  const contents = await contentsOf(ctx, row);
  if ("waits" in contents) return false;
  const hub = { ctx, workspaceId, repo, token: access.token, signal };
  const card = new TextEncoder().encode(contents.card);
  const files: PushedFile[] = [cardFile(card), ...contents.files];
  const total = files.reduce((sum, { size }) => sum + size, 0);
  if (!rows.begin(ctx, row.id, total)) return true; // cancelled meanwhile
  await protocol.createRepo(hub, row.isPrivate);
  const samples = await Promise.all(files.map(async (file) => ({ ...file, sample: await headOf(file) })));
  const large = await protocol.largeOf(hub, samples);
  const small = await smallFiles(files.filter(({ path }) => !large.has(path)));
  // Not read from the row: a commit of the database may be lost while this goes on.
  const sent: SentFile[] = [];
  for (const file of files.filter(({ path }) => large.has(path))) {
    signal.throwIfAborted();
    sent.push(await sendLarge(hub, row.id, file));
  }
  const commitId = await protocol.commit(hub, {
    title: `Push ${row.jobId ?? row.modelId ?? repo} with Verk`,
    small,
    large: sent,
  });
  const listed = await listFiles(ctx, repo, { token: access.token, signal, workspaceId });
  mustMatch(listed, sent, small);
  rows.complete(ctx, row, { url: protocol.repoUrl(hub), commitId });
  return true;
}

const cardFile = (bytes: Uint8Array): PushedFile => ({
  path: CARD,
  size: bytes.length,
  open: async (offset, count) => new Blob([bytes.slice(offset, offset + count)]).stream(),
});

const headOf = async ({ open, size }: PushedFile) =>
  size === 0 ? new Uint8Array() : await new Response(await open(0, Math.min(size, SAMPLE_BYTES))).bytes();

async function smallFiles(files: readonly PushedFile[]) {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes > MOST_SMALL_BYTES)
    throw new HubError(`The hub wants ${bytes} bytes inside one commit, which is too much`, false);
  return await Promise.all(
    files.map(async ({ path, size, open }) => ({ path, content: await new Response(await open(0, size)).bytes() })),
  );
}

/** Sends the content unless the hub has it, from an earlier try or from another push. */
async function sendLarge(hub: protocol.Hub, id: string, file: PushedFile): Promise<SentFile> {
  const { ctx } = hub;
  const before = rows.current(ctx.db, id)?.sent.find(({ path, size }) => path === file.path && size === file.size);
  if (before) return before;
  const spooled = await spool(ctx, id, file);
  const sending = { path: file.path, sha256: spooled.sha256, size: file.size };
  const target = await protocol.targetFor(hub, sending);
  if (target) {
    if (target.parts.length === 0) await protocol.putWhole(hub, target, Bun.file(spooled.path));
    else await sendParts(hub, { id, target, sending, spooled });
    if (target.verify !== undefined) await protocol.verify(hub, target.verify, sending);
  }
  rows.recordSent(ctx, id, sending);
  await dropSpooled(file, spooled);
  return sending;
}

type Sending = { id: string; target: protocol.Target; sending: SentFile; spooled: Spooled };

/** Goes on after the last part that the hub has. Each part is in the row before the next one is sent. */
async function sendParts(hub: protocol.Hub, { id, target, sending, spooled }: Sending) {
  const { ctx, signal } = hub;
  const now = ctx.clock.now();
  const stored = rows.current(ctx.db, id)?.upload ?? null;
  const fresh: Upload = {
    oid: sending.sha256,
    href: target.href,
    parts: target.parts,
    partBytes: target.partBytes,
    etags: [],
    at: now,
  };
  let upload = canGoOn(stored, sending.sha256, now) ? stored : fresh;
  const { parts, partBytes } = upload;
  const file = Bun.file(spooled.path);
  try {
    for (let i = upload.etags.length; i < parts.length; i++) {
      signal.throwIfAborted();
      const part = file.slice(i * partBytes, Math.min((i + 1) * partBytes, sending.size));
      const etag = await protocol.putPart(hub, parts[i] ?? "", part);
      upload = { ...upload, etags: [...upload.etags, etag] };
      rows.recordPart(ctx, id, upload, part.size);
    }
    await protocol.finishParts(hub, { oid: upload.oid, href: upload.href, etags: upload.etags });
  } catch (error) {
    // The store may have forgotten the parts: the next try begins with new addresses.
    if (error instanceof HubError && upload.etags.length === parts.length) rows.forgetUpload(ctx, id);
    throw error;
  }
}

/** A hub that has other contents than those that were sent has damaged them. */
function mustMatch(
  listed: readonly HubFile[],
  large: readonly SentFile[],
  small: readonly { path: string; content: Uint8Array }[],
) {
  const byPath = new Map(listed.map((file) => [file.path, file]));
  for (const { path, sha256, size } of large) {
    const file = byPath.get(path);
    if (file?.sha256 !== sha256 || file.size !== size) throw damaged(path, `sha256 ${sha256}`, file?.sha256);
  }
  for (const { path, content } of small) {
    const file = byPath.get(path);
    const blob = createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
    if (!file || (file.blobId !== undefined && file.blobId !== blob))
      throw damaged(path, `git blob ${blob}`, file?.blobId);
  }
}

const damaged = (path: string, expected: string, found: string | null | undefined) =>
  new HubError(
    `The hub shows ${path} with another content than the one that was sent: ${found ?? "nothing"} instead of ${expected}. Look at the repository before you use it`,
    false,
  );
