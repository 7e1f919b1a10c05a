import type { Ctx } from "../../context.ts";
import type { Secrets } from "../../lib/webhooks/rotation.ts";
import type { EndpointRow } from "./table.ts";

const aad = (id: string) => `webhook:${id}`;

export const sealSecrets = (ctx: Pick<Ctx, "secrets">, id: string, secrets: Secrets): string =>
  ctx.secrets.seal(JSON.stringify(secrets), aad(id));

/** Of an endpoint that is not deleted. */
export const openSecrets = (ctx: Pick<Ctx, "secrets">, row: Pick<EndpointRow, "id" | "secrets">): Secrets =>
  JSON.parse(new TextDecoder().decode(ctx.secrets.open(row.secrets, aad(row.id)))) as Secrets; // we sealed it
