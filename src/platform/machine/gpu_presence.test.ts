import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findGpus } from "./gpu_presence.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "verk-presence-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(path: string, content: string, mode = 0o644) {
  mkdirSync(join(root, path, ".."), { recursive: true });
  writeFileSync(join(root, path), content, { mode });
  return join(root, path);
}
const pci = (slot: string, vendor: string, kind: string) => {
  put(`sys/bus/pci/devices/${slot}/vendor`, `${vendor}\n`);
  put(`sys/bus/pci/devices/${slot}/class`, `${kind}\n`);
};

test("a machine without NVIDIA shows no sign of a card", async () => {
  pci("0000:00:02.0", "0x8086", "0x030000"); // another maker's graphics
  pci("0000:01:00.1", "0x10de", "0x040300"); // the sound part of an NVIDIA card
  put("dev/nvidiactl", "");
  expect(await findGpus({ root, command: "no-such-program" })).toEqual({ cards: [], hasTool: false, signs: [] });
});

test("device files, the driver's list and the PCI bus each show a card without nvidia-smi", async () => {
  put("dev/nvidia0", "");
  put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: NVIDIA H200\n");
  pci("0000:01:00.0", "0x10de", "0x030200");
  expect((await findGpus({ root, command: "no-such-program" })).signs).toEqual([
    "/dev/nvidia0",
    "/proc/driver/nvidia/gpus/0000:01:00.0",
    "PCI device 0000:01:00.0",
  ]);
});

test("the cards are those that nvidia-smi lists; a program that fails is installed and lists none", async () => {
  const line = "0, GPU-1, NVIDIA H200, 143771, 4, 0, 33, 77.21, 580.159.03";
  const command = put("fake-nvidia-smi", `#!/bin/sh\necho '${line}'\n`, 0o755);
  const found = await findGpus({ root, command });
  expect(found).toMatchObject({ hasTool: true, cards: [{ name: "NVIDIA H200", driverVersion: "580.159.03" }] });
  const failing = put("fake-failing-nvidia-smi", "#!/bin/sh\nexit 9\n", 0o755);
  expect(await findGpus({ root, command: failing })).toMatchObject({ hasTool: true, cards: [] });
});
