import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Gpu, listGpus } from "./hardware.ts";

export type GpuPresence = {
  /** Cards that nvidia-smi lists. Verk uses these and no others. */
  cards: Gpu[];
  /** `nvidia-smi` is on PATH. */
  hasTool: boolean;
  /** Signs of a card that do not depend on nvidia-smi: "/dev/nvidia0", "PCI device 0000:01:00.0". */
  signs: string[];
};

const NVIDIA = "0x10de";
const DISPLAY_CLASS = /^0x03/; // PCI base class 03: VGA and 3D controllers

/** `root` and `command` are for tests: a directory in the place of `/`, a program in the place of nvidia-smi. */
export async function findGpus({ root = "/", command = "nvidia-smi" } = {}): Promise<GpuPresence> {
  const [cards, files, slots] = await Promise.all([listGpus(command), deviceFiles(root), pciDevices(root)]);
  return { cards, hasTool: Bun.which(command) !== null, signs: [...files, ...slots] };
}

const entriesOf = async (path: string): Promise<string[]> => {
  try {
    return (await readdir(path)).sort();
  } catch {
    return []; // this machine has no such directory
  }
};

async function deviceFiles(root: string): Promise<string[]> {
  const files = (await entriesOf(join(root, "dev"))).filter((name) => /^nvidia\d+$/.test(name));
  const loaded = await entriesOf(join(root, "proc/driver/nvidia/gpus"));
  return [...files.map((name) => `/dev/${name}`), ...loaded.map((name) => `/proc/driver/nvidia/gpus/${name}`)];
}

async function pciDevices(root: string): Promise<string[]> {
  const base = join(root, "sys/bus/pci/devices");
  const textOf = (slot: string, name: string) => readFile(join(base, slot, name), "utf8").catch(() => "");
  const devices = await Promise.all(
    (await entriesOf(base)).map(async (slot) => {
      const [vendor, kind] = await Promise.all([textOf(slot, "vendor"), textOf(slot, "class")]);
      return vendor.trim() === NVIDIA && DISPLAY_CLASS.test(kind) ? [`PCI device ${slot}`] : [];
    }),
  );
  return devices.flat();
}
