/**
 * Streamable HTTP: each message is a POST, whose answer is a message or a stream of them. Every address goes through the
 * guard, and redirects are not followed. A stream that breaks off is continued behind its last event.
 */
import { OutsideError, readOutside } from "../../lib/json/outside.ts";
import { takingTurns } from "../../lib/turns.ts";
import { MIB } from "../../lib/units.ts";
import { DialError } from "../../platform/network/address.ts";
import type { OpenDial, OpenedResponse } from "../../platform/network/http_client.ts";
import { type Listener, McpError, type Transport } from "./client.ts";
import { EventError, readServerEvents } from "./events.ts";
import { MESSAGE, MESSAGE_BYTES, type Message } from "./forms.ts";

const STREAM_BYTES = 16 * MIB;
const MAX_EVENTS = 10_000; // of one stream
const MAX_RECONNECTS = 5;
const RETRY_MS = 1_000;
const MOST_RETRY_MS = 10_000;
const CLOSE_MS = 5_000;
const CONNECT_MS = 60_000;
const MAX_HEADER = 1_000;

export type HttpServer = { url: string; headers: Readonly<Record<string, string>>; dial: OpenDial };

type Headers = Record<string, string>;
/** The end of a stream, whose rest is behind `lastId`. */
type Broken = { lastId: string; retryMs: number };

export function httpTransport({ url, headers: fixed, dial }: HttpServer): Transport {
  let listener: Listener | undefined;
  let session: string | undefined;
  let version: string | undefined;
  const turn = takingTurns();
  const headers = (): Headers => ({
    ...fixed,
    accept: "application/json, text/event-stream",
    ...(session === undefined ? {} : { "mcp-session-id": session }),
    ...(version === undefined ? {} : { "mcp-protocol-version": version }),
  });

  /** True once the answer to the request `id` has come. */
  async function receive(text: string | Uint8Array, id: unknown): Promise<boolean> {
    await turn();
    let message: Message;
    try {
      message = readOutside(MESSAGE, text);
    } catch (cause) {
      if (!(cause instanceof OutsideError)) throw cause;
      throw new McpError(`broke the protocol: ${cause.message}`, { cause });
    }
    listener?.message(message);
    return message.method === undefined && message.id === id;
  }

  async function open(method: string, more: Headers, body: string | null, signal: AbortSignal) {
    const sent = body === null ? {} : { body };
    const request = { method, headers: { ...headers(), ...more }, ...sent, timeoutMs: CONNECT_MS, idleMs: 600_000 };
    const answer = await dial(url, { ...request, allowHttp: true, signal });
    const named = answer.headers.get("mcp-session-id");
    if (named !== null && named.length <= MAX_HEADER) session = named;
    return answer;
  }

  /** Undefined: the answer has come. */
  async function readStream(answer: OpenedResponse, id: unknown, before?: Broken): Promise<Broken | undefined> {
    let lastId = before?.lastId;
    let retryMs = before?.retryMs ?? RETRY_MS;
    const events = readServerEvents(answer.stream, { mostBytes: MESSAGE_BYTES, mostAll: STREAM_BYTES });
    try {
      let count = 0;
      for await (const event of events) {
        if (++count > MAX_EVENTS) throw new McpError(`sent more than ${MAX_EVENTS} events`);
        if (event.id !== undefined && event.id.length <= MAX_HEADER) lastId = event.id;
        retryMs = Math.min(event.retryMs ?? retryMs, MOST_RETRY_MS);
        if (event.data !== "" && (await receive(event.data, id))) return undefined;
      }
    } catch (error) {
      if (!(error instanceof DialError) || lastId === undefined) throw error;
    }
    if (lastId === undefined) throw new McpError("ended its stream without an answer");
    return { lastId, retryMs };
  }

  async function follow(first: OpenedResponse, id: unknown, signal: AbortSignal) {
    let broken = await readStream(first, id);
    for (let tries = 0; broken; tries++) {
      if (tries === MAX_RECONNECTS) throw new McpError(`broke its stream off ${MAX_RECONNECTS} times`);
      await Bun.sleep(broken.retryMs);
      signal.throwIfAborted();
      const answer = await open("GET", { "last-event-id": broken.lastId }, null, signal);
      if (!isStream(answer)) throw await refusal(answer);
      broken = await readStream(answer, id, broken);
    }
  }

  async function post(message: object, signal: AbortSignal) {
    const id = "method" in message && "id" in message ? message.id : undefined;
    const json = { "content-type": "application/json" };
    const answer = await open("POST", json, JSON.stringify(message), signal);
    if (answer.status === 404 && session !== undefined) {
      const error = new McpError("has ended the session");
      listener?.end(error);
      throw error;
    }
    if (answer.status < 200 || answer.status >= 300) throw await refusal(answer);
    if (id === undefined) return void (await answer.stream.cancel());
    if (isStream(answer)) return await follow(answer, id, signal);
    const body = await readAll(answer);
    if (!(await receive(body, id))) throw new McpError("answered with the id of another request");
  }

  return {
    listen(each) {
      listener = each;
    },
    agree(agreed) {
      version = agreed;
    },
    send: (message, signal) => post(message, signal).catch((error) => Promise.reject(asMcpError(error))),
    async close() {
      if (session === undefined) return;
      const signal = AbortSignal.timeout(CLOSE_MS);
      const answer = await open("DELETE", {}, null, signal).catch(() => undefined); // many servers know no end
      await answer?.stream.cancel().catch(() => {});
    },
  };
}

const isStream = ({ status, headers }: OpenedResponse) =>
  status === 200 && /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");

async function readAll({ stream }: OpenedResponse): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.byteLength;
    if (bytes > MESSAGE_BYTES) throw new McpError(`sent an answer of more than ${MESSAGE_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function refusal({ status, stream }: OpenedResponse): Promise<McpError> {
  await stream.cancel().catch(() => {}); // the status says enough
  if (status >= 300 && status < 400) return new McpError(`answers with a redirect (${status}), which is not followed`);
  if (status === 401 || status === 403) return new McpError(`refuses the credentials (${status})`);
  return new McpError(`answers with status ${status}`);
}

function asMcpError(error: unknown): unknown {
  if (error instanceof McpError) return error;
  if (error instanceof DialError || error instanceof EventError)
    return new McpError(`cannot be used: ${error.message}`, { cause: error });
  return error;
}
