/** The curves of the machine while a run ran. Pure. */
import type { JobSystem } from "../../../../resources/training/training_jobs/views/schema.ts";
import { bytes, number } from "../../../data/format.ts";

type Figure = { key: string; title: string; unit: string; token: string; format: (value: number) => string };

const plain = (unit: string) => (value: number) => `${number(value)} ${unit}`;

/** Figures of the whole machine say so: other work on it counts too. */
const FIGURES: readonly Figure[] = [
  { key: "gpu_percent", title: "GPU use", unit: "percent", token: "--c1", format: plain("%") },
  { key: "gpu_memory_bytes", title: "GPU memory", unit: "bytes", token: "--c3", format: bytes },
  { key: "gpu_power_watts", title: "GPU power", unit: "watts", token: "--c2", format: plain("W") },
  { key: "gpu_temperature_celsius", title: "GPU temperature", unit: "°C", token: "--c4", format: plain("°C") },
  { key: "cpu_percent", title: "Processors", unit: "percent of all", token: "--c1", format: plain("%") },
  { key: "memory_bytes", title: "Memory of the machine", unit: "bytes", token: "--c6", format: bytes },
  { key: "disk_bytes", title: "Disk of the data directory", unit: "bytes", token: "--c5", format: bytes },
];

export type SystemPlot = Figure & { x: readonly number[]; values: readonly (number | null)[] };

/** The figures that were measured, by seconds since the first one. */
export function systemPlots(rows: JobSystem["data"]): SystemPlot[] {
  const first = Date.parse(rows[0]?.time ?? "");
  const x = rows.map(({ time }) => (Date.parse(time) - first) / 1000);
  return FIGURES.map((figure) => ({
    ...figure,
    x,
    values: rows.map(({ values }) => values[figure.key] ?? null),
  })).filter(({ values }) => values.some((value) => value !== null));
}
