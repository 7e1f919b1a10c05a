import { expect, test } from "bun:test";
import { publicKeyOf, signReport, verifyReport } from "./signed_report.ts";

const seed = new Uint8Array(32).fill(7);
const html = "<!doctype html>\n<p>Score 0.93 of “x”</p>";
const bytesOf = (text: string) => new TextEncoder().encode(text);

test("a signed report is valid, and every changed byte makes it invalid", () => {
  const file = bytesOf(signReport(html, seed));
  expect(verifyReport(file)).toEqual({ key: publicKeyOf(seed), valid: true });
  for (let at = 0; at < file.length - 1; at++) {
    const changed = file.slice();
    changed[at]! ^= 1;
    expect(verifyReport(changed)?.valid ?? false).toBe(false);
  }
});

test("another key signs with another name, and content after the signature is no report", () => {
  const other = new Uint8Array(32).fill(8);
  expect(verifyReport(bytesOf(signReport(html, other)))).toEqual({ key: publicKeyOf(other), valid: true });
  expect(publicKeyOf(other)).not.toBe(publicKeyOf(seed));
  expect(verifyReport(bytesOf(`${signReport(html, seed)}<p>more</p>`))).toBeUndefined();
  expect(verifyReport(bytesOf(html))).toBeUndefined();
  expect(verifyReport(new Uint8Array())).toBeUndefined();
});
