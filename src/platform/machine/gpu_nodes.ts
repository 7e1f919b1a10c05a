/** Device nodes of NVIDIA cards: which of them a process needs that may use some cards and no others. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type Driver = {
  /** The text of each /proc/driver/nvidia/gpus/<bus>/information. */
  cards: readonly string[];
  /** Names in `dir`, which is /dev. */
  nodes: readonly string[];
  dir: string;
};

/** Every card needs them. `nvidia-caps` is for parts of cards (MIG), `nvidia-modeset` for screens: neither is given. */
const SHARED = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];

/** Paths for the cards with these UUIDs. Throws where the driver does not say which node a card has: all is no answer. */
export function gpuNodes(uuids: readonly string[], { cards, nodes, dir }: Driver): string[] {
  if (uuids.length === 0) return [];
  const minors = new Map(cards.map((text) => [fieldOf(text, "GPU UUID"), fieldOf(text, "Device Minor")]));
  const cardNodes = uuids.map((uuid) => {
    const minor = minors.get(uuid);
    if (minor === undefined || !/^\d+$/.test(minor))
      throw new Error(`the driver does not say which device node belongs to ${uuid}`);
    if (!nodes.includes(`nvidia${minor}`)) throw new Error(`/dev/nvidia${minor}, the node of ${uuid}, is missing`);
    return `nvidia${minor}`;
  });
  return [...cardNodes, ...SHARED.filter((name) => nodes.includes(name))].map((name) => join(dir, name));
}

const fieldOf = (text: string, name: string): string | undefined =>
  text
    .split("\n")
    .map((line) => line.split(/:\s*(.*)/s))
    .find(([key]) => key === name)?.[1]
    ?.trim();

const DEVICES = "/dev";
const GPUS = "/proc/driver/nvidia/gpus";

export function readDriver(): Driver {
  const buses = attempt(() => readdirSync(GPUS)) ?? [];
  const cards = buses.flatMap((bus) => attempt(() => readFileSync(join(GPUS, bus, "information"), "utf8")) ?? []);
  return { cards, nodes: readdirSync(DEVICES), dir: DEVICES };
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined; // no driver, or a card that went away
  }
}
