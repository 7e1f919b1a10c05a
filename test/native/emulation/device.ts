/** The kernels of decoding, and some of training, on the processor, as a `Device`. They are compiled with g++ once per change of their sources. */
import { dlopen, ptr, toArrayBuffer } from "bun:ffi";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import {
  DECODE_SIGNATURES,
  type DecodeKernel,
  type Start,
  type WideKernel,
  type WideKernels,
} from "../../../src/native/cuda/decode/kernels.ts";
import { Arguments } from "../../../src/native/cuda/driver.ts";
import type { Matrix, Products } from "../../../src/native/cuda/kernel_products.ts";
import { type KernelName, SIGNATURES } from "../../../src/native/cuda/kernels.ts";
import { cstr, type Ptr } from "../../../src/native/ffi.ts";
import type { TestDevice } from "./choice.ts";

const ROOT = join(import.meta.dir, "../../..");
const KERNELS = join(ROOT, "src/native/cuda/kernels");
const OWN = join(ROOT, "test/native/emulation");

export const canEmulate = Bun.which("g++") !== null;

function sources(): string[] {
  const of = (dir: string) =>
    readdirSync(dir)
      .filter((name) => /\.(cuh?|h|cpp|inc)$/.test(name))
      .map((name) => join(dir, name));
  return [OWN, KERNELS, join(KERNELS, "decode")].flatMap(of).sort();
}

/**
 * Compiles kernels, once per change of their sources. `more` are files beside this one, `kernels` is the list of kernels.
 * Returns the library's path.
 */
export function buildEmulation(name = "kernels.so", more: readonly string[] = [], kernels = "kernels.inc"): string {
  const hash = new Bun.CryptoHasher("sha256");
  for (const path of sources()) hash.update(readFileSync(path));
  const dir = join(ROOT, ".stage/emulation", hash.digest("hex").slice(0, 16));
  const path = join(dir, name);
  if (existsSync(path)) return path;
  mkdirSync(dir, { recursive: true });
  const made = `${path}.${crypto.randomUUID()}`; // two threads or processes may compile at once
  const flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-DVERK_EMULATED"];
  flags.push("-U_FORTIFY_SOURCE"); // threads jump between stacks, and fortified libraries reject that
  flags.push(`-DEMULATED_KERNELS="${kernels}"`);
  const own = ["-include", join(OWN, "emulation.h"), "-I", OWN, "-x", "c++"];
  const files = ["emulation.cpp", "products.cpp", ...more].map((file) => join(OWN, file));
  const { exitCode, stderr } = Bun.spawnSync(["g++", ...flags, ...own, ...files, "-o", made]);
  if (exitCode !== 0) throw new Error(`g++ cannot compile the kernels: ${stderr.toString()}`);
  renameSync(made, path);
  return path;
}

const PIECE = 1000; // bytes: small, so that tests fill in several pieces

const SYMBOLS = {
  emulate: { args: ["ptr", "u32", "u32", "u32", "u32", "u32", "ptr"], returns: "i32" },
  emulated_allocate: { args: ["u64"], returns: "ptr" },
  emulated_free: { args: ["ptr"], returns: "void" },
  emulated_product: {
    args: ["ptr", "i32", "ptr", "i32", "ptr", "i32", "i32", "i32", "i32", "i32"],
    returns: "void",
  },
} as const;

/** Kernels of training that need no tensor cores. */
export type EmulatedTraining = Extract<
  KernelName,
  "unpack_rows" | "embed_packed" | "round_rows" | "pack_nf4" | "adam_8bit"
>;
export type TrainingDevice = Omit<TestDevice, "launch"> & {
  launch: (name: EmulatedTraining, how: Parameters<TestDevice["launch"]>[1], values: readonly number[]) => void;
};
export const emulateTraining = () => openEmulation() as unknown as TrainingDevice;

/** `isExact`: products in place of cublasLt, in plain loops: their bits do not depend on the number of rows. */
export function openEmulation({ isExact = false } = {}): TestDevice {
  const { symbols } = dlopen(buildEmulation(), SYMBOLS);
  type Call = () => void;
  let recording: Call[] | null = null;
  const bytes = (at: number, length: number) => new Uint8Array(toArrayBuffer(at as Ptr, 0, length));
  const queue = (call: Call) => {
    if (recording) recording.push(call);
    else call();
  };
  const launch = (name: DecodeKernel | WideKernel, { grid, threads, shared = 0 }: Start, values: readonly number[]) =>
    queue(() => {
      const packed = new Arguments({ ...SIGNATURES, ...DECODE_SIGNATURES }[name]);
      packed.set(values);
      const text = cstr(name);
      const at = packed.packedAt;
      const code = symbols.emulate(ptr(text), grid[0], grid[1], grid[2], threads, shared, at);
      if (code !== 0) throw new Error(`the emulation does not know the kernel ${name}`);
    });
  const byRows: Products["byRows"] = (a, b, to, { rows, columns, depth }) =>
    queue(() => {
      const matrix = ({ at, stride }: Matrix) => [at as Ptr, stride] as const;
      symbols.emulated_product(...matrix(a), ...matrix(b), ...matrix(to), to.f32 ? 1 : 0, rows, columns, depth);
    });
  const wide = () => ({
    launch,
    products: {
      byRows,
      byRowsOfBoth: (a, [b, c], to, of) => {
        byRows(a, b, to, of);
        byRows(a, c, { ...to, at: to.at + of.columns * 2 }, of);
      },
    } satisfies WideKernels["products"],
  });
  const device: TestDevice = {
    multiprocessors: 4,
    bytes,
    allocate(size) {
      const at = symbols.emulated_allocate(BigInt(Math.max(size, 16)));
      if (at === null) throw new Error(`the emulation cannot allocate ${size} bytes`);
      return Number(at);
    },
    free: (at) => symbols.emulated_free(at as Ptr),
    put: (at, from) =>
      bytes(at, from.byteLength).set(new Uint8Array(from.buffer as ArrayBuffer, from.byteOffset, from.byteLength)),
    hostMemory: (size, count) =>
      Array.from({ length: count }, () => {
        const at = device.allocate(size);
        return { at, bytes: bytes(at, size), queued() {}, isOver: () => true, free: () => device.free(at) };
      }),
    putRows(to, from, of) {
      for (let row = 0; row < of.rows; row++)
        device.put(to.at + row * to.stride, from.subarray(row * of.stride, row * of.stride + of.bytes));
    },
    fetchRows(into, from, of) {
      for (let row = 0; row < of.rows; row++) into.set(bytes(from.at + row * from.stride, of.bytes), row * of.stride);
    },
    fill(at, size, read) {
      for (let done = 0; done < size; done += PIECE) read(bytes(at + done, Math.min(PIECE, size - done)), done);
    },
    read(at, length) {
      const copy = bytes(at, length).slice();
      return { wait: () => copy };
    },
    gather: (places) => new Uint8Array(Buffer.concat(places.map((place) => bytes(place.at, place.bytes)))),
    launch,
    join() {},
    freeBytes: () => 2 ** 40,
    wide,
    exact: () => (isExact ? wide() : null),
    record(act) {
      const calls: Call[] = [];
      recording = calls;
      try {
        act();
      } finally {
        recording = null;
      }
      return {
        run() {
          for (const call of calls) call();
        },
        free() {},
      };
    },
    time(act) {
      const before = performance.now();
      act();
      return performance.now() - before;
    },
    wait() {},
    close() {},
  };
  return device;
}
