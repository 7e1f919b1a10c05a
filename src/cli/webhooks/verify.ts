import { UsageError } from "../../lib/errors.ts";
import { type Refusal, TOLERANCE_SECONDS, verify } from "../../lib/webhooks/signature.ts";
import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { note, print, printJson } from "../output.ts";
import { headersOf, type Message, parseMessage, readAll } from "./input.ts";
import { NO_SECRET, SECRET_FLAGS, secretOf } from "./secret.ts";

const MOST_BYTES = 16 << 20;

const REASONS: Record<Refusal, string> = {
  missing_headers: "webhook-id, webhook-timestamp or webhook-signature is missing",
  malformed_id: "webhook-id is not 1 to 128 letters, digits, _ and -",
  malformed_timestamp: "webhook-timestamp is not a Unix time in whole seconds",
  too_old: "the timestamp is too old (--tolerance sets the maximum age)",
  too_new: "the timestamp is in the future (check the clocks of sender and receiver)",
  too_many_signatures: "webhook-signature has more than 16 entries",
  no_matching_signature: "no signature matches: the secret is wrong, or the body was changed",
};

type HeaderFlags = { id: string | undefined; timestamp: string | undefined; signature: string | undefined };

function messageOf(bytes: Uint8Array, { id, timestamp, signature }: HeaderFlags): Message {
  const flags = Object.entries({ id, timestamp, signature });
  if (flags.every(([, value]) => value === undefined)) {
    const message = parseMessage(bytes);
    if (message) return message;
    throw new UsageError(
      "Standard input has no headers. Send the headers, an empty line and the body, or the body alone with --id, --timestamp and --signature.",
    );
  }
  const missing = flags.find(([, value]) => value === undefined)?.[0];
  if (missing !== undefined)
    throw new UsageError(`--${missing} is missing. Give --id, --timestamp and --signature together.`);
  return { headers: headersOf(flags.map(([name, value]) => [`webhook-${name}`, value ?? ""])), body: bytes };
}

export const verifyDelivery = command({
  summary: "Verify the signature of a delivery on standard input: headers, an empty line, body",
  flags: {
    ...SERVER_FLAGS,
    ...SECRET_FLAGS,
    id: { type: "string", value: "ID", doc: "Header webhook-id; standard input is then the body alone" },
    timestamp: { type: "string", value: "SECONDS", doc: "Header webhook-timestamp" },
    signature: { type: "string", value: "TEXT", doc: "Header webhook-signature" },
    tolerance: { type: "string", value: "SECONDS", doc: `Maximum age of the delivery (default: ${TOLERANCE_SECONDS})` },
    json: JSON_FLAG,
  },
  examples: [
    "verk webhooks verify --endpoint whk_… < request.txt",
    'verk webhooks verify --id evt_… --timestamp 1790000000 --signature "v1,…" < body.json',
  ],
  exits: { 1: "not valid" },
  async run({ json, id, timestamp, signature, tolerance, ...rest }) {
    const toleranceSeconds = wholeOf("tolerance", tolerance) ?? TOLERANCE_SECONDS;
    const secret = await secretOf(rest);
    if (secret === undefined) throw new UsageError(NO_SECRET);
    const message = messageOf(await readAll("-", MOST_BYTES), { id, timestamp, signature });
    const nowSeconds = Math.floor(Date.now() / 1000);
    const verdict = verify(message, { secrets: [secret], nowSeconds, toleranceSeconds });
    if (json) printJson({ object: "webhook_verification", ...verdict });
    else if (verdict.valid) print(`valid: ${verdict.id}`);
    else note(`verk: not valid: ${REASONS[verdict.reason]} (${verdict.reason})`);
    return verdict.valid ? EXIT.ok : EXIT.failed;
  },
});
