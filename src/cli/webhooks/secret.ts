import { UsageError } from "../../lib/errors.ts";
import { keyOf } from "../../lib/webhooks/signature.ts";
import { ambientEnv } from "../../platform/config/config.ts";
import type { Where } from "../connect.ts";
import { connect } from "../connect.ts";
import { readAll } from "./input.ts";

const VARIABLE = "VERK_WEBHOOK_SECRET";
const MOST_BYTES = 4096;

/** Never a flag itself: other users of the machine can read those. */
export const SECRET_FLAGS = {
  endpoint: { type: "string", value: "ID", doc: "Use the secret of this endpoint (whk_…), asked of the server" },
  "secret-file": { type: "string", value: "FILE", doc: `File with the secret (default: ${VARIABLE})` },
} as const;

type Given = Where & { endpoint?: string | undefined; "secret-file"?: string | undefined };

/** Undefined: none was given. */
export async function secretOf({ endpoint, "secret-file": file, ...where }: Given): Promise<string | undefined> {
  if (endpoint !== undefined && file !== undefined)
    throw new UsageError("--endpoint and --secret-file: give one of them");
  if (endpoint !== undefined) {
    const { client } = await connect(where);
    const path = `/v1/webhooks/${encodeURIComponent(endpoint)}/secret`;
    return (await client.call<{ secret: string }>("GET", path)).body.secret;
  }
  if (file !== undefined) return checked(file, new TextDecoder().decode(await readAll(file, MOST_BYTES)));
  const named = ambientEnv()[VARIABLE];
  return named ? checked(VARIABLE, named) : undefined;
}

function checked(from: string, text: string): string {
  const secret = text.trim();
  if (keyOf(secret) === undefined)
    throw new UsageError(`${from}: expected a secret: whsec_ and base64 of 24 to 64 bytes`);
  return secret;
}

export const NO_SECRET = `There is no secret: put it into ${VARIABLE}, or give --secret-file or --endpoint.`;
