/**
 * The device that tests of decoding compute on. Without a GPU it is the emulation. VERK_DECODE_DEVICE chooses another:
 * `cuda` for a GPU, `twin` for both, where every kernel's results are compared. VERK_DECODE_FATBIN names the kernels,
 * VERK_KERNELS_FATBIN those of the trainer.
 */
import { readFileSync } from "node:fs";
import { openCudaDevice } from "../../../src/native/cuda/decode/cuda_device.ts";
import type { Device } from "../../../src/native/cuda/decode/kernels.ts";
import { canEmulate, openEmulation } from "./device.ts";
import { openTwin } from "./twin.ts";

export type TestDevice = Device & {
  /** The content of memory that this device allocated. */
  bytes: (at: number, length: number) => Uint8Array;
};

const CHOICE = process.env["VERK_DECODE_DEVICE"] ?? "emulation";

export const canCompute = canEmulate || CHOICE === "cuda";

export function openTestDevice(): TestDevice {
  if (CHOICE === "emulation") return openEmulation();
  const path = process.env["VERK_DECODE_FATBIN"];
  if (!path) throw new Error("VERK_DECODE_FATBIN must name the compiled kernels");
  const trainer = process.env["VERK_KERNELS_FATBIN"] ?? path;
  const device = openCudaDevice(readFileSync(path), { early: process.env["VERK_DECODE_EARLY"] !== "0", trainer });
  const cuda = { ...device, bytes: (at: number, length: number) => device.read(at, length).wait().slice() };
  return CHOICE === "twin" ? openTwin(cuda, openEmulation()) : cuda;
}
