/** Times each kind of kernel of a step alone, over all layers, so that weights come from memory and not from a cache. */
import type { DecodeKernel, Device, Start } from "../../src/native/cuda/decode/kernels.ts";

type Launch = { name: DecodeKernel; start: Start; values: readonly number[] };
type KernelTime = { what: string; launches: number; us: number };

const REPEATS = 20;

/** Tells where the time of each graph goes when the graph is recorded. The device's state moves on meanwhile. */
export function timingDevice(device: Device, tell: (line: string) => void = console.error): Device {
  let launch = device.launch;
  return {
    ...device,
    launch: (...args) => launch(...args),
    record(act) {
      const launches: Launch[] = [];
      launch = (name, start, values) => launches.push({ name, start, values: [...values] });
      act();
      launch = device.launch;
      for (const { what, launches: count, us } of kernelTimes(device, launches))
        tell(`${us.toFixed(1).padStart(9)} µs  ${count} × ${what}`);
      return device.record(act);
    },
  };
}

/** The longest kind comes first. */
function kernelTimes(device: Device, launches: readonly Launch[]): KernelTime[] {
  const kinds = new Map<string, Launch[]>();
  for (const launch of launches) {
    const what = `${launch.name} ${launch.start.grid.join("×")}`;
    kinds.set(what, [...(kinds.get(what) ?? []), launch]);
  }
  const timeOf = (some: readonly Launch[]) => {
    const graph = device.record(() => {
      for (const { name, start, values } of some) device.launch(name, start, values);
    });
    graph.run();
    device.wait();
    const ms = device.time(() => {
      for (let i = 0; i < REPEATS; i++) graph.run();
    });
    graph.free();
    return (ms * 1000) / REPEATS;
  };
  const all = [...kinds].map(([what, some]) => ({ what, launches: some.length, us: timeOf(some) }));
  const whole = { what: "the whole pass", launches: launches.length, us: timeOf(launches) };
  return [whole, ...all.sort((a, b) => b.us - a.us)];
}
