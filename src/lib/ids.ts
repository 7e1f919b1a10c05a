/** Every id prefix of the API, and `wrk` for child processes. The prefix says what a thing is; the ULID sorts by time. */
export type Prefix =
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
  | ("dsr" | "run" | "txn" | "det" | "bat" | "ups" | "cus" | "wrk" | "aud" | "scr" | "agt" | "brs" | "resp" | "bkp")
  | ("usr" | "psn" | "inv" | "file" | "reg" | "mch" | "psh" | "eval" | "rol" | "vs" | "vsf" | "vsfb")
  | ("conv" | "msg" | "fc" | "fco" | "ctc" | "ctco" | "rs");

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"; // Crockford base 32, lower case

let lastMs = -1;
let time = "";
const digits = new Uint8Array(16); // of the random part, five bits each

/** 48 bits of milliseconds, 80 bits of randomness; monotonic within a process even inside one millisecond. */
export function newId(prefix: Prefix, nowMs: number = Date.now()): string {
  if (nowMs > lastMs) begin(nowMs);
  else countUp();
  let text = `${prefix}_${time}`;
  for (let i = 0; i < 16; i++) text += ALPHABET[digits[i] as number];
  return text;
}

function begin(nowMs: number) {
  lastMs = nowMs;
  time = "";
  for (let left = nowMs; time.length < 10; left = Math.floor(left / 32)) time = ALPHABET[left % 32] + time;
  crypto.getRandomValues(digits);
  for (let i = 0; i < 16; i++) digits[i]! &= i === 0 ? 15 : 31; // the first bit is headroom to count up
}

function countUp() {
  let i = 15;
  while (digits[i] === 31) digits[i--] = 0;
  digits[i]!++;
}

const SHAPE = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/;
export const isId = (text: string, prefix: Prefix) => text.startsWith(`${prefix}_`) && SHAPE.test(text);

/** The milliseconds in a well-formed id. */
export function timeOf(id: string): number {
  const ulid = id.slice(-26);
  let ms = 0;
  for (let i = 0; i < 10; i++) ms = ms * 32 + ALPHABET.indexOf(ulid[i] as string);
  return ms;
}
