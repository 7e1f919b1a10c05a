import { lookup as systemLookup } from "node:dns/promises";
import { type Cidr, formatIp, inCidr, normalizeHost, parseCidr, parseIp } from "../../lib/net/ip.ts";
import type { Tier } from "./address_ranges.ts";
import * as ranges from "./address_ranges.ts";
import { ownAddresses } from "./own_addresses.ts";

/**
 * Decides which addresses this server may connect to. It checks bytes, never text, and the IPv4 address inside an IPv6
 * one. A name passes only if all its addresses pass, and the caller connects to an address returned here.
 * NOT covered: a public address that a router leads inside; NAT64 under a network's own prefix; a public address of
 * this machine that no interface has, as behind one-to-one NAT. Block such addresses with a firewall.
 */
export type Policy = {
  readonly allowPrivate: boolean;
  readonly hosts: ReadonlySet<string>;
  readonly cidrs: readonly Cidr[];
  /** Addresses of this machine's interfaces, read for each connection: an interface may come later. */
  readonly own?: () => ReadonlySet<string>;
};
export type Verdict = { allowed: true } | { allowed: false; reason: string; tier: Tier };

/** From `config.network`; entries were checked when the configuration was read. */
export function networkPolicy(network: { allow_private: boolean; allow: readonly string[] }): Policy {
  const cidrs = network.allow.map(parseCidr).filter((cidr) => cidr !== undefined);
  const checked = cidrs.map((cidr) => (isMapped(cidr.bytes) && cidr.bits >= 96 ? unmappedCidr(cidr) : cidr));
  const hosts = network.allow.filter((text) => !parseCidr(text)).map(normalizeHost);
  return {
    allowPrivate: network.allow_private,
    hosts: new Set(hosts.filter((host) => host !== undefined)),
    cidrs: checked,
    own: interfaceAddresses,
  };
}

const OWN_MS = 1_000;
let lastRead: { at: number; addresses: ReadonlySet<string> } | undefined;

/** The kernel is asked at most once a second: webhooks connect thousands of times in one. */
function interfaceAddresses(): ReadonlySet<string> {
  const now = performance.now();
  if (lastRead && now - lastRead.at < OWN_MS) return lastRead.addresses;
  lastRead = { at: now, addresses: new Set(ownAddresses()) };
  return lastRead.addresses;
}

export const PUBLIC_ONLY: Policy = { allowPrivate: false, hosts: new Set(), cidrs: [] };

const ALLOWED: Verdict = { allowed: true };
const OWN = "an address of this machine";
const refuse = (tier: Tier, reason: string): Verdict => ({ allowed: false, tier, reason });

export function judgeAddress(bytes: Uint8Array, policy: Policy): Verdict {
  if (bytes.length !== 4 && bytes.length !== 16) return refuse(1, "not an address");
  const address = unmapped(bytes);
  const single = ranges.METADATA.some((range) => inCidr(address, range));
  const listed = policy.cidrs.some((cidr) => inCidr(address, cidr) && (!single || cidr.bits === address.length * 8));
  if (listed) return ALLOWED;
  return address.length === 4 ? judgeRanges(address, ranges.IPV4_RANGES, policy) : judgeIpv6(address, policy);
}

/** ::ffff:a.b.c.d is the IPv4 address itself: a socket to it speaks IPv4, and ::/0 in a list does not cover it. */
export const unmapped = (bytes: Uint8Array) => (isMapped(bytes) ? bytes.subarray(12) : bytes);
const unmappedCidr = ({ bytes, bits }: Cidr): Cidr => ({ bytes: unmapped(bytes), bits: bits - 96 });
const isMapped = (bytes: Uint8Array) =>
  bytes.length === 16 && bytes.subarray(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;

function judgeRanges(address: Uint8Array, table: readonly ranges.Range[], policy: Policy): Verdict {
  const hit = table.find((range) => inCidr(address, range));
  if (hit && !(hit.tier === 2 && policy.allowPrivate)) return refuse(hit.tier, hit.reason);
  return !hit && policy.own?.().has(formatIp(address)) ? refuse(1, OWN) : ALLOWED;
}

function judgeIpv6(address: Uint8Array, policy: Policy): Verdict {
  const plain = judgeRanges(address, ranges.IPV6_RANGES, policy);
  if (!plain.allowed) return plain;
  // The operator's list names the address of the connection, not one inside it.
  const inner: Policy = { ...policy, hosts: new Set(), cidrs: [] };
  let carries = false;
  let floor: Tier | undefined;
  for (const each of ranges.EMBEDDINGS) {
    if (!inCidr(address, each)) continue;
    carries = true;
    if (each.then !== "allow") floor = each.then;
    const v4 = Uint8Array.from(each.at, (i) => (each.inverted ? ~address[i]! : address[i]!) & 0xff);
    if (each.unusedZeros && v4.subarray(0, each.unusedZeros).every((byte) => byte === 0)) continue;
    const verdict = judgeRanges(v4, ranges.IPV4_RANGES, inner);
    if (!verdict.allowed) return refuse(verdict.tier, `${verdict.reason}, as ${formatIp(v4)} inside ${each.name}`);
  }
  if (floor === 1 || (floor === 2 && !policy.allowPrivate)) return refuse(floor, "reserved (IPv4 inside IPv6)");
  if (ranges.isIsatap(address)) {
    const verdict = judgeRanges(address.subarray(12), ranges.IPV4_RANGES, inner);
    if (!verdict.allowed) return refuse(verdict.tier, `${verdict.reason}, inside ISATAP`);
  }
  if (carries) return ALLOWED;
  if (inCidr(address, ranges.IPV6_PROTOCOLS)) return refuse(1, ranges.IPV6_PROTOCOLS.reason);
  const isPrivate = (address[0]! & 0xfe) === 0xfc; // got here, so private ranges are allowed
  return isPrivate || inCidr(address, ranges.IPV6_GLOBAL) ? ALLOWED : refuse(1, "reserved");
}

/** Refused by name alone, before anything is resolved. */
export function judgeName(host: string, policy: Policy): Verdict {
  const name = normalizeHost(host);
  if (name === undefined) return refuse(1, "not a host name");
  if (policy.hosts.has(name)) return ALLOWED;
  const range = ranges.REFUSED_NAMES.get(name) ?? (name.endsWith(".localhost") ? "loopback" : undefined);
  return range ? refuse(1, range) : ALLOWED;
}

/** The URL parser drops or rewrites these; another reader of the same text might not. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const SLOPPY = /^\s|\s$|[\u0000-\u001f\u007f\\]/;

export type UrlVerdict =
  | { allowed: true; url: URL; host: string; literal: Uint8Array | undefined }
  | { allowed: false; reason: string; tier: Tier };

/**
 * Judges a URL without DNS. The URL parser has already turned 0x7f.1, 2130706433 and full-width digits
 * into dotted decimals. `host` is without brackets and trailing dot.
 */
export function judgeUrl(input: string | URL, policy: Policy, { allowHttp = false } = {}): UrlVerdict {
  const refused = (reason: string, tier: Tier = 1): UrlVerdict => ({ allowed: false, reason, tier });
  const text = String(input);
  if (SLOPPY.test(text)) return refused("must not contain control characters, backslashes or spaces around it");
  if (!URL.canParse(text)) return refused("not a valid URL");
  const url = new URL(text);
  if (!(allowHttp ? /^https?:\/\/[^/]/i : /^https:\/\/[^/]/i).test(text))
    return refused(allowHttp ? "must begin with http:// or https://" : "must begin with https://");
  if (/^[^/]*\/\/[^/?#]*@/.test(text)) return refused("must not contain a user name or password");
  if (ranges.REFUSED_PORTS.has(Number(url.port || 443))) return refused(`port ${url.port} is that of another protocol`);
  const host = url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  const literal = parseIp(host);
  const verdict = literal ? judgeAddress(literal, policy) : judgeName(host, policy);
  return verdict.allowed ? { allowed: true, url, host, literal } : refused(verdict.reason, verdict.tier);
}

export class DialError extends Error {
  constructor(
    readonly code: "address_refused" | "unresolved" | "timeout" | "connection" | "tls",
    /** Callers of other workspaces read it: it never tells what a name resolves to. */
    message: string,
    options?: ErrorOptions & { detail?: string },
  ) {
    super(message, options);
    this.name = "DialError";
    this.detail = options?.detail;
  }
  /** For the server's log alone: the address behind the name, and why it is refused. */
  readonly detail: string | undefined;
}

export type Lookup = (host: string) => Promise<readonly { address: string }[]>;
const dnsLookup: Lookup = (host) => systemLookup(host, { all: true });

/**
 * The addresses behind a name, IPv4 first; all of them were judged, and one bad one refuses the name: an attacker
 * who controls the zone must not get a second draw. Dial one of these, never the name.
 */
export async function resolveChecked(
  host: string,
  policy: Policy,
  lookup: Lookup = dnsLookup,
): Promise<[string, ...string[]]> {
  const literal = parseIp(host);
  if (!literal) {
    const verdict = judgeName(host, policy);
    if (!verdict.allowed) throw new DialError("address_refused", `${host} is not allowed: ${verdict.reason}`);
  }
  let answers: readonly { address: string }[];
  try {
    answers = literal ? [{ address: host }] : await lookup(host);
  } catch (cause) {
    throw new DialError("unresolved", `${host} does not resolve`, { cause });
  }
  const listed = policy.hosts.has(normalizeHost(host) ?? "");
  const checked = answers.map(({ address }) => {
    const bytes = parseIp(address.replace(/%.*$/, "")); // a zone id comes with link-local addresses only
    const verdict = bytes ? judgeAddress(bytes, policy) : refuse(1, "not an address");
    if (!bytes || (!verdict.allowed && !listed))
      throw new DialError("address_refused", `${host} leads to an address that is not allowed`, {
        detail: `${address}: ${verdict.allowed ? "not an address" : verdict.reason}`,
      });
    return unmapped(bytes);
  });
  const [first, ...rest] = checked.sort((a, b) => a.length - b.length).map(formatIp);
  if (first === undefined) throw new DialError("unresolved", `${host} has no address`);
  return [first, ...rest];
}
