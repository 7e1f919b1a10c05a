/**
 * S10: variables that a tenant chooses reach its command inside the jail, and no process outside. `BUN_BE_BUN` makes an
 * interpreter of the executable, `BUN_OPTIONS` and `LD_PRELOAD` load code into a program, and others change its libraries.
 */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { sbatchArgs } from "../../src/platform/providers/slurm_text.ts";
import { workerEnv } from "../../src/platform/workers/env.ts";
import { REWARD_ENV } from "../../src/sandbox/reward/spawn.ts";
import { manyTrainings } from "../fake_trainers.ts";
import { jobPaths } from "../foreign_paths.ts";
import { until } from "../harness.ts";
import { newSession, streamed } from "./sessions_kit.ts";

setDefaultTimeout(120_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const VALUE = "tenant-chosen-value";
const NAMES = [
  ...["BUN_BE_BUN", "BUN_OPTIONS", "BUN_INSPECT", "BUN_INSPECT_PRELOAD", "BUN_JSC_useJIT", "JSC_useJIT"],
  ...["NODE_OPTIONS", "NODE_CHANNEL_FD", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED"],
  ...["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TRACE"],
  ...["UV_THREADPOOL_SIZE", "GCONV_PATH", "TZ", "LANG", "HTTPS_PROXY", "SSL_CERT_FILE", "TMPDIR"],
  ...["CUDA_CACHE_PATH", "VERK_DATA", "VERK_URL", "VERK_FAILPOINT", "VERK_WORKER_ID", "VERK_WORKER_DIR"],
];
const LOOSE = Object.fromEntries(NAMES.map((name) => [name, VALUE]));
/** Prints its environment, then waits for a file, so that the test can inspect all processes meanwhile. */
const WAITS = "unset LD_PRELOAD LD_AUDIT; tr '\\0' '\\n' < /proc/$$/environ; : > begun; until [ -e go ]; do :; done";

type Process = { pid: number; isInside: boolean; environ: string };

/** Processes that this one started, with everything below them. */
function descendants(): Process[] {
  const outside = readlinkSync("/proc/self/ns/mnt");
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((each) => /^\d+$/.test(each)))
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1");
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
    } catch {} // it has ended
  const isOurs = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === process.pid || isOurs(parents.get(pid)));
  return [...parents.keys()].flatMap((pid) => {
    if (pid === process.pid || !isOurs(pid)) return [];
    try {
      const isInside = readlinkSync(`/proc/${pid}/ns/mnt`) !== outside;
      return [{ pid, isInside, environ: readFileSync(`/proc/${pid}/environ`, "latin1") }];
    } catch {
      return [];
    }
  });
}

/** Judges while the command waits. */
function expectContained() {
  const all = descendants();
  const holders = all.filter(({ environ }) => environ.includes(VALUE));
  expect(holders.length).toBeGreaterThan(0); // the command has them
  expect(holders.filter(({ isInside }) => !isInside)).toEqual([]);
  expect(all.filter(({ isInside }) => !isInside).length).toBeGreaterThan(0); // the helper, at least
}

test("S10: variables of a session and of a command stay inside the jail, and are there as they were set", async () => {
  const on = await app();
  const split = Math.floor(NAMES.length / 2);
  const some = (from: number, to: number) => Object.fromEntries(Object.entries(LOOSE).slice(from, to));
  const { id } = await newSession(on, { env: some(0, split) });
  const { events } = await streamed(on, id, { command: WAITS, env: some(split, NAMES.length) });
  const work = join(on.dir, "sessions", id, "root/workspace");
  await until("the command to run", () => existsSync(join(work, "begun")));
  expectContained();
  await on.call("PUT", `/v1/sessions/${id}/files/content?path=/workspace/go`, undefined, { raw: "" });
  let output = "";
  for await (const { data } of events) output += JSON.stringify(data);
  for (const name of NAMES) expect([name, output.includes(`${name}=${VALUE}`)]).toEqual([name, true]);
});

test("S10: secrets of a custom job stay inside its jail under their own names", async () => {
  const on = await app();
  const names = NAMES.filter((name) => /^[A-Z_][A-Z0-9_]*$/.test(name)).slice(0, 20);
  for (const name of names) await on.call("PUT", `/v1/secrets/${name}`, { value: VALUE });
  const id = on.add({
    method: "custom",
    baseModel: null,
    lora: null,
    totalSteps: 0,
    memoryBytes: 0,
    secrets: names,
    command: WAITS,
  });
  const { workspace } = jobPaths(on.ctx, id);
  await until("the command to run", () => existsSync(join(workspace, "begun")), 60_000);
  expectContained();
  await Bun.write(join(workspace, "go"), "");
  await on.reaches(id, "completed", 60_000);
});

test("S10: a worker, a reward process and a job of a cluster get fixed names, whatever the server has", () => {
  const folders = { id: "w", dir: "/d", own: "/d/w" };
  const passed = workerEnv(LOOSE, folders);
  expect(Object.keys(passed).filter((name) => passed[name] === VALUE)).toEqual([
    "CUDA_CACHE_PATH",
    "LD_LIBRARY_PATH", // where the operator has the driver's libraries
    "TZ",
    "LANG",
  ]);
  expect(Object.keys(REWARD_ENV).filter((name) => name in LOOSE)).toEqual([]);
  const settings = { partition: null, account: null, qos: null, time_limit_minutes: null, extra: {} };
  const args = sbatchArgs(settings as never, { name: "n", nodes: 1, gpus: 0, gres: "gpu", dir: "/d" } as never);
  expect(args.filter((each) => each.startsWith("--export"))).toEqual(["--export=HOME,USER,PATH"]);
});
