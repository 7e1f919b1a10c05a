import { readFileSync } from "node:fs";
import { UsageError } from "../../lib/errors.ts";
import { connectionFailure } from "../../lib/net/connection_failure.ts";
import type { Config } from "../config/config.ts";
import { failpoint } from "../failpoint.ts";
import { errorCode } from "../files.ts";
import { type Log, silentLog } from "../log.ts";
import { lowerClientThread } from "../machine/priority.ts";
import { DialError, type Lookup, networkPolicy, type Policy, resolveChecked } from "./address.ts";
import { type AnswerBody, orAborted, readArrived, readUpTo } from "./answer_body.ts";
import { logRefusal } from "./dial_log.ts";
import { type Pinned, pin, type Target, type Targets, targetOf } from "./dial_target.ts";
import { type PublicHosts, trusting } from "./trust.ts";

/**
 * The only outbound connection to an address that a user chose: webhooks, image URLs, connectors, the tracker. The
 * connection goes to the address that was checked, with the name in Host and SNI. Redirects are not followed. The
 * answer is read up to a limit. One deadline covers resolving, sending and reading.
 * A proxy of the environment (HTTP_PROXY, HTTPS_PROXY) is ignored: it would resolve the name again.
 */
export type GuardedRequest = {
  policy: Policy;
  /** For the whole exchange. */
  timeoutMs: number;
  method?: string;
  headers?: Record<string, string>;
  /** A Blob of a file is sent from the disk, with its length. */
  body?: string | Uint8Array<ArrayBuffer> | Blob;
  maxResponseBytes?: number;
  /** True for a status that is the answer by itself: its body is not waited for, and may come as `late`. */
  isEnough?: (status: number) => boolean;
  allowHttp?: boolean;
  /**
   * May use an open connection, and leaves it open. There is one pool for each address, port, name in SNI and trusted
   * authorities: a connection that was checked for one name never carries a request for another. A receiver may close
   * an idle connection at any moment, so use it only for requests that may be sent twice.
   */
  keepAlive?: boolean;
  /** PEM text of authorities to trust beside the public ones: `readCaFile(config.network.ca_file)`. */
  ca?: string | undefined;
  /** The memory of the caller for `ca`: hosts that need it not. Without it, each call asks again. */
  publicHosts?: PublicHosts;
  lookup?: Lookup;
  signal?: AbortSignal;
  /** Judged URLs of this policy, for `keepAlive`. */
  targets?: Targets;
};
export type GuardedResponse = AnswerBody & { status: number; headers: Headers; address: string };

export type Dial = (
  url: string | URL,
  request: Omit<GuardedRequest, "policy" | "ca" | "publicHosts" | "targets">,
) => Promise<GuardedResponse>;

/** The outbound client under the operator's settings. Reads the CA file now, so that a wrong one stops the start. */
export function guardedDial(network: Config["network"], log: Log = silentLog): Dial {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  const targets: Targets = new Map();
  const publicHosts: PublicHosts = new Set();
  return (url, request) =>
    guardedFetch(url, { ...request, policy, ca, publicHosts, targets }).catch((error: unknown) => {
      if (error instanceof DialError && URL.canParse(url)) logRefusal(log, new URL(url).hostname, error);
      throw error;
    });
}

/** Throws DialError; any HTTP status, 3xx included, is an answer and not an error. */
export async function guardedFetch(input: string | URL, request: GuardedRequest): Promise<GuardedResponse> {
  const target = targetOf(input, request);
  const { over, isLate, end } = deadlineOf(request);
  try {
    const resolved = () => orAborted(resolveChecked(target.host, request.policy, request.lookup), over.signal);
    const answer = target.pinned
      ? await dial(target, target.pinned, request, over)
      : await firstOf(await resolved(), (address) => dial(target, pin(target.url, address), request, over));
    failpoint("http.after_send");
    return answer;
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason;
    if (isLate()) throw new DialError("timeout", `No complete answer within ${request.timeoutMs} ms`, { cause: error });
    throw error;
  } finally {
    end();
  }
}

/** Aborts in time or with the caller, whichever is first. Ended by hand: thousands of timers a second would add up. */
function deadlineOf({ timeoutMs, signal: caller }: GuardedRequest) {
  const over = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    over.abort();
  }, timeoutMs);
  const leave = () => over.abort(caller?.reason);
  if (caller?.aborted) leave();
  caller?.addEventListener("abort", leave, { once: true });
  const end = () => {
    clearTimeout(timer);
    caller?.removeEventListener("abort", leave);
  };
  return { over, isLate: () => late, end };
}

export type OpenDial = (
  url: string | URL,
  request: Omit<GuardedRequest, "policy" | "ca" | "publicHosts" | "targets"> & { idleMs: number },
) => Promise<OpenedResponse>;

/** Like `guardedDial`, with each answer as a stream. */
export function guardedOpenDial(network: Config["network"], log: Log = silentLog): OpenDial {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  const publicHosts: PublicHosts = new Set();
  return (url, request) =>
    guardedOpen(url, { ...request, policy, ca, publicHosts }).catch((error: unknown) => {
      if (error instanceof DialError && URL.canParse(url)) logRefusal(log, new URL(url).hostname, error);
      throw error;
    });
}

export type OpenedResponse = {
  status: number;
  headers: Headers;
  /** Read it to the end or cancel it. Errors with a DialError when the connection breaks or falls silent. */
  stream: ReadableStream<Uint8Array>;
  address: string;
};

/**
 * Like `guardedFetch`, with the body as a stream: `timeoutMs` is for the headers, `idleMs` for each pause after them.
 */
export async function guardedOpen(
  input: string | URL,
  request: GuardedRequest & { idleMs: number; onBytes?: (count: number) => void },
): Promise<OpenedResponse> {
  const target = targetOf(input, request);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), request.timeoutMs);
  const signal = request.signal ? AbortSignal.any([late.signal, request.signal]) : late.signal;
  try {
    const addresses = await orAborted(resolveChecked(target.host, request.policy, request.lookup), signal);
    const { response, address } = await firstOf(addresses, async (each) => ({
      response: await send(target, pin(target.url, each), request, signal),
      address: each,
    }));
    const { status, headers } = response;
    return { status, headers, address, stream: unbroken(response, late, request, target.url.host) };
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason;
    if (late.signal.aborted)
      throw new DialError("timeout", `No answer within ${request.timeoutMs} ms`, { cause: error });
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** A body whose end is its end: a cut or silent connection is an error that says so. */
function unbroken(
  response: Response,
  late: AbortController,
  { idleMs, onBytes = () => {} }: { idleMs: number; onBytes?: (count: number) => void },
  host: string,
): ReadableStream<Uint8Array> {
  const reader = response.body?.getReader();
  const declared = Number(response.headers.get("content-length") ?? Number.NaN);
  let bytes = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (!reader) return controller.close();
        const timer = setTimeout(() => late.abort(), idleMs);
        try {
          const { done, value } = await reader.read();
          if (done && bytes < declared) throw new Error(`it ended after ${bytes} of ${declared} bytes`);
          if (done) return controller.close();
          bytes += value.byteLength;
          onBytes(value.byteLength);
          controller.enqueue(value);
        } catch (cause) {
          const why = late.signal.aborted ? `nothing came for ${idleMs} ms` : connectionFailure(cause);
          controller.error(
            new DialError("connection", `The connection to ${host} broke: ${why}`, { cause: withoutAddress(cause) }),
          );
        } finally {
          clearTimeout(timer);
        }
      },
      cancel: (reason) => reader?.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The next address is tried only when no connection came about, so that a request is never sent twice. */
async function firstOf<T>(
  addresses: readonly [string, ...string[]],
  dial: (address: string) => Promise<T>,
): Promise<T> {
  let failure: unknown;
  for (const address of addresses) {
    try {
      return await dial(address);
    } catch (error) {
      failure = error;
      if (!UNCONNECTED.has(errorCode((error as Error).cause) ?? "")) break;
    }
  }
  throw failure;
}

const UNCONNECTED = new Set(["ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "FailedToOpenSocket"]);

async function dial(target: Target, pinned: Pinned, request: GuardedRequest, over: AbortController) {
  const response = await send(target, pinned, request, over.signal);
  const { status, headers } = response;
  const most = request.maxResponseBytes ?? 65_536;
  try {
    const read = request.isEnough?.(status)
      ? await readArrived(response, most, over)
      : await readUpTo(response, most, over.signal);
    return { status, headers, ...read, address: pinned.address };
  } catch (cause) {
    throw failureOf(cause, target.url, pinned.address);
  }
}

/** Bun reads the proxy of the environment unless this is false; its types know a text alone. */
const NO_PROXY = { proxy: false as unknown as string };

let hasSent = false;

async function send(target: Target, { address, href }: Pinned, request: GuardedRequest, signal: AbortSignal) {
  const { url, name } = target;
  const headers = headersOf(target, request);
  const authority = { ca: request.ca, publicHosts: request.publicHosts ?? new Set() };
  failpoint("http.before_send");
  try {
    return await trusting(url.host, authority, (ca) =>
      fetch(href, {
        method: request.method ?? "GET",
        headers,
        body: request.body ?? null,
        redirect: "manual",
        ...NO_PROXY,
        keepalive: request.keepAlive ?? false,
        decompress: false, // a small answer must not unpack into a large one
        signal,
        tls: { ...(name === undefined ? {} : { servername: name }), ...(ca === undefined ? {} : { ca }) },
      }),
    );
  } catch (cause) {
    throw failureOf(cause, url, address);
  } finally {
    if (!hasSent) lowerClientThread();
    hasSent = true;
  }
}

function failureOf(cause: unknown, url: URL, address: string): DialError {
  const code = errorCode(cause) ?? "";
  const what = /CERT|TLS|SSL|EPROTO|VERIFY|SIGNATURE|SELF_SIGNED/.test(code) ? "tls" : "connection";
  const said = what === "tls" ? "TLS failed" : "The connection failed";
  const message = `${said} (${code || "unknown"}) at ${url.host}`;
  return new DialError(what, message, { cause: withoutAddress(cause), detail: address });
}

/** Bun's errors carry the whole address, and with it what was signed into its query. */
function withoutAddress(cause: unknown): Error {
  const { name, message } = cause instanceof Error ? cause : { name: "Error", message: String(cause) };
  const plain = Object.assign(new Error(message.replaceAll(/\?[^\s"']*/g, "")), { name, code: errorCode(cause) });
  delete plain.stack; // it repeats the message
  return plain;
}

const OURS = new Set(["connection", "content-length", "transfer-encoding", "host"]);

function headersOf(target: Target, { headers = {} }: GuardedRequest): Record<string, string> {
  const sent: Record<string, string> = { "user-agent": "Verk", "accept-encoding": "identity" };
  for (const name of Object.keys(headers)) {
    const lower = name.toLowerCase();
    if (!OURS.has(lower)) sent[lower] = headers[name] as string;
  }
  sent["host"] = target.hostHeader;
  return sent;
}

/** Undefined when none is set. Called at the start, so that a wrong file stops it. */
export function readCaFile(file: string): string | undefined {
  if (file === "") return undefined;
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError(`network.ca_file: cannot read ${file} (${errorCode(cause) ?? cause})`, 2, { cause });
  }
  if (!text.includes("-----BEGIN CERTIFICATE-----"))
    throw new UsageError(`network.ca_file: ${file} holds no PEM certificate`);
  return text;
}
