import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { publicKeyOf, signReport } from "../../lib/detection/signed_report.ts";
import { verify } from "./verify.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const seed = new Uint8Array(32).fill(3);

async function exitOf(text: string, key?: string): Promise<number> {
  const file = join(dir, "report.html");
  await Bun.write(file, text);
  return await verify.run({ key, json: true } as never, file); // the type of flags is known to the command alone
}

test("a report is valid as it was signed, and by the key that the reader names", async () => {
  const report = signReport("<p>0.93</p>", seed);
  expect(await exitOf(report)).toBe(0);
  expect(await exitOf(report, publicKeyOf(seed))).toBe(0);
  expect(await exitOf(report, publicKeyOf(new Uint8Array(32)))).toBe(1);
  expect(await exitOf(report.replace("0.93", "0.13"))).toBe(1);
  await expect(exitOf("<p>no report</p>")).rejects.toThrow("no signed report");
});
