/**
 * Addresses as bytes: 4 for IPv4, 16 for IPv6. Only canonical text is read (four decimal numbers without leading
 * zeros, RFC 4291 for IPv6): the URL parser turns the octal, hex and short forms into this before it gets here.
 */
export type Cidr = { bytes: Uint8Array; bits: number };

export function parseIp(text: string): Uint8Array | undefined {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

function parseIpv4(text: string): Uint8Array | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255))
    return undefined;
  return Uint8Array.from(parts, Number);
}

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = groups(halves[0]!, halves.length === 1);
  const tail = halves.length === 2 ? groups(halves[1]!, true) : [];
  if (!head || !tail) return undefined;
  const missing = 16 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined;
  return Uint8Array.from([...head, ...new Array<number>(missing).fill(0), ...tail]);
}

/** Colon-separated groups as bytes; a dotted IPv4 may stand last, when this is the end of the address. */
function groups(text: string, atEnd: boolean): number[] | undefined {
  if (text === "") return [];
  const bytes: number[] = [];
  const parts = text.split(":");
  for (const [i, part] of parts.entries()) {
    if (part.includes(".")) {
      const v4 = atEnd && i === parts.length - 1 ? parseIpv4(part) : undefined;
      if (!v4) return undefined;
      bytes.push(...v4);
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(part)) return undefined;
      const value = Number.parseInt(part, 16);
      bytes.push(value >> 8, value & 255);
    }
  }
  return bytes;
}

export function formatIp(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const words = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
  let best = { start: -1, length: 1 }; // RFC 5952: one group of zeros is not shortened
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (words[i + length] === "0") length++;
    if (length > best.length) best = { start: i, length };
  }
  if (best.start < 0) return words.join(":");
  return `${words.slice(0, best.start).join(":")}::${words.slice(best.start + best.length).join(":")}`;
}

/** `10.0.0.0/8`, or a single address. The bits behind the prefix must be zero, so that a typo is not a wider hole. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = "", prefix, ...rest] = text.split("/");
  const bytes = parseIp(address);
  if (!bytes || rest.length > 0) return undefined;
  if (prefix === undefined) return { bytes, bits: bytes.length * 8 };
  if (!/^(0|[1-9]\d{0,2})$/.test(prefix) || Number(prefix) > bytes.length * 8) return undefined;
  const cidr = { bytes, bits: Number(prefix) };
  const masked = bytes.map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, cidr.bits - i * 8))));
  return masked.every((byte, i) => byte === bytes[i]) ? cidr : undefined;
}

export function inCidr(address: Uint8Array, { bytes, bits }: Cidr): boolean {
  if (address.length !== bytes.length) return false;
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (address[i] !== bytes[i]) return false;
  const rest = bits & 7;
  return rest === 0 || ((address[whole]! ^ bytes[whole]!) & (0xff00 >> rest) & 0xff) === 0;
}

/** A host name as DNS knows it: lower case, no trailing dot. Undefined when it cannot be one (`10.0.0` is none). */
export function normalizeHost(text: string): string | undefined {
  const host = text.toLowerCase().replace(/\.$/, "");
  if (/(^|\.)(\d+|0x[0-9a-f]*)$/.test(host)) return undefined;
  return /^(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(host) ? host : undefined;
}
