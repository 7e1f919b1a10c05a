/** Checks connected sources. A source is stored without its secrets. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Credentials, faultOf, type Source, splitSecrets } from "../../../../lib/source.ts";
import type { Caller } from "../../../../platform/semaphore.ts";
import type { ConnectDataset, SourceValidation } from "../schema.ts";
import { type Refusal, runTask } from "./connector.ts";

type SourceBody = Source & { credentials?: Credentials | null | undefined };

/** Separates the secrets from the description of the source. Throws a 422 if the description is incomplete. */
function readSource(body: SourceBody): { source: Source; credentials: Credentials } {
  const { source_type, source_uri, hub_dataset, hub_config, db_connection, db_query, credentials } = body;
  const source = { source_type, source_uri, hub_dataset, hub_config, db_connection, db_query };
  const fault = faultOf(source);
  if (fault) throw new AppError("schema", fault.message, { param: fault.param });
  return splitSecrets(source, credentials ?? {});
}

export async function validate(ctx: Ctx, caller: Caller, body: SourceBody): Promise<SourceValidation> {
  ctx.state.datasets.checks.mustHaveRoom(caller.workspaceId);
  const outcome = await runTask(ctx, caller, { type: "validate" }, readSource(body));
  if (outcome.type === "validated") {
    const { type, ...validation } = outcome;
    return { object: "dataset.validation", valid: validation.error === null, ...validation };
  }
  const error = outcome.type === "refused" ? outcome.message : "The source did not answer";
  return { object: "dataset.validation", valid: false, num_rows: 0, num_rows_exact: false, columns: [], error };
}

/**
 * Throws a 400 with the reason if the source cannot be used. A source that needs credentials is accepted without
 * them: the job brings them.
 */
export async function checkSource(ctx: Ctx, caller: Caller, body: ConnectDataset): Promise<Source> {
  const { source, credentials } = readSource(body);
  ctx.state.datasets.checks.mustHaveRoom(caller.workspaceId);
  const outcome = await runTask(ctx, caller, { type: "test" }, { source, credentials });
  if (outcome.type !== "refused") return source;
  const none = Object.keys(credentials).length === 0;
  if (none && (outcome.code === "unauthorized" || outcome.param?.startsWith("/credentials"))) return source;
  throw unusable(outcome);
}

function unusable({ code, message, param }: Refusal): AppError {
  const extra = param === null ? {} : { param };
  return new AppError(code === "address_refused" ? "url_not_allowed" : "source_unusable", message, extra);
}
