import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { availableParallelism, cpus, freemem, totalmem } from "node:os";
import { dirname } from "node:path";

/** The hardware of this machine. Without nvidia-smi there are no GPUs, which is no error. */
export type Gpu = {
  index: number;
  uuid: string;
  name: string;
  type: string;
  memoryTotalMib: number;
  memoryUsedMib: number;
  /** Null where the driver says [N/A]. */
  utilizationPercent: number | null;
  temperatureCelsius: number | null;
  powerWatts: number | null;
  driverVersion: string;
};

const QUERY = "index,uuid,name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,driver_version";
const TIMEOUT_MS = 10_000; // a wedged driver answers never

export async function listGpus(command = "nvidia-smi"): Promise<Gpu[]> {
  const path = Bun.which(command);
  if (!path) return [];
  const child = Bun.spawn([path, `--query-gpu=${QUERY}`, "--format=csv,noheader,nounits"], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
    timeout: TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  const [text, code] = await Promise.all([new Response(child.stdout).text(), child.exited]);
  return code === 0 ? parseGpus(text) : [];
}

/** Lines that are not a GPU ("No devices were found") are skipped. */
export function parseGpus(csv: string): Gpu[] {
  return csv.split("\n").flatMap((line) => {
    const cells = line.split(",").map((cell) => cell.trim());
    if (cells.length < 9) return [];
    const [index, uuid = ""] = cells;
    const [total, used, utilization, temperature, power, driverVersion = ""] = cells.slice(-6);
    const name = cells.slice(2, -6).join(", "); // a product name may hold a comma
    const memoryTotalMib = numberOf(total);
    if (numberOf(index) === null || !uuid) return [];
    return [
      {
        index: Number(index),
        uuid,
        name,
        type: gpuType(name, memoryTotalMib ?? 0),
        memoryTotalMib: memoryTotalMib ?? 0,
        memoryUsedMib: numberOf(used) ?? 0,
        utilizationPercent: numberOf(utilization),
        temperatureCelsius: numberOf(temperature),
        powerWatts: numberOf(power),
        driverVersion,
      },
    ];
  });
}

const numberOf = (cell: string | undefined) => (cell && /^-?\d+(\.\d+)?$/.test(cell) ? Number(cell) : null);

/** The name that prices and requests use; an unknown card gets its own, so that it is never billed as another. */
export function gpuType(name: string, memoryMib: number): string {
  const plain = name.toUpperCase();
  if (/\bA100\b/.test(plain)) return memoryMib > 60_000 || /80\s?GB/.test(plain) ? "A100-80GB" : "A100-40GB";
  for (const type of ["H100", "H200", "L40S", "MI300X"]) if (new RegExp(`\\b${type}\\b`).test(plain)) return type;
  const slug = plain
    .replaceAll(/\b(NVIDIA|AMD|GEFORCE|TESLA|QUADRO|INSTINCT|RADEON|GRAPHICS|CORPORATION)\b/g, "")
    .replaceAll(/[^A-Z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");
  return slug || "GPU";
}

export type Machine = {
  cpuModel: string;
  /** Processors that this process may use, after affinity and container limits. */
  cpuCount: number;
  memoryTotalBytes: number;
  memoryFreeBytes: number;
};

export function describeMachine(): Machine {
  const model = cpus()[0]?.model.trim() ?? "";
  return {
    cpuModel: model === "" || model === "unknown" ? "CPU" : model, // virtual machines may hide it
    cpuCount: availableParallelism(),
    memoryTotalBytes: totalmem(),
    memoryFreeBytes: freemem(),
  };
}

/** For the file system that holds `path`; free = what we may use, without the part reserved for root. */
export async function diskSpace(path: string): Promise<{ totalBytes: number; freeBytes: number }> {
  const { bsize, blocks, bavail } = await statfs(path);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
}

type Read = (path: string) => string;
const readText: Read = (path) => readFileSync(path, "utf8");

/** Memory that this process and its children may use: of the machine, or the lowest limit of its control groups. */
export function memoryLimitBytes(read = readText, machineBytes = totalmem()): number {
  const limits = memoryGroups(read).flatMap((group) =>
    ["memory.max", "memory.limit_in_bytes"].map((name) => Number(attempt(() => read(`${group}/${name}`).trim()))),
  );
  return Math.min(machineBytes, ...limits.filter((limit) => limit > 0)); // "max" and a missing file are no numbers
}

/**
 * Processes that the kernel has ended for want of memory: of this control group where it counts them, else of the whole
 * machine. One that ended by SIGKILL while the number rose was most likely one of them.
 */
export function outOfMemoryKills(read = readText): number {
  const counters = memoryGroups(read).flatMap((group) => [`${group}/memory.events`, `${group}/memory.oom_control`]);
  for (const path of [...counters, "/proc/vmstat"]) {
    const count = attempt(() => /^oom_kill (\d+)$/m.exec(read(path))?.[1]);
    if (count !== undefined) return Number(count);
  }
  return 0;
}

/**
 * The folders of the control groups of this process that may limit memory, the nearest first: of version 2, or of the
 * memory controller of version 1. In a container the path may be the host's, and the own group is the root.
 */
function memoryGroups(read: Read): string[] {
  const lines = attempt(() => read("/proc/self/cgroup"))?.split("\n") ?? [];
  const pathIn = (controllers: RegExp) =>
    lines.map((line) => line.split(":")).find(([, names = ""]) => controllers.test(names))?.[2] ?? "/";
  return [...upwards("/sys/fs/cgroup/memory", pathIn(/(^|,)memory(,|$)/)), ...upwards("/sys/fs/cgroup", pathIn(/^$/))];
}

/** The path and every folder above it, up to the root. */
const upwards = (root: string, path: string): string[] =>
  path === "/" || path === "" ? [root] : [root + path, ...upwards(root, dirname(path))];

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined; // there is no such file on this machine
  }
}
