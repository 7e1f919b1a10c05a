/** Forwards events to a receiver under development: signed like deliveries, without a public address or an endpoint. */

import { UsageError } from "../../lib/errors.ts";
import { connectionFailure } from "../../lib/net/connection_failure.ts";
import { PUBLISHED_TYPES } from "../../lib/webhooks/published.ts";
import { deliveryHeaders, mintSecret, serviceHeaders } from "../../lib/webhooks/signature.ts";
import { command, JSON_FLAG, SERVER_FLAGS } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, paint, printResult } from "../output.ts";
import { isOutage } from "../poll.ts";
import { type FeedEvent, NOTIFICATIONS, notificationOf } from "./notifications.ts";
import { SECRET_FLAGS, secretOf } from "./secret.ts";

const TIMEOUT_MS = 10_000; // same as for deliveries
const PAUSE_MS = 1_000;
const MAX_RETRIES = 60; // one minute: a server restarts in less

type Forwarded = { status: number | null; error: string | null; duration_ms: number };

export const listen = command({
  summary: "Forward events and detection notifications to a local server, signed like deliveries",
  flags: {
    ...SERVER_FLAGS,
    ...SECRET_FLAGS,
    forward: {
      type: "string",
      value: "URL",
      doc: "URL to send events to, such as http://localhost:3000 (default: print them)",
    },
    event: { type: "string", value: "TYPE", multiple: true, doc: "Only events of this type; repeatable" },
    after: { type: "string", value: "ID", doc: "Start after this event (evt_…) instead of with the next one" },
    json: JSON_FLAG,
  },
  examples: [
    "verk webhooks listen --forward http://localhost:3000/hooks",
    "verk webhooks listen --event job.completed --event job.failed --endpoint whk_… --forward http://localhost:3000",
    "verk webhooks listen --event batch.completed --forward http://localhost:3000/detection",
  ],
  exits: { 1: "failed: the server was unreachable for a minute", [INTERRUPTED]: "ended with Ctrl-C" },
  async run({ json, forward, event: only, after, endpoint, "secret-file": file, ...where }) {
    const target = forward === undefined ? undefined : targetOf(forward);
    const types = only.map(kindOf);
    const named = await secretOf({ ...where, endpoint, "secret-file": file });
    const secret = named ?? mintSecret();
    const { client, url } = await connect(where);
    if (target && named === undefined) note(`Events are signed with ${secret}, a secret for this run only.`);
    const onOpen = () =>
      note(
        `${target ? `Forwarding events of ${url} to ${target.href}` : `Printing events of ${url}`}. Stop with Ctrl-C.`,
      );
    const selected = types.length > 0 ? types : [...PUBLISHED_TYPES, ...Object.values(NOTIFICATIONS)];
    return await interruptible(async (signal) => {
      for await (const event of readFeed(client, { types: selected, after: after ?? "latest", onOpen }, signal)) {
        const result = target && (await forwardTo(target, event, secret, signal));
        if (signal.aborted) break;
        printResult(json, { object: "webhook_forward", event, ...result }, { result: lineOf(event, result) });
      }
      return INTERRUPTED; // only Ctrl-C ends the loop
    });
  },
});

function targetOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new UsageError(`--forward: expected a URL such as http://localhost:3000, not ${JSON.stringify(text)}`);
}

/** The type in the feed. */
function kindOf(text: string): string {
  if ((PUBLISHED_TYPES as readonly string[]).includes(text)) return text;
  if (Object.hasOwn(NOTIFICATIONS, text)) return NOTIFICATIONS[text] as string;
  const types = [...PUBLISHED_TYPES, ...Object.keys(NOTIFICATIONS)];
  throw new UsageError(`--event: there is no event type ${JSON.stringify(text)}. Types: ${types.join(", ")}.`);
}

/** Reads events and reconnects after the last event, or at the start position if there was none. */
async function* readFeed(
  client: Client,
  { types, after, onOpen }: { types: readonly string[]; after: string; onOpen: () => void },
  signal: AbortSignal,
): AsyncGenerator<FeedEvent> {
  let last = after;
  for (let retries = 0; !signal.aborted; ) {
    try {
      const query = new URLSearchParams({ stream: "1", types: types.join(","), after: last });
      const opened = () => {
        retries = 0;
        onOpen();
      };
      const onCursor = (id: string) => {
        last = id;
      };
      for await (const { id, data } of client.stream(`/v1/events?${query}`, signal, { onOpen: opened, onCursor })) {
        yield data as FeedEvent;
        last = id ?? last;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!isOutage(error) || ++retries > MAX_RETRIES) throw error;
      if (retries === 1) note(`verk: ${(error as Error).message.replace(/\.$/, "")}; retrying`);
    }
    if (!signal.aborted) await Bun.sleep(PAUSE_MS);
  }
}

/** Sends the bytes and the signature of a delivery, once. `--after` sends an event again. */
async function forwardTo(target: URL, event: FeedEvent, secret: string, signal: AbortSignal): Promise<Forwarded> {
  const { id, type, created_at, data } = event;
  const notification = notificationOf(event);
  const body = new TextEncoder().encode(JSON.stringify(notification ?? { id, type, created_at, data }));
  const message = { id, timestampSeconds: Math.floor(Date.now() / 1000), body };
  const headers = (notification ? serviceHeaders : deliveryHeaders)(message, [secret]);
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
    return { status: null, error: connectionFailure(error), duration_ms: took() };
  }
}

function lineOf(event: FeedEvent, result: Forwarded | undefined): string {
  const { id, created_at } = event;
  const { event: type, data } = notificationOf(event) ?? { event: event.type, data: event.data };
  const head = `${created_at}  ${type}  ${id}`;
  if (!result) return `${head}  ${JSON.stringify(data)}`;
  const { status, error, duration_ms: ms } = result;
  const isGood = status !== null && status >= 200 && status < 300;
  return `${head}  ${paint(isGood ? "green" : "red", String(status ?? error))}  ${ms} ms`;
}
