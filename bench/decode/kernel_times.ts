/** Times each kind of kernel of a step alone, over all layers, so that weights come from memory and not from a cache. */
import type { Device, WideKernels } from "../../src/native/cuda/decode/kernels.ts";

/** `what`: the kernel and its size. Products of cuBLAS are among them. */
type Launch = { what: string; run: () => void };
type KernelTime = { what: string; launches: number; us: number };

const REPEATS = 20;

/** Tells where the time of each graph goes when the graph is recorded. The device's state moves on meanwhile. */
export function timingDevice(device: Device, tell: (line: string) => void = console.error): Device {
  let listed: Launch[] | null = null;
  const list = (what: string, run: () => void) => {
    if (listed) listed.push({ what, run });
    else run();
  };
  return {
    ...device,
    launch: (name, start, values) => {
      const kept = [...values];
      list(`${name} ${start.grid.join("×")}`, () => device.launch(name, { ...start, beside: false }, kept));
    },
    wide() {
      const found = device.wide();
      return found && listingWide(found, list);
    },
    exact() {
      const found = device.exact();
      return found && listingWide(found, list);
    },
    record(act) {
      const launches: Launch[] = [];
      listed = launches;
      act();
      listed = null;
      for (const { what, launches: count, us } of kernelTimes(device, launches))
        tell(`${us.toFixed(1).padStart(9)} µs  ${count} × ${what}`);
      return device.record(act);
    },
  };
}

function listingWide({ launch, products }: WideKernels, list: (what: string, run: () => void) => void): WideKernels {
  const sizeOf = ({ rows, columns, depth }: { rows: number; columns: number; depth: number }) =>
    `${rows}×${columns}×${depth}`;
  return {
    launch: (name, start, values) => {
      const kept = [...values];
      list(`${name} ${start.grid.join("×")}`, () => launch(name, start, kept));
    },
    products: {
      byRows: (...of) => list(`cuBLAS ${sizeOf(of[3])}`, () => products.byRows(...of)),
      byRowsOfBoth: (...of) => list(`cuBLAS 2 × ${sizeOf(of[3])}`, () => products.byRowsOfBoth(...of)),
    },
  };
}

/** The longest kind comes first. */
function kernelTimes(device: Device, launches: readonly Launch[]): KernelTime[] {
  const kinds = new Map<string, Launch[]>();
  for (const launch of launches) kinds.set(launch.what, [...(kinds.get(launch.what) ?? []), launch]);
  const timeOf = (some: readonly Launch[]) =>
    graphTime(device, () => {
      for (const { run } of some) run();
    });
  const all = [...kinds].map(([what, some]) => ({ what, launches: some.length, us: timeOf(some) }));
  const whole = { what: "the whole pass", launches: launches.length, us: timeOf(launches) };
  return [whole, ...all.sort((a, b) => b.us - a.us)];
}

/** Microseconds of what `act` launches, as a graph. */
export function graphTime(device: Device, act: () => void): number {
  const graph = device.record(act);
  graph.run();
  device.wait();
  const ms = device.time(() => {
    for (let i = 0; i < REPEATS; i++) graph.run();
  });
  graph.free();
  return (ms * 1000) / REPEATS;
}
