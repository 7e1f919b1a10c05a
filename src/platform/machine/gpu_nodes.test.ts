import { expect, test } from "bun:test";
import { gpuNodes, readDriver } from "./gpu_nodes.ts";

/** The text of an H200 with driver 580. Only `minor` and `bus` differ between cards. */
const card = (uuid: string, minor: string, bus: string) =>
  `Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t ${uuid}\nVideo BIOS: \t 96.00.a5.00.1a\nBus Type: \t PCIe\n` +
  `DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t ${bus}\nDevice Minor: \t ${minor}\n` +
  `GPU Firmware: \t 580.159.04\nGPU Excluded:\t No\n`;

const ONE = "GPU-cf35c656-8872-dba6-15bc-92b3d41a1c49";
const TWO = "GPU-00000000-1111-2222-3333-444444444444";
const THREE = "GPU-99999999-1111-2222-3333-444444444444";
const CTL = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];
const NODES =
  "null zero nvidia0 nvidia1 nvidia2 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-caps nvidia-modeset".split(" ");
// the order of the buses is not that of the nodes
const MACHINE = {
  cards: [card(THREE, "2", "0000:00:05.0"), card(ONE, "0", "0000:00:06.0"), card(TWO, "1", "0000:00:07.0")],
  nodes: NODES,
  dir: "/dev",
};

test("GPU: a job gets the nodes of the cards that it leased, and of no others", () => {
  expect(gpuNodes([ONE], MACHINE)).toEqual(["/dev/nvidia0", ...CTL]);
  expect(gpuNodes([THREE, TWO], MACHINE)).toEqual(["/dev/nvidia2", "/dev/nvidia1", ...CTL]);
  expect(gpuNodes([], MACHINE)).toEqual([]);
});

test("GPU: nodes that this machine lacks are left out, but never a card's own", () => {
  const few = { ...MACHINE, nodes: ["nvidia0", "nvidiactl", "nvidia-uvm"] };
  expect(gpuNodes([ONE], few)).toEqual(["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]);
  expect(() => gpuNodes([TWO], few)).toThrow(`/dev/nvidia1, the node of ${TWO}, is missing`);
});

test.each([
  ["the driver says nothing", []],
  ["the card is another", [card(TWO, "1", "0000:00:07.0")]],
  ["the minor number is not a number", [card(ONE, "N/A", "0000:00:06.0")]],
  ["the text is cut off", [card(ONE, "0", "0000:00:06.0").slice(0, 80)]],
])("GPU: if %s, the job gets no node, rather than all", (_what, cards) => {
  expect(() => gpuNodes([ONE], { ...MACHINE, cards })).toThrow("does not say which device node");
});

test("the driver's report of this machine can be read, also on a machine without a driver", () => {
  expect(readDriver().nodes).toContain("null");
});
