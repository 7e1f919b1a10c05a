/** Files that may keep the event loop, and why. A new one needs a line here. */
import { expect, test } from "bun:test";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");

const ALLOWED: Record<string, string> = {
  "test/fault/growth_turns.test.ts": "the turns are compared here, and the first try of a call does not count",
  "test/http/request_target.test.ts": "the test sends every spelling of every route in one turn",
  "test/process/credentials.test.ts":
    "it ends thirty workers, and on a busy machine the kernel takes long to release one (wait4)",
  "test/process/memory_limit.test.ts":
    "while the group is at its limit, the kernel reclaims memory in the time of the server",
};

test("files with long turns are known, each with the reason that it gives", async () => {
  const found: Record<string, string> = {};
  for (const file of new Bun.Glob("{test,src}/**/*.test.ts").scanSync(ROOT)) {
    const text = await Bun.file(join(ROOT, file)).text();
    const reason = /^allowLongTurns\("(.{20,})"\);$/m.exec(text)?.[1];
    if (reason !== undefined) found[file] = reason;
    else if (text.includes("allowLongTurns(") && file !== "test/meta/long_turns.test.ts") found[file] = "no reason";
  }
  expect(found).toEqual(ALLOWED);
});
