/** Sources elsewhere: looked at, and remembered without what is secret in them. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Credentials, faultOf, type Source, splitSecrets } from "../../../lib/source.ts";
import type { ConnectDataset, SourceValidation } from "../schema.ts";
import { type Refusal, runTask } from "./connector.ts";

type Given = Source & { credentials?: Credentials | null | undefined };

/** The description with what is secret in it set apart. 422 where it cannot be right. */
export function readSource(body: Given): { source: Source; credentials: Credentials } {
  const { source_type, source_uri, hub_dataset, hub_config, db_connection, db_query, credentials } = body;
  const source = { source_type, source_uri, hub_dataset, hub_config, db_connection, db_query };
  const fault = faultOf(source);
  if (fault) throw new AppError("schema", fault.message, { param: fault.param });
  return splitSecrets(source, credentials ?? {});
}

export async function validate(ctx: Ctx, body: Given, signal?: AbortSignal): Promise<SourceValidation> {
  const told = await runTask(ctx, { type: "validate" }, readSource(body), signal ? { signal } : {});
  if (told.type === "validated") {
    const { num_rows, columns } = told;
    return { object: "dataset.validation", valid: true, num_rows, columns, error: null };
  }
  const error = told.type === "refused" ? told.message : "The source gave no answer";
  return { object: "dataset.validation", valid: false, num_rows: 0, columns: [], error };
}

/**
 * Where the source cannot be used the answer is a 400 that says why. Without credentials a source that asks for some
 * is taken as it is described: they come with the job.
 */
export async function checkSource(ctx: Ctx, body: ConnectDataset, signal?: AbortSignal): Promise<Source> {
  const { source, credentials } = readSource(body);
  const told = await runTask(ctx, { type: "test" }, { source, credentials }, signal ? { signal } : {});
  if (told.type !== "refused") return source;
  const none = Object.keys(credentials).length === 0;
  if (none && (told.code === "unauthorized" || told.param?.startsWith("/credentials"))) return source;
  throw unusable(told);
}

export function unusable({ code, message, param }: Refusal): AppError {
  const extra = param === null ? {} : { param };
  return new AppError(code === "address_refused" ? "url_not_allowed" : "source_unusable", message, extra);
}
