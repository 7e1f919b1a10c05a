import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { acquireDataLock } from "../../platform/db/data_lock.ts";
import type { NodePlan } from "../../platform/providers/protocol.ts";
import { lackingFiles, listCheckpoints, listFiles, pathIn, removeJob } from "./files.ts";
import { cancelRun, observeRuns, storePlan } from "./runs.ts";
import { newestCheckpoint } from "./tasks.ts";

const JOB = "job_01j9zzzzzzzzzzzzzzzzzzzzzz";
const HANDLE = { job: JOB, attempt: 1 };
const SHA = "a".repeat(64);
let root: string;
beforeAll(() => {
  root = tempDir();
});
afterAll(() => rmSync(root, { recursive: true }));

const put = (path: string, text: string) => {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), text);
};
const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
const stateOf = () => observeRuns(root, [HANDLE])[0]?.state;

test("a server names only models, inputs and checkpoints of the work directory", () => {
  for (const path of [`models/${SHA}.gguf`, `jobs/${JOB}/inputs/rows.db`, `jobs/${JOB}/checkpoints/step-12/a.gguf`])
    expect(pathIn("/w", path)).toBe(`/w/${path}`);
  const refused = ["models/x.gguf", `jobs/${JOB}/1/plan.json`, `jobs/${JOB}/inputs/../../x`, `jobs/${JOB}/inputs/a/b`];
  for (const path of [
    ...refused,
    `/models/${SHA}.gguf`,
    `jobs/${JOB}/checkpoints/latest/a`,
    `jobs/${JOB}/inputs/.hidden`,
  ])
    expect(() => pathIn("/w", path)).toThrow("not a path of the work directory");
});

test("a file is brought again if it is absent or differs; a model counts by its name and size", async () => {
  put(`jobs/${JOB}/inputs/same`, "one");
  put(`jobs/${JOB}/inputs/other`, "two");
  put(`models/${SHA}.gguf`, "model");
  const file = (path: string, text: string) => ({ path, sha256: sha256(text), bytes: text.length });
  const inputs = ["same", "other", "absent"].map((name) => file(`jobs/${JOB}/inputs/${name}`, "one"));
  const models = [
    { path: `models/${SHA}.gguf`, sha256: SHA, bytes: 5 },
    { path: `models/${SHA}.gguf`, sha256: SHA, bytes: 6 },
  ];
  expect(await lackingFiles(root, [...inputs, ...models])).toEqual([
    `jobs/${JOB}/inputs/other`,
    `jobs/${JOB}/inputs/absent`,
    `models/${SHA}.gguf`,
  ]);
});

test("files are listed with hash and size, and checkpoints in order, without those to drop", async () => {
  const dir = `jobs/${JOB}/checkpoints`;
  expect(await listFiles(root, `${dir}/step-000001`)).toEqual([]);
  expect(await listCheckpoints(root, JOB, [])).toEqual([]);
  for (const step of ["step-000002", "step-000001", "step-000003"]) put(`${dir}/${step}/a.gguf`, step);
  put(`${dir}/.results/a`, "half");
  mkdirSync(join(root, dir, "step-000001/folder"));
  const path = `${dir}/step-000001/a.gguf`;
  expect(await listFiles(root, `${dir}/step-000001`)).toEqual([{ path, sha256: sha256("step-000001"), bytes: 11 }]);
  expect(newestCheckpoint(join(root, dir))).toBe(join(root, dir, "step-000003"));
  expect(await listCheckpoints(root, JOB, ["step-000002", ".results", "../inputs"])).toEqual([
    "step-000001",
    "step-000003",
  ]);
  expect([existsSync(join(root, dir, ".results")), existsSync(join(root, `jobs/${JOB}/inputs`))]).toEqual([true, true]);
  await expect(listCheckpoints(root, "../x", [])).rejects.toThrow();
});

const PLAN: NodePlan = {
  handle: HANDLE,
  task: {},
  gpus: 0,
  gpu_type: "cpu",
  rewards: null,
  limits: { sampleMs: 1, batchMs: 1 },
  settings: {},
};

test("the files of a run tell its state, and a plan is written once, for its user alone", async () => {
  const dir = join(root, "jobs", JOB, "1");
  const modeOf = (path: string) => statSync(path).mode & 0o777;
  expect(stateOf()).toBe("missing");
  expect(cancelRun(root, HANDLE, "stop")).toBeNull();
  expect(existsSync(dir)).toBe(false);
  await storePlan(root, HANDLE, PLAN);
  await storePlan(root, HANDLE, { ...PLAN, gpus: 2 });
  expect(JSON.parse(readFileSync(join(dir, "plan.json"), "utf8"))).toEqual(PLAN);
  expect([modeOf(dir), modeOf(join(dir, "plan.json")), stateOf()]).toEqual([0o700, 0o600, "ready"]);
  cancelRun(root, HANDLE, "save");
  expect([existsSync(join(dir, "save")), existsSync(join(dir, "stop"))]).toEqual([true, false]);
  writeFileSync(join(dir, "started"), "");
  expect(stateOf()).toBe("lost");
  const lock = acquireDataLock(join(root, "jobs", JOB), { version: "1" });
  expect(stateOf()).toBe("running");
  await expect(removeJob(root, JOB)).rejects.toThrow("still runs");
  lock.release();
  writeFileSync(join(dir, "records.ndjson"), "{}\n");
  writeFileSync(join(dir, "ended"), "");
  expect(observeRuns(root, [HANDLE])).toEqual([{ state: "ended", lost: null, bytes: 3, heartbeat_at: null }]);
  expect(await removeJob(root, JOB)).toBeNull();
  expect([existsSync(join(root, "jobs", JOB)), stateOf()]).toEqual([false, "missing"]);
  expect(await removeJob(root, JOB)).toBeNull();
});
