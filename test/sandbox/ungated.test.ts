// tier: all (many jails)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../harness.ts";

/** That the gate is what holds Python: without it these attacks reach the host, and with it they do not. */
const dir = tempDir();
const secret = join(dir, "secret.txt");
const marker = join(dir, "marker");
beforeAll(() => writeFileSync(secret, "the host's"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function python(gate: "open" | "locked", source: string): Promise<string> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "ungated.ts"), gate, source], {
    stdout: "pipe",
    stderr: "ignore",
  });
  return (await new Response(child.stdout).text()).trim();
}

const ATTACKS: [name: string, source: string, success: () => RegExp][] = [
  ["os.system runs a program", `import os; os.system("touch ${marker}"); print("ran")`, () => /^ran$/],
  [
    "a converted object leads to the runtime",
    'from pyodide.ffi import to_js; print("pid", to_js({1}).constructor.constructor("return process.pid")())',
    () => /pid \d+/,
  ],
  [
    "the host's files are mounted",
    `import pyodide_js; pyodide_js.mountNodeFS("/host", ${JSON.stringify(dir)}); print(open("/host/secret.txt").read())`,
    () => /the host's/,
  ],
];

test.each(ATTACKS)("%s, and does not behind the gate", async (_name, source, success) => {
  rmSync(marker, { force: true });
  expect(await python("open", source)).toMatch(success());
  const isFile = source.includes(marker);
  if (isFile) expect(existsSync(marker)).toBe(true);
  rmSync(marker, { force: true });
  const locked = await python("locked", source);
  if (isFile) expect(existsSync(marker)).toBe(false);
  else expect(locked).not.toMatch(success());
});
