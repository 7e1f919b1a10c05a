import type { Config } from "../../src/platform/config/config.ts";
import type { Lookup } from "../../src/platform/network/address.ts";
import { networkPolicy } from "../../src/platform/network/address.ts";
import { type Dial, guardedFetch, readCaFile } from "../../src/platform/network/http_client.ts";
import { NAMES } from "./outbound_forms.ts";

/**
 * Replaces `fetch`, which the guard calls last. It records every address and connects only to 127.0.0.1, so no test sends
 * a packet to another machine, even if a guard is missing.
 */
export function recordDials() {
  const real = globalThis.fetch;
  const hosts: string[] = [];
  const recording = async (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    hosts.push(host);
    if (host === "127.0.0.1") return await real(input, init);
    throw Object.assign(new Error("no packet leaves a test"), { code: "ECONNREFUSED" });
  };
  globalThis.fetch = Object.assign(recording, { preconnect: () => {} });
  const stop = () => {
    globalThis.fetch = real;
  };
  return { hosts, stop };
}

/** The DNS zone of an attacker. Other names do not resolve. */
export const lookup: Lookup = async (host) => {
  const found = NAMES[host.toLowerCase()];
  if (!found) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" });
  return found.map((address) => ({ address }));
};

/** The outbound client of the server, with that zone as name server. */
export const dialWith = ({ network }: Config): Dial => {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  return (url, request) => guardedFetch(url, { ...request, policy, ca, lookup });
};

/** Allows every address. The connections that then happen prove that the attacks work without the guard. */
export const NO_WALL = {
  "network.allow": [
    ...["0.0.0.0/0", "::/0", "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "169.254.42.42/32"],
    ...["100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fe80::a9fe:a9fe/128"],
    ...Object.keys(NAMES),
  ],
};
