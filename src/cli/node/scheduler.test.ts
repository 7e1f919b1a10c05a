import { afterEach, beforeEach, expect, test } from "bun:test";
import { availableParallelism } from "node:os";
import type { Gpu } from "../../platform/machine/hardware.ts";
import {
  allottedCpus,
  cpuCount,
  gpuCount,
  isRestart,
  isScheduled,
  launchAddress,
  nodeCount,
  stepIndex,
  visibleGpus,
} from "./scheduler.ts";
import { asExit, shownGpus } from "./tasks.ts";

const NAMES = [
  ...["SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_NUM_NODES", "SLURM_PROCID", "SLURM_LAUNCH_NODE_IPADDR"],
  ...["SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "CUDA_VISIBLE_DEVICES"],
];
const kept = NAMES.map((name) => [name, process.env[name]] as const);
const clear = () => {
  for (const name of NAMES) delete process.env[name];
};
beforeEach(clear);
afterEach(() => {
  clear();
  for (const [name, value] of kept) if (value !== undefined) process.env[name] = value;
});

test("without Slurm the whole node belongs to the supervisor", () => {
  expect([isScheduled(), isRestart(), nodeCount(), stepIndex()]).toEqual([false, false, 1, 0]);
  expect([launchAddress(), allottedCpus(), cpuCount()]).toEqual([[], undefined, availableParallelism()]);
  expect([visibleGpus(), gpuCount(3)]).toEqual([undefined, 3]);
});

test("Slurm's variables count if they are numbers", () => {
  Object.assign(process.env, { SLURM_JOB_ID: "7", SLURM_JOB_NUM_NODES: "2", SLURM_PROCID: "1" });
  Object.assign(process.env, { SLURM_RESTART_COUNT: "0", SLURM_LAUNCH_NODE_IPADDR: "10.0.0.1" });
  expect([isScheduled(), isRestart(), nodeCount(), stepIndex()]).toEqual([true, false, 2, 1]);
  expect(launchAddress()).toEqual(["10.0.0.1"]);
  Object.assign(process.env, { SLURM_JOB_ID: "x", SLURM_RESTART_COUNT: "1", SLURM_JOB_NUM_NODES: "2x" });
  expect([isScheduled(), isRestart(), nodeCount()]).toEqual([false, true, 1]);
});

test("a job has the processors that it asked for, else those that Slurm gives it on this node", () => {
  process.env["SLURM_CPUS_ON_NODE"] = "3";
  expect([allottedCpus(), cpuCount()]).toEqual([3, 3]);
  process.env["SLURM_CPUS_PER_TASK"] = "2";
  expect([allottedCpus(), cpuCount()]).toEqual([2, 2]);
});

test("the GPUs of a job are those that are visible, by number or UUID, in that order", () => {
  const gpu = (index: number) => ({ index, uuid: `GPU-${index}` }) as Gpu;
  const gpus = [0, 1, 2].map(gpu);
  expect(shownGpus(gpus)).toEqual(gpus);
  expect(shownGpus(gpus)).not.toBe(gpus);
  process.env["CUDA_VISIBLE_DEVICES"] = "2,GPU-0,,9";
  expect(shownGpus(gpus)).toEqual([gpu(2), gpu(0)]);
  expect([visibleGpus(), gpuCount(9)]).toEqual([["2", "GPU-0", "9"], 3]);
  process.env["CUDA_VISIBLE_DEVICES"] = "";
  expect([shownGpus(gpus), gpuCount(9)]).toEqual([[], 0]);
});

test("a kill from outside is of the kind memory only if the kernel has ended a process for want of it", () => {
  const exit = {
    kind: "crashed",
    message: "m",
    tail: "t",
    code: null,
    signal: "SIGKILL",
    forced: false,
    stderrBytes: 0,
  } as const;
  const more = Number.MAX_SAFE_INTEGER; // the kernel has ended fewer than that
  expect(asExit(exit, more)).toEqual({ kind: "crashed", message: "m", tail: "t", killed: true });
  expect(asExit(exit, -1)).toMatchObject({ kind: "memory", killed: true });
  for (const other of [{ forced: true }, { signal: "SIGTERM" as const }, { kind: "reward" }])
    expect(asExit({ ...exit, ...other }, -1)).toMatchObject({ kind: other.kind ?? "crashed", killed: false });
});
