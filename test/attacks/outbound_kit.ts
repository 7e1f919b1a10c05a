import type { Config } from "../../src/platform/config/config.ts";
import type { Lookup } from "../../src/platform/network/address.ts";
import { networkPolicy } from "../../src/platform/network/address.ts";
import { type Dial, guardedFetch, readCaFile } from "../../src/platform/network/http_client.ts";
import { NAMES } from "./outbound_forms.ts";

/**
 * Stands in the place of `fetch`, which the guard calls last: it writes down every address that would have been dialled
 * and lets only 127.0.0.1 through. So no test sends a packet to another machine, whatever wall is missing.
 */
export function recordDials() {
  const real = globalThis.fetch;
  const dialled: string[] = [];
  const recording = async (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    dialled.push(host);
    if (host === "127.0.0.1") return await real(input, init);
    throw Object.assign(new Error("no packet leaves a test"), { code: "ECONNREFUSED" });
  };
  globalThis.fetch = Object.assign(recording, { preconnect: () => {} });
  const stop = () => {
    globalThis.fetch = real;
  };
  return { dialled, stop };
}

/** An attacker's zone: what is not in it does not resolve. */
export const lookup: Lookup = async (host) => {
  const found = NAMES[host.toLowerCase()];
  if (!found) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" });
  return found.map((address) => ({ address }));
};

/** The server's way out, with that zone for a name server. */
export const dialWith = ({ network }: Config): Dial => {
  const policy = networkPolicy(network);
  const ca = readCaFile(network.ca_file);
  return (url, request) => guardedFetch(url, { ...request, policy, ca, lookup });
};

/** Opens everything: what is dialled then shows that an attack is one. */
export const NO_WALL = {
  "network.allow": [
    ...["0.0.0.0/0", "::/0", "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "169.254.42.42/32"],
    ...["100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fe80::a9fe:a9fe/128"],
    ...Object.keys(NAMES),
  ],
};
