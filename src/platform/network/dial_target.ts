import { formatIp } from "../../lib/net/ip.ts";
import { DialError, judgeAddress, judgeUrl, type Policy, unmapped } from "./address.ts";

/** `href` has the address to connect to in the place of the name. */
export type Pinned = { address: string; href: string };
export type Target = {
  url: URL;
  host: string;
  /** The name in SNI; undefined: the URL has an address. */
  name: string | undefined;
  hostHeader: string;
  /** Set for a URL with an address, which cannot change after the check. A name is resolved each time. */
  pinned: (Pinned & { literal: Uint8Array }) | undefined;
};

const MOST_TARGETS = 1_000;

/** Targets of one policy, by URL. */
export type Targets = Map<string, Target>;
type Options = { policy: Policy; allowHttp?: boolean; keepAlive?: boolean; targets?: Targets | undefined };

/** Judges a URL by the policy alone. With `keepAlive` the result is kept in `targets` for the next call. */
export function targetOf(input: string | URL, { policy, allowHttp = false, keepAlive, targets }: Options): Target {
  if (!keepAlive || !targets || typeof input !== "string") return judgedTarget(input, policy, allowHttp);
  const key = allowHttp ? `http ${input}` : input;
  const cached = targets.get(key);
  if (cached && isStillAllowed(cached, policy)) return cached;
  const target = judgedTarget(input, policy, allowHttp);
  if (targets.size >= MOST_TARGETS) targets.clear();
  targets.set(key, target);
  return target;
}

/** An address may have become one of this machine since; a name is judged when it is resolved. */
function isStillAllowed({ pinned }: Target, policy: Policy): boolean {
  if (!pinned || !policy.own?.().has(pinned.address)) return true;
  return judgeAddress(pinned.literal, policy).allowed;
}

function judgedTarget(input: string | URL, policy: Policy, allowHttp: boolean): Target {
  const verdict = judgeUrl(input, policy, { allowHttp });
  if (!verdict.allowed) throw new DialError("address_refused", `The URL is not allowed: ${verdict.reason}`);
  const { url, host, literal } = verdict;
  const pinned = literal ? { ...pin(url, formatIp(unmapped(literal))), literal } : undefined;
  return { url, host, name: literal ? undefined : host, hostHeader: hostHeader(url), pinned };
}

export function pin(url: URL, address: string): Pinned {
  const pinned = new URL(url);
  pinned.hostname = address.includes(":") ? `[${address}]` : address;
  return { address, href: pinned.href };
}

/** The name as the caller wrote it, without a trailing dot, which servers do not recognize. */
const hostHeader = (url: URL) => url.hostname.replace(/\.$/, "") + (url.port ? `:${url.port}` : "");
