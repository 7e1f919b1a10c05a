import { expect, test } from "bun:test";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  describeMachine,
  diskSpace,
  gpuType,
  listGpus,
  memoryLimitBytes,
  outOfMemoryKills,
  parseGpus,
} from "./hardware.ts";

const LINE = "0, GPU-5a1c, NVIDIA H200, 143771, 4, 17, 31, 75.36, 580.95.05";

test("a line of nvidia-smi becomes a GPU", () => {
  expect(parseGpus(`${LINE}\n`)).toEqual([
    {
      index: 0,
      uuid: "GPU-5a1c",
      name: "NVIDIA H200",
      type: "H200",
      memoryTotalMib: 143771,
      memoryUsedMib: 4,
      utilizationPercent: 17,
      temperatureCelsius: 31,
      powerWatts: 75.36,
      driverVersion: "580.95.05",
    },
  ]);
});

test("a value that the driver does not know is null, and other output is no GPU", () => {
  const [gpu] = parseGpus("1, GPU-x, Tesla, T4, rev 2, 15360, 0, [N/A], [Not Supported], [N/A], 550.1\n");
  expect(gpu).toMatchObject({
    index: 1,
    name: "Tesla, T4, rev 2",
    utilizationPercent: null,
    temperatureCelsius: null,
    powerWatts: null,
  });
  for (const text of ["", "No devices were found\n", "a,b\n", "x, y, z, 1, 2, 3, 4, 5, 6\n"])
    expect(parseGpus(text)).toEqual([]);
  expect(parseGpus(`${LINE}\ngarbage\n${LINE}\n`)).toHaveLength(2);
});

test.each([
  ["NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"],
  ["NVIDIA A100-PCIE-40GB", 40536, "A100-40GB"],
  ["NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"],
  ["NVIDIA A100 80GB PCIe", 81920, "A100-80GB"],
  ["NVIDIA H100 80GB HBM3", 81559, "H100"],
  ["NVIDIA H100 PCIe", 81559, "H100"],
  ["NVIDIA H200", 143771, "H200"],
  ["NVIDIA L40S", 46068, "L40S"],
  ["NVIDIA L40", 46068, "L40"],
  ["AMD Instinct MI300X", 196608, "MI300X"],
  ["NVIDIA GeForce RTX 4090", 24564, "RTX-4090"],
  ["Tesla T4", 15360, "T4"],
  ["NVIDIA B200", 183359, "B200"],
  ["", 0, "GPU"],
] as const)("%s with %d MiB is %s", (name, memory, type) => expect(gpuType(name, memory)).toBe(type));

test("nvidia-smi lists the GPUs; without the program, or when it fails, the list is empty", async () => {
  const dir = mkdtempSync(join(tmpdir(), "verk-smi-"));
  const fake = (name: string, body: string) => {
    const path = join(dir, name);
    writeFileSync(path, `#!/bin/sh\n${body}\n`);
    chmodSync(path, 0o755);
    return path;
  };
  expect(await listGpus(fake("works", `echo "${LINE}"`))).toHaveLength(1);
  expect(await listGpus(fake("fails", `echo "${LINE}"; exit 9`))).toEqual([]);
  expect(await listGpus(join(dir, "none"))).toEqual([]);
});

test("the machine has processors, memory and a disk", async () => {
  const machine = describeMachine();
  expect(machine.cpuCount).toBeGreaterThan(0);
  expect(machine.memoryTotalBytes).toBeGreaterThan(machine.memoryFreeBytes);
  const disk = await diskSpace(tmpdir());
  expect(disk.totalBytes).toBeGreaterThanOrEqual(disk.freeBytes);
  expect(disk.freeBytes).toBeGreaterThan(0);
});

test("out-of-memory kills are counted from the control group, else from the machine, else as none", () => {
  const machine = (files: Record<string, string>) => (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Error("ENOENT");
    return text;
  };
  const group = { "/proc/self/cgroup": "0::/verk.service\n" };
  const events = { "/sys/fs/cgroup/verk.service/memory.events": "low 0\noom 7\noom_kill 3\noom_group_kill 0\n" };
  const all = { "/proc/vmstat": "nr_free_pages 5\noom_kill 9\n" };
  expect(outOfMemoryKills(machine({ ...group, ...events, ...all }))).toBe(3);
  expect(outOfMemoryKills(machine({ ...group, ...all }))).toBe(9);
  expect(outOfMemoryKills(machine({}))).toBe(0);
  const first = { "/proc/self/cgroup": "4:cpu,memory:/a\n0::/\n" };
  const control = { "/sys/fs/cgroup/memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n" };
  expect(outOfMemoryKills(machine({ ...first, ...control, ...all }))).toBe(2);
});

test("the memory is that of the machine, or the lowest limit of all control groups above", () => {
  const all = 8e9;
  const limit = (files: Record<string, string>) =>
    memoryLimitBytes((path) => {
      if (files[path] === undefined) throw new Error("ENOENT");
      return files[path];
    }, all);
  expect(limit({})).toBe(all);
  const second = { "/proc/self/cgroup": "0::/system.slice/verk.service\n" };
  const own = "/sys/fs/cgroup/system.slice/verk.service/memory.max";
  expect(limit({ ...second, [own]: "max\n" })).toBe(all);
  expect(limit({ ...second, [own]: "2000000000\n" })).toBe(2e9);
  expect(limit({ ...second, [own]: "max\n", "/sys/fs/cgroup/system.slice/memory.max": "1000000000\n" })).toBe(1e9);
  expect(limit({ "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "3000000000\n" })).toBe(3e9);
  const first = { "/proc/self/cgroup": "5:cpu:/\n4:memory:/a/b\n0::/\n" };
  const none = { "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n" };
  expect(limit({ ...first, ...none })).toBe(all);
  expect(limit({ ...first, ...none, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "500000000\n" })).toBe(5e8);
});
