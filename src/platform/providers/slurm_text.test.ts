import { expect, test } from "bun:test";
import {
  devicesOf,
  gresOf,
  isUsable,
  judgeRun,
  limitIn,
  mostDevices,
  mostOfJob,
  nodesFor,
  nodesOf,
  queueOf,
  rowOf,
  SlurmSettings,
  sbatchArgs,
  settingsOf,
  slurmName,
} from "./slurm_text.ts";

const HANDLE = { job: "job_01j9zzzzzzzzzzzzzzzzzzzzzz", attempt: 2 };
const NAME = slurmName(HANDLE);

test("GRES become types of GPUs, by the most that one node has", () => {
  expect(gresOf("gpu:h200:4(S:0-1),shard:8")).toEqual([{ gres: "gpu:h200", type: "H200", count: 4 }]);
  expect(gresOf("gpu:a100_80gb:8(IDX:0-7)")).toEqual([{ gres: "gpu:a100_80gb", type: "A100-80GB", count: 8 }]);
  expect(gresOf("gpu:2")).toEqual([{ gres: "gpu", type: "GPU", count: 2 }]);
  expect(gresOf("gpu:rtx_4090")).toEqual([{ gres: "gpu:rtx_4090", type: "RTX-4090", count: 1 }]);
  expect(gresOf("(null)")).toEqual([]);
  const nodes = nodesOf("n1|gpu:h200:2|1000+|64|mixed\nn1|gpu:h200:2|1000|64|mixed\nn2|gpu:h200:8|2000|96|idle~\n");
  expect(nodes.map(({ name, memoryMib }) => [name, memoryMib])).toEqual([
    ["n1", 1000],
    ["n2", 2000],
  ]);
  expect(devicesOf(nodes)).toEqual([{ gres: "gpu:h200", type: "H200", count: 8 }]);
  expect(["idle", "mixed", "allocated", "idle~"].map(isUsable)).toEqual([true, true, true, true]);
  expect(["down*", "drained", "draining", "idle*", "unknown", "maint"].filter(isUsable)).toEqual([]);
});

test("settings become options of sbatch, and nothing that is not set is passed", () => {
  const plain = sbatchArgs(SlurmSettings.parse({}), { name: NAME, nodes: 1, gpus: 0, gres: undefined, dir: "/w" });
  expect(plain).toContain(`--job-name=${NAME}`);
  expect(plain.join(" ")).not.toMatch(/partition|account|qos|time|gres|mem|cpus/);
  const settings = SlurmSettings.parse({
    partition: "gpu,long",
    account: "lab",
    qos: "high",
    time_limit_minutes: 90,
    cpus: 8,
    memory_mib: 4096,
  });
  const all = sbatchArgs(settings, { name: NAME, nodes: 1, gpus: 2, gres: "gpu:h200", dir: "/w" });
  for (const option of ["partition=gpu,long", "account=lab", "qos=high", "time=90", "cpus-per-task=8", "mem=4096M"])
    expect(all).toContain(`--${option}`);
  expect(all).toContain("--gres=gpu:h200:2");
  const wide = sbatchArgs(settings, { name: NAME, nodes: 2, gpus: 8, gres: "gpu:h200", dir: "/w" });
  for (const option of ["nodes=2", "ntasks=2", "ntasks-per-node=1", "gres=gpu:h200:4"])
    expect(wide).toContain(`--${option}`);
  for (const partition of ["-x", "a b", "a;b", "", "$(x)"])
    expect(SlurmSettings.safeParse({ partition }).success).toBe(false);
});

const commandWith = (resources: { memory_mib: number; cpus: number | null }) => ({
  custom: {
    command: "true",
    seed: 1,
    resources: { ...resources, disk_mib: 64 },
    limits: { processes: 8, entries: 100, wallMs: 1000 },
    env: {},
    secrets: {},
    network: null,
    code: null,
    hasRows: false,
    volumes: [],
  },
});

test("a run asks Slurm for what it needs itself, up to what region and partition give to a job", () => {
  const optionsOf = (settings: object, plan: Parameters<typeof settingsOf>[1], partition: number | null = null) => {
    const { cpus, memory_mib, time_limit_minutes } = settingsOf(SlurmSettings.parse(settings), plan, partition);
    return [cpus, memory_mib, time_limit_minutes];
  };
  const small = commandWith({ memory_mib: 1024, cpus: 2 });
  const region = { cpus: 8, memory_mib: 4096, time_limit_minutes: 60 };
  expect(optionsOf({}, {})).toEqual([null, null, null]);
  expect(optionsOf(region, {})).toEqual([8, 4096, 60]);
  expect(optionsOf({}, { ...small, minutes: 30 })).toEqual([2, 1536, 30]); // and 512 for the supervisor
  expect(optionsOf(region, { ...small, minutes: 30 })).toEqual([2, 1536, 30]);
  expect(optionsOf(region, { ...commandWith({ memory_mib: 8192, cpus: 64 }), minutes: 90 })).toEqual([8, 4096, 60]);
  expect(optionsOf(region, commandWith({ memory_mib: 1024, cpus: null }))).toEqual([8, 1536, 60]);
  expect(optionsOf(region, { minutes: 30 })).toEqual([8, 4096, 30]); // a training
  expect(optionsOf({}, { minutes: 900 }, 45)).toEqual([null, null, 45]);
});

test("the most of a job is the least of what a node has and what the region gives", () => {
  const info = {
    version: "1",
    architecture: "x64",
    cpus: 16,
    memory_bytes: 2048 * 2 ** 20 + 1,
    free_bytes: 0,
    gpus: [],
  };
  expect(mostOfJob(null, null)).toEqual({ cpus: null, memoryMib: null });
  expect(mostOfJob(info, null)).toEqual({ cpus: 16, memoryMib: 2048 });
  expect(mostOfJob(info, SlurmSettings.parse({}))).toEqual({ cpus: 16, memoryMib: 1536 });
  expect(mostOfJob(info, SlurmSettings.parse({ cpus: 4, memory_mib: 1000 }))).toEqual({ cpus: 4, memoryMib: 488 });
  expect(mostOfJob(info, SlurmSettings.parse({ memory_mib: 100 })).memoryMib).toBe(1);
});

test("the limit of a partition is read from sinfo", () => {
  const of = (text: string, partition: string | null = "gpu") => limitIn(text, SlurmSettings.parse({ partition }));
  expect(of("gpu|2-12:30:00\n")).toBe(3630);
  expect(of("gpu|12:00:00\n")).toBe(720);
  expect(of("gpu|30:59\n")).toBe(30);
  expect(of("gpu|0:30\n")).toBe(1);
  expect(of("gpu|infinite\n")).toBeNull();
  expect(of("short|30:00\nlong|5:00:00\n", "short,long")).toBe(300);
  expect(of("short|30:00\nlong|infinite\n", "short,long")).toBeNull();
  expect(of("gpu|1:00:00\ncpu*|2:00:00\n", null)).toBe(120);
  expect(of("")).toBeNull();
});

const FILES = { planned: true, submitted: true, started: true, ended: false, asked: false };
const row = (state: string, reason = "None") => ({ id: "7", name: NAME, state, reason });

test("files and the queue together tell the state of a run", () => {
  const states = (files: Partial<typeof FILES>, state?: string) =>
    judgeRun({ ...FILES, ...files }, state === undefined ? undefined : row(state)).state;
  expect(states({ planned: false })).toBe("missing");
  expect(states({ ended: true }, "COMPLETING")).toBe("ended");
  expect(states({ submitted: false, started: false })).toBe("ready");
  expect(states({ started: false }, "PENDING")).toBe("ready");
  expect(states({}, "PENDING")).toBe("ready"); // requeued
  expect(states({}, "RUNNING")).toBe("running");
  expect(states({}, "COMPLETED")).toBe("running"); // the shared file system is late
  expect(states({}, "NODE_FAIL")).toBe("lost");
  expect(states({})).toBe("lost");
});

test("a loss has the reason that Slurm gives", () => {
  const lost = (state: string, reason?: string) => judgeRun(FILES, row(state, reason)).lost;
  expect(lost("TIMEOUT", "TimeLimit")).toEqual({
    kind: "time_limit",
    message: "Slurm ended its job 7: TIMEOUT, TimeLimit",
  });
  expect(lost("OUT_OF_MEMORY")?.kind).toBe("memory");
  expect(lost("CANCELLED")).toMatchObject({ kind: "config", message: expect.stringContaining("cancelled it") });
  expect(judgeRun({ ...FILES, asked: true }, row("CANCELLED")).lost?.kind).toBe("stopped");
  expect(judgeRun(FILES, undefined).lost?.message).toContain("no longer knows");
});

test("of two rows with a name, the active one counts", () => {
  const rows = queueOf(`8|${NAME}|COMPLETED|None\n7|${NAME}|RUNNING|None\n9|other|RUNNING|None\n`);
  expect(rowOf(rows, NAME)?.id).toBe("7");
  expect(rowOf(rows, slurmName({ ...HANDLE, attempt: 3 }))).toBeUndefined();
});

test("a job takes the fewest nodes that share its devices equally", () => {
  const node = (name: string, gres: string) => nodesOf(`${name}|${gres}|1000|4|idle`)[0]!;
  const nodes = [node("a", "gpu:h200:4"), node("b", "gpu:h200:4"), node("c", "gpu:h200:2"), node("d", "(null)")];
  const counts = [1, 4, 5, 6, 8, 9, 12].map((devices) => nodesFor(nodes, "H200", devices));
  expect(counts).toEqual([1, 1, undefined, 2, 2, undefined, undefined]);
  expect(mostDevices(nodes, "H200")).toBe(8);
  expect([nodesFor(nodes, "cpu", 1), nodesFor(nodes, "cpu", 4), mostDevices(nodes, "cpu")]).toEqual([1, 4, 4]);
});
