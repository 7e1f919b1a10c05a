/**
 * An API key is `vk_`, 37 random base62 characters (220 bits) and 6 of checksum. The checksum detects a typo or a
 * scanner's guess without a query. It proves nothing else.
 */
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SHAPE = /^vk_([0-9A-Za-z]{37})([0-9A-Za-z]{6})$/;
const PREFIX_LENGTH = 11;

const base62 = (value: number, length: number) => {
  let text = "";
  for (let n = value; text.length < length; n = Math.floor(n / 62)) text = ALPHABET[n % 62] + text;
  return text;
};

const checksum = (body: string) => base62(Bun.hash.crc32(body), 6);

export function mintKey(): string {
  let body = "";
  while (body.length < 37)
    for (const byte of crypto.getRandomValues(new Uint8Array(64)))
      if (byte < 248 && body.length < 37) body += ALPHABET[byte % 62]; // 248 = 4 × 62, so all characters are equally likely.
  return `vk_${body}${checksum(body)}`;
}

export function looksLikeKey(text: string): boolean {
  const match = SHAPE.exec(text);
  return match !== null && checksum(match[1] as string) === match[2];
}

/** The stored form. A plain hash is enough: 220 random bits cannot be guessed, unlike a password. */
export const hashKey = (key: string) => Bun.SHA256.hash(key, "hex");
export const prefixOf = (key: string) => key.slice(0, PREFIX_LENGTH);
