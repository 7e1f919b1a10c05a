import { type Cidr, parseCidr } from "../../lib/net/ip.ts";

/**
 * Addresses that an outbound connection must not reach, from the IANA special-purpose registries (RFC 6890 and
 * successors) and the metadata services of clouds. Tier 1 is refused unless the operator lists it; tier 2 is private
 * address space.
 */
export type Tier = 1 | 2;
export type Range = Cidr & { tier: Tier; reason: string };

const range = (tier: Tier, text: string, reason: string): Range => {
  const cidr = parseCidr(text);
  if (!cidr) throw new Error(`bad range ${text}`);
  return { ...cidr, tier, reason };
};

/** A request to one may return credentials of this machine. A listed range around one does not open it. */
export const METADATA: readonly Range[] = [
  "169.254.169.254",
  "169.254.170.2", // AWS, of a container
  "169.254.170.23", // AWS, of a pod
  "168.63.129.16", // Azure, although the address is public
  "100.100.100.200", // Alibaba
  "192.0.0.192", // Oracle
  "fd00:ec2::254", // AWS
  "fd00:ec2::23", // AWS, of a pod
  "fd20:ce::254", // Google
  "fd00:c1::a9fe:a9fe", // Oracle
  "fd00:42::42", // Scaleway
].map((text) => range(1, text, "cloud metadata"));

/** First match wins: the metadata addresses stand before the ranges that contain them. */
export const IPV4_RANGES: readonly Range[] = [
  ...METADATA,
  range(1, "0.0.0.0/8", "unspecified"),
  range(2, "10.0.0.0/8", "private"),
  range(2, "100.64.0.0/10", "shared address space (CGNAT)"),
  range(1, "127.0.0.0/8", "loopback"),
  range(1, "169.254.0.0/16", "link-local and cloud metadata"),
  range(2, "172.16.0.0/12", "private"),
  range(1, "192.0.0.0/24", "reserved for protocols"),
  range(1, "192.0.2.0/24", "documentation"),
  range(1, "192.31.196.0/24", "reserved (AS112)"),
  range(1, "192.52.193.0/24", "reserved (multicast tunnels)"),
  range(1, "192.88.99.0/24", "reserved (6to4 relay)"),
  range(2, "192.168.0.0/16", "private"),
  range(1, "192.175.48.0/24", "reserved (AS112)"),
  range(1, "198.18.0.0/15", "benchmarking"),
  range(1, "198.51.100.0/24", "documentation"),
  range(1, "203.0.113.0/24", "documentation"),
  range(1, "224.0.0.0/4", "multicast"),
  range(1, "255.255.255.255", "broadcast"),
  range(1, "240.0.0.0/4", "reserved"),
];

export const IPV6_RANGES: readonly Range[] = [
  ...METADATA,
  range(1, "::", "unspecified"),
  range(1, "::1", "loopback"),
  range(1, "64:ff9b:1::", "unspecified"),
  range(1, "100::/64", "discard-only"),
  range(1, "100:0:0:1::/64", "reserved"),
  range(1, "2001:2::/48", "benchmarking"),
  range(1, "2001:10::/28", "reserved (ORCHID)"),
  range(1, "2001:20::/28", "reserved (ORCHIDv2)"),
  range(1, "2001:30::/28", "reserved (drone identifiers)"),
  range(1, "2001:db8::/32", "documentation"),
  range(1, "2620:4f:8000::/48", "reserved (AS112)"),
  range(1, "3fff::/20", "documentation"),
  range(1, "5f00::/16", "reserved (segment routing)"),
  range(2, "fc00::/7", "private (unique local)"),
  range(1, "fe80::/10", "link-local"),
  range(1, "fec0::/10", "reserved (site-local)"),
  range(1, "ff00::/8", "multicast"),
];

/** Judged after Teredo, which lies in it. */
export const IPV6_PROTOCOLS = range(1, "2001::/23", "reserved for protocols");
/** No other range has been assigned. */
export const IPV6_GLOBAL = range(1, "2000::/3", "");

/**
 * IPv4 inside IPv6. `at` is where the four bytes stand; `then` is the verdict when they are harmless. The local NAT64
 * range is cut into prefixes of a network's own choice, so every layout of RFC 6052 is read; one whose first
 * `unusedZeros` bytes are zero is taken as not in use.
 */
export type Embedding = Cidr & {
  name: string;
  at: readonly number[];
  then: "allow" | Tier;
  inverted?: boolean;
  unusedZeros?: number;
};
const embed = (name: string, text: string, start: number, then: Embedding["then"]): Embedding => ({
  ...range(1, text, ""),
  name,
  at: [start, start + 1, start + 2, start + 3],
  then,
});

export const EMBEDDINGS: readonly Embedding[] = [
  embed("IPv4-translated", "::ffff:0:0:0/96", 12, 1),
  embed("NAT64", "64:ff9b::/96", 12, "allow"),
  { ...embed("local NAT64", "64:ff9b:1::/48", 12, 2), unusedZeros: 4 },
  ...[
    [6, 7, 9, 10], // byte 8 is zero in all of them
    [7, 9, 10, 11],
    [9, 10, 11, 12],
  ].map((at) => ({ ...embed("local NAT64", "64:ff9b:1::/48", 6, 2), at, unusedZeros: 1 })),
  embed("6to4", "2002::/16", 2, "allow"),
  embed("Teredo server", "2001::/32", 4, "allow"),
  { ...embed("Teredo client", "2001::/32", 12, "allow"), inverted: true }, // its bits are flipped on the wire
  embed("IPv4-compatible", "::/96", 12, 1),
];

/** Interface identifiers that carry an IPv4 address under any prefix (ISATAP): bytes 8 to 11, the lowest bits of the first are free. */
export const isIsatap = (address: Uint8Array) =>
  address[8]! <= 3 && address[9] === 0 && address[10] === 0x5e && address[11] === 0xfe;

/**
 * Ports of protocols that can be spoken to by accident or by design through HTTP (mail, shells, directories): the list
 * that browsers refuse. An address that the operator lists does not open them.
 */
// biome-ignore format: a table should look like one
export const REFUSED_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540,
  548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000,
  6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** Names that lead to this machine or to a cloud's credentials wherever they are resolved. */
export const REFUSED_NAMES: ReadonlyMap<string, string> = new Map([
  ...[
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
  ].map((name) => [name, "loopback"] as const),
  ...[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "rancher-metadata",
    "instance-data",
    "instance-data.ec2.internal",
  ].map((name) => [name, "cloud metadata"] as const),
]);
