import type { Ctx } from "../../../context.ts";
import type { Secrets } from "./rotation.ts";
import type { EndpointRow } from "./table.ts";

const aad = (id: string) => `webhook:${id}`;

export const sealSecrets = (ctx: Pick<Ctx, "secrets">, id: string, secrets: Secrets): string =>
  ctx.secrets.seal(JSON.stringify(secrets), aad(id));

const MOST_OPEN = 1_000;

/** The endpoint must not be deleted. Opening takes 17 µs and every delivery needs it, so opened secrets are kept. */
export function openSecrets(
  { secrets: box, state }: Pick<Ctx, "secrets" | "state">,
  { id, secrets: sealed }: Pick<EndpointRow, "id" | "secrets">,
): Secrets {
  const opened = state.webhooks.openedSecrets;
  const cached = opened.get(id);
  if (cached?.sealed === sealed) return cached.secrets;
  const secrets = JSON.parse(new TextDecoder().decode(box.open(sealed, aad(id)))) as Secrets; // we sealed it
  if (opened.size >= MOST_OPEN) opened.clear();
  opened.set(id, { sealed, secrets });
  return secrets;
}
