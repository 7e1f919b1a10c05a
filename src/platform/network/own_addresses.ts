/** The addresses of this machine's interfaces, in the spelling of `formatIp`. */
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { formatIp, parseIp } from "../../lib/net/ip.ts";
import { errorCode } from "../files.ts";

/** From /proc: the service has no netlink sockets, which the runtime's own function needs. */
export function ownAddresses(): string[] {
  const routes = table("fib_trie");
  if (routes === undefined) return fromRuntime(); // no Linux, or a kernel without this table
  return [...localIpv4(routes), ...localIpv6(table("if_inet6") ?? "")];
}

/** Undefined if the kernel has no such table: one without IPv6 has no if_inet6. */
function table(name: string): string | undefined {
  try {
    return readFileSync(`/proc/self/net/${name}`, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function fromRuntime(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const bytes = all.map(({ address }) => parseIp(address.replace(/%.*$/, ""))).filter((ip) => ip !== undefined);
  return bytes.map(formatIp);
}

/** An address of an interface is a leaf of the routing trie, followed by a line `/32 host LOCAL`. */
export function localIpv4(trie: string): string[] {
  const addresses = new Set<string>();
  let leaf = "";
  for (const line of trie.split("\n")) {
    leaf = /\|-- ([\d.]+)$/.exec(line)?.[1] ?? leaf;
    if (line.trim() === "/32 host LOCAL") addresses.add(leaf);
  }
  return [...addresses];
}

/** Each line begins with the address as 32 hex digits. */
export const localIpv6 = (lines: string): string[] =>
  [...lines.matchAll(/^([0-9a-f]{32}) /gm)].map(([, hex]) => formatIp(Buffer.from(hex as string, "hex")));
