import { expect, test } from "bun:test";
import { closeSync, readSync } from "node:fs";
import { memoryFile, neverBlock, pipe } from "../../src/native/jail/jail.ts";
import { encodeSpec } from "../../src/sandbox/jail/spec.ts";
import type { JailSpec } from "../../src/sandbox/jail/types.ts";
import { HELPER, LIMITS } from "./jail_kit.ts";

const NOBODY = { uid: 65_534, gid: 65_534 };
const SPEC: JailSpec = {
  argv: ["/nothing"],
  env: { A: "b" },
  cwd: "/",
  mounts: [{ kind: "file", at: "/text", text: "a\0b" }],
  limits: LIMITS,
  network: "none",
  filter: "session",
};

/** The answer of the helper to these bytes. */
async function answerTo(bytes: Uint8Array): Promise<string> {
  const [spec, report] = [memoryFile(bytes), pipe()];
  neverBlock(report.read);
  const child = Bun.spawn([HELPER], { env: {}, stdio: ["ignore", "ignore", "ignore", spec, report.write] });
  closeSync(spec);
  closeSync(report.write);
  await child.exited;
  const buffer = Buffer.alloc(1024);
  const said = buffer.toString("utf8", 0, readSync(report.read, buffer)).trim();
  closeSync(report.read);
  return said;
}

const whole = encodeSpec(SPEC, NOBODY);

test("a whole spec is understood: only the requested objects are missing", async () => {
  expect(await answerTo(whole)).toBe("setup -1 -1 /workspace: No such file or directory");
});

test("a spec that is cut at any byte is refused with a message", async () => {
  for (let length = 0; length < whole.byteLength; length++) {
    expect(await answerTo(whole.subarray(0, length))).toStartWith("setup -1 -1 spec: ");
  }
}, 120_000);

// biome-ignore format: a table should look like one
const wrong: [string, Uint8Array, string][] = [
  ["something behind its end", Buffer.concat([whole, Buffer.of(0)]), "there is data after its end"],
  ["another version", Buffer.concat([Buffer.from("VJ2\n"), whole.subarray(4)]), "it has another version"],
  ["an unknown record", Buffer.concat([whole.subarray(0, 4), Buffer.from("Z\0\0\0\0"), whole.subarray(4)]), "an unknown record"],
  ["a record without its bytes", Buffer.concat([whole.subarray(0, 4), Buffer.from([109, 0xff, 0xff, 0xff, 0xff]), whole.subarray(4)]), "it is incomplete"],
  ["a NUL in an argument", encodeSpec({ ...SPEC, argv: ["/bin/true\0x"] }, NOBODY), "a string contains a NUL"],
  ["a NUL in a path", encodeSpec({ ...SPEC, mounts: [{ kind: "read_only", from: "/usr\0/x", to: "/usr" }] }, NOBODY), "a string contains a NUL"],
  ["a relative path", encodeSpec({ ...SPEC, cwd: "here" }, NOBODY), "a path is not absolute"],
  ["no command", encodeSpec({ ...SPEC, argv: [] }, NOBODY), "no command"],
  ["too many mounts", encodeSpec({ ...SPEC, mounts: Array.from({ length: 300 }, () => ({ kind: "devices" as const })) }, NOBODY), "too many mounts"],
];
test.each(wrong)("%s is refused", async (_, bytes, why) => {
  expect(await answerTo(bytes)).toBe(`setup -1 -1 spec: ${why}`);
});

test.skipIf(process.getuid?.() !== 0)("a helper started by root does not stay root", async () => {
  const says = await answerTo(encodeSpec(SPEC, { uid: 0, gid: 0 }));
  expect(says).toBe("setup -1 -1 spec: a helper that root started needs a user and a group to become");
});
