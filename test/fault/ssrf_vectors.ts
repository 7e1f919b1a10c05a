import { formatIp } from "../../src/lib/net/ip.ts";

/**
 * Addresses that an outbound call must not reach, from the IANA registries. The list is independent of the guard's own
 * table, so that a mistake in one shows. `network.allow_private` opens tier 2.
 */
export type Special = readonly [cidr: string, tier: 1 | 2];

// biome-ignore format: a table should look like one
export const IPV4_SPECIAL: readonly Special[] = [
  ["0.0.0.0/8", 1], ["10.0.0.0/8", 2], ["100.64.0.0/10", 2], ["127.0.0.0/8", 1], ["169.254.0.0/16", 1],
  ["172.16.0.0/12", 2], ["192.0.0.0/24", 1], ["192.0.0.0/29", 1], ["192.0.0.8/32", 1], ["192.0.0.9/32", 1],
  ["192.0.0.10/32", 1], ["192.0.0.170/31", 1], ["192.0.2.0/24", 1], ["192.31.196.0/24", 1], ["192.52.193.0/24", 1],
  ["192.88.99.0/24", 1], ["192.88.99.2/32", 1], ["192.168.0.0/16", 2], ["192.175.48.0/24", 1], ["198.18.0.0/15", 1],
  ["198.51.100.0/24", 1], ["203.0.113.0/24", 1], ["240.0.0.0/4", 1], ["255.255.255.255/32", 1],
  ["224.0.0.0/4", 1], ["224.0.0.0/24", 1], ["232.0.0.0/8", 1], ["233.252.0.0/24", 1], ["239.0.0.0/8", 1],
];
/** 64:ff9b::/96, 64:ff9b:1::/48, 2001::/32 and 2002::/16 are judged by the IPv4 address they carry: see `carriers`. */
// biome-ignore format: a table should look like one
export const IPV6_SPECIAL: readonly Special[] = [
  ["::/128", 1], ["::1/128", 1], ["::/96", 1], ["::ffff:0:0:0/96", 1], ["100::/64", 1],
  ["100:0:0:1::/64", 1], ["2001:1::1/128", 1], ["2001:1::2/128", 1], ["2001:1::3/128", 1], ["2001:2::/48", 1],
  ["2001:3::/32", 1], ["2001:4:112::/48", 1], ["2001:10::/28", 1], ["2001:20::/28", 1], ["2001:30::/28", 1],
  ["2001:db8::/32", 1], ["2620:4f:8000::/48", 1], ["3fff::/20", 1], ["5f00::/16", 1], ["fc00::/7", 2], ["fe80::/10", 1],
  ["fec0::/10", 1], ["ff00::/8", 1], ["ff02::/16", 1], ["ff0e::/16", 1], ["200::/7", 1], ["400::/6", 1], ["4000::/3", 1],
  ["6000::/3", 1], ["8000::/3", 1], ["a000::/3", 1], ["c000::/3", 1], ["e000::/4", 1], ["fe00::/9", 1],
];
/** Metadata services of clouds, which answer with credentials. Most lie in ranges that `network.allow_private` opens. */
export const METADATA = [
  ..."169.254.169.254 169.254.170.2 169.254.170.23 169.254.42.42 100.100.100.200 168.63.129.16 192.0.0.192".split(" "),
  ..."fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fe80::a9fe:a9fe".split(" "),
];
export const REFUSED_NAMES = [
  ..."localhost a.localhost a.b.localhost localhost.localdomain localhost4 localhost4.localdomain4".split(" "),
  ..."localhost6 localhost6.localdomain6 ip6-localhost ip6-loopback".split(" "),
  ..."metadata metadata.google.internal metadata.goog metadata.azure.internal metadata.tencentyun.com".split(" "),
  ..."instance-data instance-data.ec2.internal metadata.packet.net metadata.platformequinix.com".split(" "),
  ..."rancher-metadata".split(" "),
];

export const toNumber = (bytes: Uint8Array) => bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
export const toBytes = (value: bigint, length: number) =>
  Uint8Array.from({ length }, (_, i) => Number((value >> BigInt(8 * (length - 1 - i))) & 255n));

export function boundsOf(cidr: { bytes: Uint8Array; bits: number }): [first: bigint, last: bigint] {
  const first = toNumber(cidr.bytes);
  return [first, first + (1n << BigInt(cidr.bytes.length * 8 - cidr.bits)) - 1n];
}

/** Host spellings of an IPv4 address that the URL standard reads as the address. */
export function spellings(v4: Uint8Array): string[] {
  const [a, b, c, d] = [...v4] as [number, number, number, number];
  const plain = `${a}.${b}.${c}.${d}`;
  const whole = Number(toNumber(v4));
  const octal = (part: number) => `0${part.toString(8)}`;
  const hex = (part: number) => `0x${part.toString(16)}`;
  const from = (zero: number) => plain.replaceAll(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));
  return [
    plain,
    String(whole),
    hex(whole),
    hex(whole).toUpperCase(),
    octal(whole),
    `0000${octal(whole)}`,
    [a, b, c, d].map(octal).join("."),
    [a, b, c, d].map(hex).join("."),
    `${hex(a)}.${octal(b)}.${c}.${hex(d)}`,
    `${a}.${(b << 16) | (c << 8) | d}`,
    `${a}.${b}.${hex((c << 8) | d)}`,
    [a, b, c, d].map((part) => `000${octal(part)}`).join("."),
    `${plain}.`,
    ...["\u3002", "\uff0e", "\uff61"].map((dot) => plain.replaceAll(".", dot)),
    from(0xff10), // full-width digits
    from(0x1d7ce), // mathematical bold digits
    plain.replace(/\d/, (digit) => `%${digit.charCodeAt(0).toString(16)}`),
    [...plain].map((char) => `%${char.charCodeAt(0).toString(16)}`).join(""),
    plain.replace(".", "%E3%80%82"),
    `\u00ad${plain}\u200b`, // invisible, dropped by the name mapping
  ];
}

/** The same address inside IPv6, by every transition mechanism that could lead a packet to it. */
export function carriers(v4: Uint8Array): string[] {
  const dotted = v4.join(".");
  const word = (i: number, flip = 0) => (((v4[i]! << 8) | v4[i + 1]!) ^ flip).toString(16);
  const [high, low] = [word(0), word(2)];
  return [
    ...[`::ffff:${dotted}`, `::ffff:${high}:${low}`, `0:0:0:0:0:FFFF:${high}:${low}`, `0000::ffff:${dotted}`],
    ...[`::${dotted}`, `::${high}:${low}`, `::ffff:0:${dotted}`],
    ...[`64:ff9b::${dotted}`, `0064:ff9b::${high}:${low}`, `64:ff9b:1::${dotted}`],
    ...[`2002:${high}:${low}::`, `2002:${high}:${low}:1::1`, `2002:${high}:${low}::${dotted}`],
    ...[
      `2001:0:${high}:${low}:8000:63bf:f7f7:f7f7`,
      `2001:0:4136:e378:8000:63bf:${word(0, 0xffff)}:${word(2, 0xffff)}`,
    ],
    ...["0", "200", "100", "300"].map((ug) => `2606:4700::${ug}:5efe:${dotted}`),
    `2002:808:808::5efe:${dotted}`,
  ].map((text) => `[${text}]`);
}

/** The local NAT64 range, under the prefixes of 48, 56 and 64 bits of RFC 6052; byte 8 is zero. */
export function localNat64(v4: Uint8Array): string[] {
  const targets = [
    [6, 7, 9, 10],
    [7, 9, 10, 11],
    [9, 10, 11, 12],
  ];
  return targets.map((at) => {
    const bytes = Uint8Array.from([0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, ...new Uint8Array(10)]);
    for (const [i, place] of at.entries()) bytes[place] = v4[i]!;
    return `[${formatIp(bytes)}]`;
  });
}
