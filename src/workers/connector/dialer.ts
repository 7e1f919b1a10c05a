import { parseIp } from "../../lib/net/ip.ts";
import {
  DialError,
  judgeAddress,
  judgeUrl,
  type Lookup,
  networkPolicy,
  type Policy,
  PUBLIC_ONLY,
  resolveChecked,
} from "../../platform/network/address.ts";
import { guardedOpen, type OpenedResponse, readCaFile } from "../../platform/network/http_client.ts";
import { SourceError } from "./types.ts";

export type Network = { allow_private: boolean; allow: readonly string[]; ca_file: string };
export type Outgoing = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  signal: AbortSignal;
  /** Timeout for the headers of the answer. The body is limited by `idleMs`. */
  timeoutMs?: number;
};

/** The outbound connections of connectors: the guard checks every address, and the answer is a stream. */
export type Dialer = {
  /** Any HTTP status is an answer. The caller follows redirects with another call. Throws SourceError. */
  fetch: (url: string | URL, outgoing: Outgoing) => Promise<OpenedResponse>;
  /** For protocols other than HTTP: returns the address to connect to, IPv4 first. Use the name only for TLS. */
  resolve: (host: string, signal: AbortSignal) => Promise<string>;
  /** PEM of the operator's authorities, if any. */
  ca: string | undefined;
};

/** `onBytes`: called with the size of each piece of an answer. */
type DialerOptions = { connectMs: number; idleMs?: number; lookup?: Lookup; onBytes?: (count: number) => void };

export function createDialer(network: Network, { connectMs, idleMs = 60_000, lookup, onBytes }: DialerOptions): Dialer {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  const publicHosts = new Set<string>();
  return {
    ca,
    fetch: (url, outgoing) =>
      guardedOpen(url, {
        policy,
        ca,
        publicHosts,
        allowHttp: mayBePlain(url, policy),
        timeoutMs: outgoing.timeoutMs ?? connectMs,
        idleMs,
        ...(onBytes ? { onBytes } : {}),
        ...(lookup ? { lookup } : {}),
        ...outgoing,
      }).catch((error: unknown) => {
        throw asSourceError(error, url, outgoing.signal);
      }),
    resolve: (host, signal) =>
      inTime(resolveChecked(host, policy, lookup), connectMs, signal)
        .then(([first]) => first)
        .catch((error: unknown) => {
          throw asSourceError(error, host, signal);
        }),
  };
}

/** A silent name server must not block an abort, nor a caller for ever. */
async function inTime<T>(work: Promise<T>, ms: number, signal: AbortSignal): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new DialError("timeout", `No answer within ${ms} ms`)), ms);
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, ended]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Credentials may be sent unencrypted only to hosts that the operator has listed, or inside an allowed network. */
function mayBePlain(url: string | URL, policy: Policy): boolean {
  const target = judgeUrl(url, policy, { allowHttp: true });
  if (!target.allowed) return true; // rejected below, with its own reason
  if (policy.hosts.has(target.host)) return true;
  const literal = target.literal ?? parseIp(target.host);
  return literal !== undefined && !judgeAddress(literal, PUBLIC_ONLY).allowed;
}

function asSourceError(error: unknown, where: string | URL, signal?: AbortSignal): unknown {
  if (signal?.aborted || error instanceof SourceError) return error;
  if (!(error instanceof DialError)) return error;
  const host = URL.canParse(where) ? new URL(where).host : String(where);
  if (error.code === "address_refused")
    return new SourceError(
      "address_refused",
      `${error.message}. The operator can allow it with network.allow or network.allow_private`,
      null,
      { cause: error },
    );
  return new SourceError("unreachable", `${host} cannot be reached: ${error.message}`, null, { cause: error });
}
