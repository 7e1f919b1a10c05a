/** A worker that writes 400 MB to what is named on standard input: flood_stdout or flood_stderr. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/platform/clock.ts";
import { createLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import { FAKE_PROGRAM } from "../fake_workers/program.ts";
import { FromFake } from "../fake_workers/protocol.ts";
import { growthBy } from "./growth.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-flood-"));
const supervisor = createSupervisor({
  log: createLog({ level: "error" }),
  clock: systemClock,
  socketDir: join(dir, "run"),
  silence_ms: 20_000,
  stop_grace_ms: 5_000,
  stderr_tail_bytes: 8_192,
  program: FAKE_PROGRAM,
});
const behaviour = (await Bun.stdin.text()).trim();
const flood = (megabytes: number) =>
  supervisor.spawn({ kind: "fake", args: [behaviour, String(megabytes)], incoming: FromFake }).exited;
await flood(5); // whatever is allocated once
let exit: Awaited<ReturnType<typeof flood>> | undefined;
const growthBytes = await growthBy(async () => {
  exit = await flood(400);
});
await supervisor.stopAll("over");
rmSync(dir, { recursive: true, force: true });
console.log(JSON.stringify({ exit, growthBytes }));
