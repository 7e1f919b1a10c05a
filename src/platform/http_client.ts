import { readFileSync } from "node:fs";
import { getCACertificates } from "node:tls";
import { UsageError } from "../lib/errors.ts";
import { formatListen } from "../lib/listen.ts";
import { DialError, judgeUrl, type Lookup, networkPolicy, type Policy, resolveChecked } from "./address.ts";
import type { Config } from "./config.ts";
import { failpoint } from "./failpoint.ts";
import { errorCode } from "./files.ts";

/**
 * The only way out for anything a user may aim: webhooks, image URLs, connectors, the tracker. The address that was
 * checked is the one dialled, with the name in Host and SNI; redirects are not followed; the answer is read up to a
 * limit and then dropped; one deadline covers resolving, sending and reading.
 * NOT covered: with HTTP_PROXY or HTTPS_PROXY in the environment, Bun's fetch hands the checked address to that proxy.
 */
export type GuardedRequest = {
  policy: Policy;
  /** For the whole exchange. */
  timeoutMs: number;
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  maxResponseBytes?: number;
  allowHttp?: boolean;
  /** PEM text of authorities to trust beside the public ones: `readCaFile(config.network.ca_file)`. */
  ca?: string | undefined;
  lookup?: Lookup;
  signal?: AbortSignal;
};
export type GuardedResponse = {
  status: number;
  headers: Headers;
  body: Uint8Array;
  /** The answer was longer than maxResponseBytes; the rest was not read. */
  truncated: boolean;
  address: string;
};

export type Dial = (url: string | URL, request: Omit<GuardedRequest, "policy" | "ca">) => Promise<GuardedResponse>;

/** The way out under the operator's settings. Reads the CA file now, so that a wrong one stops the start. */
export function guardedDial(network: Config["network"]): Dial {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  return (url, request) => guardedFetch(url, { ...request, policy, ca });
}

/** Throws DialError; any HTTP status, 3xx included, is an answer and not an error. */
export async function guardedFetch(input: string | URL, request: GuardedRequest): Promise<GuardedResponse> {
  const target = judgeUrl(input, request.policy, { allowHttp: request.allowHttp ?? false });
  if (!target.allowed) throw new DialError("address_refused", `The URL is not allowed: ${target.reason}`);
  const deadline = AbortSignal.timeout(request.timeoutMs);
  const signal = request.signal ? AbortSignal.any([deadline, request.signal]) : deadline;
  try {
    const addresses = await orAborted(resolveChecked(target.host, request.policy, request.lookup), signal);
    const name = target.literal ? undefined : target.host;
    const answer = await dialFirst(target.url, name, addresses, request, signal);
    failpoint("http.after_send");
    return answer;
  } catch (error) {
    if (request.signal?.aborted) throw request.signal.reason;
    if (deadline.aborted)
      throw new DialError("timeout", `No complete answer within ${request.timeoutMs} ms`, { cause: error });
    throw error;
  }
}

/** The next address is tried only when no connection came about, so that a request is never sent twice. */
async function dialFirst(
  url: URL,
  name: string | undefined,
  addresses: readonly [string, ...string[]],
  request: GuardedRequest,
  signal: AbortSignal,
): Promise<GuardedResponse> {
  let failure: unknown;
  for (const address of addresses) {
    try {
      return await dial(url, name, address, request, signal);
    } catch (error) {
      failure = error;
      if (!UNCONNECTED.has(errorCode((error as Error).cause) ?? "")) break;
    }
  }
  throw failure;
}

const UNCONNECTED = new Set(["ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "FailedToOpenSocket"]);

async function dial(url: URL, name: string | undefined, address: string, request: GuardedRequest, signal: AbortSignal) {
  const pinned = new URL(url);
  pinned.hostname = address.includes(":") ? `[${address}]` : address;
  const headers = new Headers({ "user-agent": "Verk", "accept-encoding": "identity", ...request.headers });
  for (const hop of ["connection", "content-length", "transfer-encoding"]) headers.delete(hop);
  headers.set("host", hostHeader(url));

  failpoint("http.before_send");
  try {
    const response = await fetch(pinned, {
      method: request.method ?? "GET",
      headers,
      body: request.body ?? null,
      redirect: "manual",
      keepalive: false, // a pooled connection was checked for another name
      decompress: false, // a small answer must not unpack into a large one
      signal,
      tls: {
        ...(name === undefined ? {} : { servername: name }),
        ...(request.ca === undefined ? {} : { ca: [...getCACertificates("default"), request.ca] }),
      },
    });
    const { body, truncated } = await readUpTo(response, request.maxResponseBytes ?? 65_536, signal);
    return { status: response.status, headers: response.headers, body, truncated, address };
  } catch (cause) {
    const code = errorCode(cause) ?? "";
    const what = /CERT|TLS|SSL|EPROTO|VERIFY|SIGNATURE|SELF_SIGNED/.test(code) ? "tls" : "connection";
    const where = formatListen({ hostname: address, port: Number(url.port) || (url.protocol === "https:" ? 443 : 80) });
    throw new DialError(
      what,
      `${what === "tls" ? "TLS failed" : "The connection failed"} (${code || "unknown"}) at ${where}`,
      {
        cause,
      },
    );
  }
}

/** The name as the caller wrote it, without a trailing dot, which servers do not know themselves by. */
const hostHeader = (url: URL) => url.hostname.replace(/\.$/, "") + (url.port ? `:${url.port}` : "");

async function readUpTo(response: Response, limit: number, signal: AbortSignal) {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = response.body?.getReader();
  while (reader) {
    const { done, value } = await orAborted(reader.read(), signal);
    if (done) break;
    parts.push(value.subarray(0, limit - bytes));
    bytes += value.byteLength;
    if (bytes <= limit) continue;
    await reader.cancel().catch(() => {}); // the answer is complete for us
    break;
  }
  return { body: new Uint8Array(Buffer.concat(parts)), truncated: bytes > limit };
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
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
