/** The data resolver of a job: loaded once in the sandbox, copied with its code, run before the job starts. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Language } from "../../../../lib/rewards/contract.ts";
import { type Part, resolveRows } from "../../../data/datasets/stream/resolved.ts";
import { check } from "../../reward_functions/check.ts";
import { detected, formatLocation, resolverOf } from "../../reward_functions/resolve.ts";
import { rowsOf } from "../state/inputs.ts";
import type { JobResolver, JobRow } from "../table.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";
import { FORMATS } from "./references.ts";
import type { JobRows } from "./rows.ts";
import type { Rows } from "./sizing.ts";

const SOURCE = "/data_resolver_source";
const STORED = "/data_resolver";
export const PARAMS: readonly (string | null)[] = [SOURCE, STORED];
const paramOf = ({ stored }: JobResolver) => (stored ? STORED : SOURCE);

export const hasResolver = ({ data_resolver, data_resolver_source }: JobRequest) =>
  Boolean(data_resolver) || Boolean(data_resolver_source);

type Caller = { workspaceId: string; seed: number; signal: AbortSignal };

/** Null without a resolver; undefined if its code is wrong. */
export async function admitResolver(
  ctx: Ctx,
  request: JobRequest,
  caller: Caller,
  faults: Faults,
): Promise<JobResolver | null | undefined> {
  const {
    data_resolver: ref,
    data_resolver_source: source,
    data_resolver_language: requestedLanguage,
    method,
  } = request;
  const used = ref ? STORED : SOURCE;
  if (requestedLanguage && !source) faults.refuse("/data_resolver_language", "is only used with data_resolver_source");
  if (!ref && !source) return null;
  if (method === "custom") faults.refuse(used, "is not used by custom jobs: map the rows in the command");
  if (ref && source) return void faults.refuse(STORED, "give data_resolver or data_resolver_source, not both");
  return ref
    ? faults.attempt(() => storedResolver(ctx, caller.workspaceId, ref))
    : sentResolver(ctx, { source: source ?? "", requestedLanguage }, caller, faults);
}

/** It was loaded in the sandbox when it was uploaded. */
function storedResolver(ctx: Ctx, workspaceId: string, ref: string): JobResolver {
  const { row, source } = resolverOf(ctx, workspaceId, ref, STORED);
  const { id, version, timeoutMs, language } = row;
  return { stored: { id, version, timeoutMs }, source, language, train: null, evaluation: null };
}

type Sent = { source: string; requestedLanguage: Language | null | undefined };

async function sentResolver(ctx: Ctx, { source, requestedLanguage }: Sent, caller: Caller, faults: Faults) {
  const language = requestedLanguage ?? faults.attempt(() => detected(source, "data_resolver_language"));
  if (!language) return undefined;
  const code = { language, source, params: {}, seed: caller.seed, kind: "resolver" as const };
  return faults.attemptLater(async () => {
    const loaded = await check(ctx, code, caller);
    if (loaded.ok) return { source, language, train: null, evaluation: null };
    const message = `data_resolver_source: cannot be run: ${formatLocation(loaded.error)}`;
    throw new AppError("reward_invalid", message, { param: SOURCE });
  });
}

/** Hash of the code; null without a resolver. */
export const resolverHash = (resolver: JobResolver | null): string | null =>
  resolver === null
    ? null
    : new Bun.CryptoHasher("sha256").update(JSON.stringify([resolver.language, resolver.source])).digest("hex");

type Running = { signal: AbortSignal; limit?: number };

/** Maps the rows of one dataset of the job. The new rows must suit the method. */
export async function resolvePart(ctx: Ctx, job: JobRow, part: Part, rows: Rows, { signal, limit }: Running) {
  const { id: jobId, workspaceId, resolver, method, seed } = job;
  if (!resolver) throw new Error(`job ${jobId} has no data resolver`);
  const from = rowsOf(ctx, job, rows.datasetId, rows.snapshotNumber, part === "train" ? "/dataset" : "/eval_dataset");
  const { language, source, stored } = resolver;
  const param = paramOf(resolver);
  const code = { language, source, seed };
  const rowMs = stored?.timeoutMs ?? ctx.config.sandbox.sample_timeout_ms;
  const more = limit === undefined ? {} : { limit };
  const resolvedRows = await resolveRows(ctx, { jobId, workspaceId, part, code, rowMs, from, signal, param, ...more });
  if (!FORMATS[method].includes(resolvedRows.format)) {
    const wanted = FORMATS[method].join(" or ");
    const message = `${param.slice(1)}: ${method} needs rows of the format ${wanted}; the code returns ${resolvedRows.format}`;
    throw new AppError("schema", message, { param });
  }
  return resolvedRows;
}

/** Maps all rows of the job. Returns the rows that the job trains on, and the resolver with its results. */
export async function resolveAll(ctx: Ctx, job: JobRow, { train, evaluation }: JobRows, signal: AbortSignal) {
  const { resolver } = job;
  if (!resolver || !train) return { rows: { train, evaluation }, resolver };
  const { samples: _, ...resolvedRows } = await resolvePart(ctx, job, "train", train, { signal });
  if (resolver.train && resolver.train.sha256 !== resolvedRows.sha256) {
    const param = paramOf(resolver);
    const message = `${param.slice(1)}: the rows of this job were lost, and the code makes other rows now. Create it again`;
    throw new AppError("schema", message, { param });
  }
  const held = evaluation && (await resolvePart(ctx, job, "eval", evaluation, { signal }));
  const heldOut = held && {
    rows_in: held.rows_in,
    rows: held.rows,
    bytes: held.bytes,
    sha256: held.sha256,
    format: held.format,
  };
  return {
    rows: { train: { ...train, rows: resolvedRows.rows, format: resolvedRows.format }, evaluation },
    resolver: { ...resolver, train: resolvedRows, evaluation: heldOut ?? null },
  };
}
