import { type Cidr, formatIp, inCidr, parseIp } from "./ip.ts";

/** ::ffff:a.b.c.d is how a socket that speaks both writes an IPv4 address. */
function addressOf(text: string): Uint8Array | undefined {
  const bytes = parseIp(text.trim().replace(/%.*$/, ""));
  const mapped =
    bytes?.length === 16 && bytes[10] === 0xff && bytes[11] === 0xff && !bytes.subarray(0, 10).some(Boolean);
  return mapped ? bytes?.subarray(12) : bytes;
}

/**
 * The address of the client: the peer of the connection or, if the peer is a trusted proxy, the last address in
 * X-Forwarded-For that is not one. Addresses further left were written by the caller and are ignored.
 */
export function clientAddress(peer: string, forwarded: string | null, proxies: readonly Cidr[]): string {
  let client = addressOf(peer);
  if (!client) return peer;
  const hops = forwarded === null ? [] : forwarded.split(",");
  while (hops.length > 0 && proxies.some((proxy) => inCidr(client as Uint8Array, proxy))) {
    const before = addressOf(hops.pop() as string);
    if (!before) break;
    client = before;
  }
  return formatIp(client);
}

/** The network that counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address. */
export function clientNetwork(address: string): string {
  const bytes = addressOf(address);
  return bytes?.length === 16 ? `${Buffer.from(bytes.subarray(0, 8)).toString("hex")}/64` : address;
}
