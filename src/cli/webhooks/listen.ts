/** A developer's own receiver fed from the event feed: no public address, no endpoint, the same signed requests. */
import { UsageError } from "../../lib/errors.ts";
import { deliveryHeaders, mintSecret } from "../../lib/webhooks/signature.ts";
import { command, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, paint, print, printJson } from "../output.ts";
import { KINDS } from "./kinds.ts";
import { SECRET_FLAGS, secretOf } from "./secret.ts";

const TIMEOUT_MS = 10_000; // as a delivery
const PAUSE_MS = 1_000;
const PATIENCE = 60; // pauses: a server restarts in less

type Told = { id: string; type: string; created_at: string; data: unknown };
type Forwarded = { status: number | null; error: string | null; duration_ms: number };

export const listen = command({
  summary: "Forward events to a server of this machine as they happen, signed like a delivery",
  flags: {
    ...SERVER_FLAGS,
    ...SECRET_FLAGS,
    forward: { type: "string", value: "URL", doc: "Where to, such as http://localhost:3000 (default: print them)" },
    event: { type: "string", value: "TYPE", multiple: true, doc: "Only these; may be given again" },
    after: { type: "string", value: "ID", doc: "Begin behind this event (evt_…), not with the next one" },
    json: JSON_FLAG,
  },
  examples: [
    "verk webhooks listen --forward http://localhost:3000/hooks",
    "verk webhooks listen --event job.completed --event job.failed --endpoint whk_… --forward http://localhost:3000",
  ],
  exits: { 1: "failed: the server was lost for a minute", [INTERRUPTED]: "ended with Ctrl-C" },
  async run({ json, forward, event, after, endpoint, "secret-file": file, ...where }) {
    const target = forward === undefined ? undefined : targetOf(forward);
    const types = event.map(kindOf);
    const given = await secretOf({ ...where, endpoint, "secret-file": file });
    const secret = given ?? mintSecret();
    const { client, url } = await connect(where);
    if (target && given === undefined) note(`Signed with ${secret}, made for this run.`);
    const onOpen = () => note(`Events of ${url}${target ? ` go to ${target.href}` : ""} now; Ctrl-C ends it.`);
    const wanted = types.length > 0 ? types : KINDS;
    return await interruptible(async (signal) => {
      for await (const told of feed(client, { types: wanted, after: after ?? "latest", onOpen }, signal)) {
        const result = target && (await forwardTo(target, told, secret, signal));
        if (signal.aborted) break;
        if (json) printJson({ object: "webhook_forward", event: told, ...result });
        else print(lineOf(told, result));
      }
      return INTERRUPTED; // nothing else ends it
    });
  },
});

function targetOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new UsageError(`--forward: expected an address such as http://localhost:3000, not ${JSON.stringify(text)}`);
}

function kindOf(text: string): string {
  if ((KINDS as readonly string[]).includes(text)) return text;
  throw new UsageError(`--event: there is no kind ${JSON.stringify(text)}. There are: ${KINDS.join(", ")}.`);
}

/** Goes on where it was when the connection breaks: behind the last event, or where it began if there was none. */
async function* feed(
  client: Client,
  { types, after, onOpen }: { types: readonly string[]; after: string; onOpen: () => void },
  signal: AbortSignal,
): AsyncGenerator<Told> {
  let last = after;
  for (let lost = 0; !signal.aborted; ) {
    try {
      const query = new URLSearchParams({ stream: "1", types: types.join(","), after: last });
      const opened = () => {
        lost = 0;
        onOpen();
      };
      const onPlace = (id: string) => {
        last = id;
      };
      for await (const { id, data } of client.stream(`/v1/events?${query}`, signal, { onOpen: opened, onPlace })) {
        yield data as Told;
        last = id ?? last;
      }
    } catch (error) {
      if (signal.aborted) return;
      const passing = error instanceof ApiError && (error.status === 0 || error.status >= 500);
      if (!passing || ++lost > PATIENCE) throw error;
      if (lost === 1) note(`verk: ${(error as Error).message}; trying again`);
    }
    if (!signal.aborted) await Bun.sleep(PAUSE_MS);
  }
}

/** The very bytes a delivery would have. One attempt: the event can be told again with --after. */
async function forwardTo(target: URL, told: Told, secret: string, signal: AbortSignal): Promise<Forwarded> {
  const { id, type, created_at, data } = told;
  const body = new TextEncoder().encode(JSON.stringify({ id, type, created_at, data }));
  const headers = deliveryHeaders({ id, timestampSeconds: Math.floor(Date.now() / 1000), body }, [secret]);
  const begun = performance.now();
  const took = () => Math.round(performance.now() - begun);
  try {
    const response = await fetch(target, {
      method: "POST",
      headers: { "user-agent": "Verk", ...headers },
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    return { status: response.status, error: null, duration_ms: took() };
  } catch (error) {
    return { status: null, error: (error as Error).message, duration_ms: took() };
  }
}

function lineOf({ id, type, created_at, data }: Told, result: Forwarded | undefined): string {
  const head = `${created_at}  ${type}  ${id}`;
  if (!result) return `${head}  ${JSON.stringify(data)}`;
  const { status, error, duration_ms: ms } = result;
  const isGood = status !== null && status >= 200 && status < 300;
  return `${head}  ${paint(isGood ? "green" : "red", String(status ?? error))}  ${ms} ms`;
}
