import { expect, test } from "bun:test";
import { chmodSync, chownSync, rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { tempDir } from "../harness.ts";
import { asNobody, isRoot, NOBODY } from "./nobody.ts";

test("reward code runs for a user whose programs have a lower priority than it takes itself", async () => {
  const dir = tempDir();
  chmodSync(dir, 0o755);
  if (isRoot) chownSync(dir, NOBODY, NOBODY);
  const server = await startBinary({
    dir,
    env: { VERK_SANDBOX__REQUIRE: "language" },
    prefix: asNobody(["nice", "-n", "19"]),
  });
  try {
    const source = "export const reward = ({ completions }) => completions.map(() => 1);";
    const run = { source, language: "javascript", rows: [{ completion: "x" }] };
    const { status, body } = await server.call("POST", "/v1/reward_functions/run", run);
    expect([status, body.results?.[0]?.reward]).toEqual([200, 1]);
  } finally {
    await server.kill();
    rmSync(dir, { recursive: true, force: true });
  }
}, 120_000);
