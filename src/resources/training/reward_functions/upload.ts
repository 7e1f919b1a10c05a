/** Uploads a new version: reads it, loads it in the sandbox, and stores it with the result, good or bad. */
import type { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { deepest, type Issue } from "../../../http/answer/issues.ts";
import { readBody } from "../../../http/body/json.ts";
import { isMultipart, readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, createsLater, type Once } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Language, MAX_SOURCE_BYTES, type Rejection } from "../../../lib/rewards/contract.ts";
import { languageOfFile } from "../../../lib/rewards/language.ts";
import type { Metadata } from "../../../lib/schema.ts";
import { issueText } from "../../../lib/text/issue.ts";
import { write } from "../../../platform/db/db.ts";
import type { Loaded } from "../../../sandbox/reward/types.ts";
import { isBuiltin } from "./builtin.ts";
import { callerSignal, check } from "./check.ts";
import { detected } from "./resolve.ts";
import { CreateRewardFunction, present, type RewardFunction, RewardFunctionFields } from "./schema.ts";
import * as functions from "./service.ts";
import type { Kind, RewardFunctionRow } from "./table.ts";

type Upload = {
  name: string;
  kind: Kind;
  source: string;
  sha256: string;
  language: Language;
  /** Undefined if the request leaves it out. */
  description: string | null | undefined;
  metadata: Metadata | undefined;
  timeoutMs: number | undefined;
};

export async function upload(ctx: Ctx, call: Creation): Promise<RewardFunction> {
  const upload = isMultipart(call.request) ? await readForm(ctx, call.request) : await readObject(ctx, call.request);
  const { source, ...body } = upload;
  return createsLater(ctx, { ...call, body }, async (once) => {
    const before = once && write(ctx.db, (tx) => once.before(tx));
    if (before) return before as RewardFunction; // the answer that `keep` stored
    for (;;) {
      const answer = await store(ctx, call, upload, once);
      if (answer) return answer;
    }
  });
}

/**
 * Returns the newest version if it has the same code, else a new one. Undefined if the newest version was deleted
 * meanwhile: call it again.
 */
async function store(ctx: Ctx, call: Creation, upload: Upload, once?: Once): Promise<RewardFunction | undefined> {
  const { workspaceId } = call.principal;
  const sameAs = (row: RewardFunctionRow | undefined) => (row && isSame(row, upload) ? row : undefined);
  const current = (reach: Pick<Ctx, "db">) =>
    sameKind(functions.newest(reach, workspaceId, upload.name), upload, call.request);
  const existing = sameAs(current(ctx));
  const kind = upload.kind === "resolver" ? { kind: upload.kind } : {};
  const code = { language: upload.language, source: upload.source, params: {}, seed: 0, ...kind };
  const loaded = existing
    ? undefined
    : await check(ctx, code, { workspaceId, signal: callerSignal(ctx, call.request) });
  return write(ctx.db, (tx): RewardFunction | undefined => {
    const same = sameAs(current({ db: tx })); // uploaded meanwhile
    if (!same && !loaded) return undefined;
    if (same) call.set.status = 200;
    const version = loaded && { ...rowOf(ctx, upload, loaded), workspaceId };
    const row = same ?? (version && functions.add(tx, version, ctx.clock.now()));
    const answer = row && present(row);
    if (answer) once?.keep(tx, answer);
    return answer;
  });
}

/** All versions of a name have one kind. */
function sameKind(row: RewardFunctionRow | undefined, { name, kind }: Upload, request: Request) {
  if (!row || row.kind === kind) return row;
  const message = `kind: ${name} is a ${row.kind}, and all versions of a name have one kind: choose another name for this ${kind}`;
  throw new AppError("schema", message, { param: isMultipart(request) ? "kind" : "/kind" });
}

/** Errors that the same code will have again. After others, such as a timeout, the code is loaded again. */
const LASTING: readonly Rejection["kind"][] = ["syntax", "signature", "exception"];

function isSame(row: RewardFunctionRow, { sha256, language, description, metadata, timeoutMs }: Upload): boolean {
  if (row.sha256 !== sha256 || row.language !== language) return false;
  if (description !== undefined && description !== row.description) return false;
  if (metadata !== undefined && !Bun.deepEquals(metadata, row.metadata)) return false;
  if (timeoutMs !== undefined && timeoutMs !== row.timeoutMs) return false;
  return row.error === null || LASTING.includes(row.error.kind);
}

function rowOf(ctx: Ctx, upload: Upload, loaded: Loaded): Omit<functions.NewVersion, "workspaceId"> {
  return {
    name: upload.name,
    kind: upload.kind,
    language: upload.language,
    description: upload.description ?? null,
    metadata: upload.metadata ?? {},
    timeoutMs: upload.timeoutMs ?? ctx.config.sandbox.sample_timeout_ms,
    source: upload.source,
    sha256: upload.sha256,
    sizeBytes: Buffer.byteLength(upload.source),
    entrypoints: loaded.ok ? loaded.entrypoints : [],
    status: loaded.ok ? "ready" : "invalid",
    error: loaded.ok ? null : loaded.error,
  };
}

async function readObject(ctx: Ctx, request: Request): Promise<Upload> {
  const body = await readBody(ctx, request, bodyLimits(ctx, "code"), CreateRewardFunction);
  refuseBuiltin(body.name, "/name");
  return uploadOf(body, body.source, body.language ?? detected(body.source));
}

async function readForm(ctx: Ctx, request: Request): Promise<Upload> {
  let file: { name: string; text: string } | undefined;
  const values = await readMultipart(request, {
    minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
    onField: formFieldCheck(request, RewardFunctionFields.unwrap()),
    maxFileBytes: MAX_SOURCE_BYTES,
    async onFile({ name, filename, stream }) {
      if (name !== "file" || file)
        throw new AppError("schema", "Send exactly one file, in the field file", { param: "file" });
      file = { name: filename, text: textOf(Buffer.concat(await Array.fromAsync(stream))) };
    },
  });
  if (!file) throw new AppError("schema", "file: is missing: send the code as the field file", { param: "file" });
  const fields = readFields(values);
  refuseBuiltin(fields.name, "name");
  const byName = languageOfFile(file.name);
  if (byName && fields.language && byName !== fields.language)
    throw new AppError(
      "schema",
      `language: the file's name says ${byName}, not ${fields.language}: leave one of them out`,
      {
        param: "language",
      },
    );
  return uploadOf(fields, file.text, byName ?? fields.language ?? detected(file.text, "language", "language"));
}

type Fields = z.output<typeof RewardFunctionFields>;

const uploadOf = (
  { name, kind, description, metadata, timeout_seconds }: Fields,
  source: string,
  language: Language,
): Upload => ({
  name,
  kind,
  source,
  sha256: new Bun.CryptoHasher("sha256").update(source).digest("hex"),
  language,
  description,
  metadata,
  timeoutMs: timeout_seconds === undefined ? undefined : Math.round(timeout_seconds * 1000),
});

function readFields(values: Record<string, string>): Fields {
  const result = RewardFunctionFields.safeParse(values);
  if (result.success) return result.data;
  const [first] = result.error.issues as Issue[];
  const issue = first && deepest(first);
  const field = String(issue?.path?.[0] ?? "name");
  const message = Object.hasOwn(values, field) ? issueText(issue) : "is missing";
  throw new AppError("schema", `${field}: ${message}`, { param: field });
}

function textOf(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes); // drops a byte order mark
    if (text !== "") return text;
  } catch (cause) {
    throw new AppError("schema", "file: is not valid UTF-8", { param: "file", cause });
  }
  throw new AppError("schema", "file: is empty", { param: "file" });
}

function refuseBuiltin(name: string, param: string) {
  if (isBuiltin(name))
    throw new AppError("schema", `name: ${name} is the name of a built-in reward: choose another`, { param });
}
