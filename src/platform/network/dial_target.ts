import { formatIp } from "../../lib/net/ip.ts";
import { oncePer } from "../../lib/once_per.ts";
import { DialError, judgeUrl, type Policy, unmapped } from "./address.ts";

/** `href`: with the address to dial in the place of the name. */
export type Pinned = { address: string; href: string };
export type Target = {
  url: URL;
  host: string;
  /** For SNI. Undefined: the URL has an address. */
  name: string | undefined;
  hostHeader: string;
  /** Of a URL with an address, which nothing can change between the check and the dial; a name is resolved each time. */
  pinned: Pinned | undefined;
};

const MOST_TARGETS = 1_000;
const targetsOf = oncePer((_policy: Policy) => new Map<string, Target>());

type Asked = { policy: Policy; allowHttp?: boolean; keepAlive?: boolean };

/** What follows from a URL and the policy alone is worked out once for those that are dialled again and again. */
export function targetOf(input: string | URL, { policy, allowHttp = false, keepAlive = false }: Asked): Target {
  if (!keepAlive || typeof input !== "string") return judgedTarget(input, policy, allowHttp);
  const known = targetsOf(policy);
  const key = `${allowHttp} ${input}`;
  const found = known.get(key);
  if (found && !(found.pinned && policy.own?.().has(found.pinned.address))) return found;
  const target = judgedTarget(input, policy, allowHttp);
  if (known.size >= MOST_TARGETS) known.clear();
  known.set(key, target);
  return target;
}

function judgedTarget(input: string | URL, policy: Policy, allowHttp: boolean): Target {
  const verdict = judgeUrl(input, policy, { allowHttp });
  if (!verdict.allowed) throw new DialError("address_refused", `The URL is not allowed: ${verdict.reason}`);
  const { url, host, literal } = verdict;
  const pinned = literal ? pin(url, formatIp(unmapped(literal))) : undefined;
  return { url, host, name: literal ? undefined : host, hostHeader: hostHeader(url), pinned };
}

export function pin(url: URL, address: string): Pinned {
  const pinned = new URL(url);
  pinned.hostname = address.includes(":") ? `[${address}]` : address;
  return { address, href: pinned.href };
}

/** The name as the caller wrote it, without a trailing dot, which servers do not know themselves by. */
const hostHeader = (url: URL) => url.hostname.replace(/\.$/, "") + (url.port ? `:${url.port}` : "");
