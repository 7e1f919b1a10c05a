/** The GPU with the kernels of the repository, or with those that VERK_DECODE_FATBIN and VERK_KERNELS_FATBIN name. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openCudaDevice } from "../../src/native/cuda/decode/cuda_device.ts";
import { DECODE_FILE } from "../../src/native/cuda/decode/kernels.ts";
import { KERNELS_FILE } from "../../src/native/cuda/kernels.ts";

const KERNELS = join(import.meta.dir, "../../src/native/cuda/kernels");
const DECODE = process.env["VERK_DECODE_FATBIN"] ?? join(KERNELS, "decode", DECODE_FILE);
const TRAINER = process.env["VERK_KERNELS_FATBIN"] ?? join(KERNELS, KERNELS_FILE);

export const hasDevice = () => Bun.which("nvidia-smi") !== null && existsSync(DECODE);

export const openBenchDevice = () =>
  openCudaDevice(readFileSync(DECODE), { early: process.env["VERK_DECODE_EARLY"] !== "0", trainer: TRAINER });
