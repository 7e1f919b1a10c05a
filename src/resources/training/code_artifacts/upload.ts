/**
 * The upload goes to a temporary file, is read in a child process, and only then stored. A bad archive, a client that
 * disconnects or a crash leaves only the temporary file, which the loop removes.
 */

import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { deepest, type Issue } from "../../../http/answer/issues.ts";
import { type FilePart, readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { GIB, HOUR_MS } from "../../../lib/units.ts";
import { asStorageError, cleanTemp, tempPath, type Written, writeTemp } from "../../../platform/files.ts";
import type { OpenMeter } from "../../../platform/storage/meter.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf, spaceMeter } from "../../data/storage_usage/service.ts";
import { inspect } from "./inspect.ts";
import { ArtifactFields, type CodeArtifact, present } from "./schema.ts";
import * as artifacts from "./service.ts";
import type { CodeArtifactRow } from "./table.ts";

const MAX_BYTES = 2 * GIB; // the same limit as for the unpacked files
const ABANDONED_MS = HOUR_MS;

const folderOf = (ctx: Ctx) => join(ctx.config.data_dir, "tmp");

type Upload = Written & { path: string; filename: string; format: CodeArtifactRow["format"] };

export async function upload(ctx: Ctx, call: Creation): Promise<CodeArtifact> {
  await mkdir(folderOf(ctx), { recursive: true, mode: 0o700 });
  const path = tempPath(folderOf(ctx));
  const usage = { workspaceId: call.principal.workspaceId, kind: "code_artifacts" as const };
  using meter = meterOf(ctx, usage, { param: "file", onItsWay: "archives" });
  let sent: Upload | undefined;
  try {
    const fields = await readMultipart(call.request, {
      minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
      onField: formFieldCheck(call.request, ArtifactFields),
      maxFileBytes: MAX_BYTES,
      async onFile(part) {
        if (part.name !== "file" || sent)
          throw new AppError("schema", "Send exactly one file, in the field file", { param: "file" });
        sent = await receive(part, path, meter);
      },
    });
    if (!sent) throw new AppError("schema", "file: is missing: send the archive as the field file", { param: "file" });
    return await store(ctx, call, readFields(fields, sent), { ...sent, meter });
  } finally {
    await rm(path, { force: true });
  }
}

async function receive(part: FilePart, path: string, meter: OpenMeter): Promise<Upload> {
  const format = formatOf(part.filename);
  try {
    return { path, format, filename: part.filename, ...(await writeTemp(path, part.stream, { meter })) };
  } catch (error) {
    throw asStorageError(path, "write", error);
  }
}

function formatOf(filename: string): Upload["format"] {
  if (/\.(tar\.gz|tgz)$/i.test(filename)) return "tar.gz";
  if (/\.zip$/i.test(filename)) return "zip";
  const name = JSON.stringify(filename.slice(0, 80));
  throw new AppError("schema", `file: ${name} is not a supported archive: send a .tar.gz, .tgz or .zip`, {
    param: "file",
  });
}

type Fields = { name: string; metadata: Record<string, string> };

function readFields(fields: Record<string, string>, { filename }: Upload): Fields {
  const result = ArtifactFields.safeParse({ name: filename.split(/[\\/]/).at(-1)?.slice(0, 200), ...fields });
  if (result.success) return { name: result.data.name ?? filename, metadata: result.data.metadata ?? {} };
  const [first] = result.error.issues as Issue[];
  const issue = first && deepest(first);
  const field = String(issue?.path?.[0] ?? "name");
  throw new AppError("schema", `${field}: ${issueText(issue)}`, { param: field });
}

/** Returns the artifact with the same content, or a new one. Concurrent equal uploads are merged in the commit. */
async function store(
  ctx: Ctx,
  call: Creation,
  named: Fields,
  sent: Upload & { meter: OpenMeter },
): Promise<CodeArtifact> {
  const { workspaceId } = call.principal;
  const { sha256, format, meter } = sent;
  const body = { ...named, sha256 };
  const artifact = artifacts.withContent(ctx, workspaceId, sha256);
  if (artifact) return creates(ctx, { ...call, body }, () => existing(call, artifact));
  const contents = await inspect(ctx, workspaceId, sent);
  const key = `artifacts/${newId("art", ctx.clock.now())}`;
  using copy = spaceMeter(ctx);
  return await looseKeys.store(ctx, {
    key,
    put: () => ctx.storage.put(key, Bun.file(sent.path), { expectedSha256: sha256, meter: copy }),
    own(tx, { bytes: sizeBytes }) {
      const now = ctx.clock.now();
      const before = artifacts.withContent(ctx, workspaceId, sha256);
      const answer = creates(ctx, { ...call, body }, () => {
        if (before) return existing(call, before);
        meter.keep(sizeBytes);
        const row = { workspaceId, ...named, ...contents, format, sha256, sizeBytes, storageKey: key };
        return present(artifacts.add(tx, row, now));
      });
      if (artifacts.withContent(ctx, workspaceId, sha256)?.storageKey !== key) looseKeys.drop(tx, key, now);
      return answer;
    },
  });
}

function existing({ set }: Creation, row: CodeArtifactRow): CodeArtifact {
  set.status = 200;
  return present(row);
}

/** Removes temporary files that a killed server left. */
export async function removeAbandoned(ctx: Ctx) {
  await mkdir(folderOf(ctx), { recursive: true, mode: 0o700 });
  await cleanTemp(folderOf(ctx), ABANDONED_MS, ctx.clock.now());
}
