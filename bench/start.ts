import { readFileSync, statSync } from "node:fs";
import { BINARY, median, processorSeconds, type Row, remove, startVerk, tempDir } from "./tools.ts";

const ROUNDS = 9;

/** Size, start time and idle memory of the program. */
export async function run(): Promise<Row[]> {
  const version: number[] = [];
  for (let round = 0; round < ROUNDS * 3; round++) {
    const began = performance.now();
    await Bun.spawn([BINARY, "version"], { stdout: "ignore", env: {} }).exited;
    version.push(performance.now() - began);
  }
  const start: number[] = [];
  const restart: number[] = [];
  const work = { start: [] as number[], restart: [] as number[] }; // milliseconds of processor time
  let rssMb = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const dir = tempDir();
    const began = performance.now();
    const first = await startVerk(dir);
    start.push(performance.now() - began);
    work.start.push(1000 * processorSeconds(first.pid));
    if (round === ROUNDS - 1) rssMb = await restingMb(first.pid);
    await first.stop();
    const beganAgain = performance.now();
    const second = await startVerk(dir);
    restart.push(performance.now() - beganAgain);
    work.restart.push(1000 * processorSeconds(second.pid));
    await second.stop();
    remove(dir);
  }
  const sizeMb = statSync(BINARY).size / 1e6;
  const row = (what: string, value: number, unit: "ms" | "MB", most?: number): Row => ({
    bench: "start",
    what,
    value: `${value.toFixed(unit === "ms" ? 1 : 0)} ${unit}`,
    target: most === undefined ? "" : `≤ ${most} ${unit}`,
    ok: most === undefined ? null : value <= most,
    figure: { name: what, value, unit },
  });
  return [
    row("verk version", median(version), "ms", 30),
    row("start to first 200, first start of a new directory", median(start), "ms", 250),
    row("first start: processor time of all threads", median(work.start), "ms"),
    row("start to first 200, second start", median(restart), "ms", 250),
    row("second start: processor time of all threads", median(work.restart), "ms"),
    row("resident memory at rest, 10 s after the start", rssMb, "MB", 100),
    row("executable without CUDA", sizeMb, "MB", 200),
  ];
}

async function restingMb(pid: number): Promise<number> {
  await Bun.sleep(10_000);
  const kib = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return (kib * 1024) / 1e6;
}
