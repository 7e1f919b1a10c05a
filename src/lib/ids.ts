/** Every id prefix of the API, and `wrk` for child processes. The prefix says what a thing is; the ULID sorts by time. */
type Prefix =
  | (
      | "ws"
      | "key"
      | "ds"
      | "row"
      | "batch"
      | "job"
      | "ckpt"
      | "dep"
      | "req"
      | "rf"
      | "mdl"
      | "vol"
      | "evt"
      | "whk"
      | "dlv"
    )
  | ("sec" | "ssh" | "ses" | "exec" | "evl" | "rule" | "exp" | "expi" | "anq" | "anqi" | "mon" | "trc" | "art" | "upl")
  | ("run" | "txn" | "det" | "bat" | "ups" | "cus" | "wrk");

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"; // Crockford base 32, lower case

let lastMs = -1;
let lastRandom = 0n;

/** 48 bits of milliseconds, 80 bits of randomness; monotonic within a process even inside one millisecond. */
export function newId(prefix: Prefix, nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    const bytes = crypto.getRandomValues(new Uint8Array(10));
    lastRandom = bytes.reduce((n, b) => (n << 8n) | BigInt(b), 0n) >> 1n; // headroom to count up
  } else {
    lastRandom += 1n;
  }
  let value = (BigInt(lastMs) << 80n) | lastRandom;
  let text = "";
  for (let i = 0; i < 26; i++) {
    text = ALPHABET[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return `${prefix}_${text}`;
}

const SHAPE = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/;
export const isId = (text: string, prefix: Prefix) => text.startsWith(`${prefix}_`) && SHAPE.test(text);
