import { UsageError } from "../../lib/errors.ts";
import { keyOf } from "../../lib/webhooks/signature.ts";
import { ambientEnv } from "../../platform/config/config.ts";
import { connect, type ServerOptions } from "../connect.ts";
import { readAll } from "./input.ts";

const VARIABLE = "VERK_WEBHOOK_SECRET";
const MOST_BYTES = 4096;

/** The secret itself is never a flag: other users can read process arguments. */
export const SECRET_FLAGS = {
  endpoint: { type: "string", value: "ID", doc: "Use the secret of this endpoint (whk_…), read from the server" },
  "secret-file": {
    type: "string",
    value: "FILE",
    doc: `File with the secret (default: environment variable ${VARIABLE})`,
  },
} as const;

type SecretFlags = ServerOptions & { endpoint?: string | undefined; "secret-file"?: string | undefined };

/** Returns undefined if no secret was given. */
export async function secretOf({ endpoint, "secret-file": file, ...where }: SecretFlags): Promise<string | undefined> {
  if (endpoint !== undefined && file !== undefined)
    throw new UsageError("--endpoint and --secret-file exclude each other. Give one of them.");
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
    throw new UsageError(`${from}: expected a secret, which is whsec_ followed by the base64 of 24 to 64 bytes`);
  return secret;
}

export const NO_SECRET = `The signing secret is missing. Set ${VARIABLE}, or give --secret-file or --endpoint.`;
