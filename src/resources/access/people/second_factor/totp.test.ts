import { expect, test } from "bun:test";
import { base32, codeOf, newSecret, otpauthUri, stepAt, stepOfCode } from "./totp.ts";

const SECRET = new TextEncoder().encode("12345678901234567890");

/** RFC 6238, appendix B, for SHA-1; the last six of eight digits. */
test.each([
  [59, "287082"],
  [1_111_111_109, "081804"],
  [1_111_111_111, "050471"],
  [1_234_567_890, "005924"],
  [2_000_000_000, "279037"],
  [20_000_000_000, "353130"],
])("at %d s the code is %s", (seconds, code) => {
  expect(codeOf(SECRET, stepAt(seconds * 1000))).toBe(code);
});

/** RFC 4648, section 10. */
test.each([
  ["", ""],
  ["f", "MY"],
  ["fo", "MZXQ"],
  ["foobar", "MZXW6YTBOI"],
])("%p in base32 is %p", (text, wanted) => {
  expect(base32(new TextEncoder().encode(text))).toBe(wanted);
});

test("clock skew: the codes of the step before and the step after count, no others", () => {
  const [secret, nowMs] = [newSecret(), 1_800_000_000_000];
  const codes = [-2, -1, 0, 1, 2].map((by) => codeOf(secret, stepAt(nowMs) + by));
  expect(codes.map((code) => stepOfCode({ secret, code, nowMs, lastStep: 0 }))).toEqual([
    undefined,
    stepAt(nowMs) - 1,
    stepAt(nowMs),
    stepAt(nowMs) + 1,
    undefined,
  ]);
});

test("a code of a step that was used, or of an older one, is refused", () => {
  const [secret, nowMs] = [newSecret(), 1_800_000_000_000];
  const now = stepAt(nowMs);
  const found = (by: number, lastStep: number) =>
    stepOfCode({ secret, code: codeOf(secret, now + by), nowMs, lastStep });
  expect([found(0, now), found(-1, now), found(1, now)]).toEqual([undefined, undefined, now + 1]);
});

test("the address for apps names the issuer and the account", () => {
  expect(otpauthUri(SECRET, { issuer: "Verk lab", account: "ada@example.com" })).toBe(
    "otpauth://totp/Verk%20lab:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Verk%20lab&algorithm=SHA1&digits=6&period=30",
  );
});
