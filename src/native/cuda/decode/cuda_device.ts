/**
 * A `Device` on an NVIDIA GPU, by libcuda alone. It has a stream of its own: ggml and the trainer's kernels use others, so
 * a caller that shares memory with them must wait for both sides. The context is the primary one of the device.
 */
import { dlopen, ptr, toArrayBuffer } from "bun:ffi";
import { MIB } from "../../../lib/units.ts";
import { type Ptr, text } from "../../ffi.ts";
import { OutOfMemory } from "../../ggml/out_of_memory.ts";
import { Arguments, cudaDriver } from "../driver.ts";
import { mapHost } from "./host_pages.ts";
import {
  DECODE_SIGNATURES,
  type DecodeKernel,
  type Device,
  type DeviceRows,
  type HostMemory,
  type HostRows,
  mostShared,
  type Read,
  type Recorded,
  type Start,
} from "./kernels.ts";
import { type Direction, eachCopy } from "./row_copies.ts";
import { lazyWideKernels } from "./wide_kernels.ts";

const P = "ptr";
const I = "i32";
const U = "u32";
const L = "u64";

const CALLS = {
  cuGetErrorName: { args: [I, P], returns: I },
  cuMemAlloc_v2: { args: [P, L], returns: I },
  cuMemFree_v2: { args: [P], returns: I },
  cuMemHostAlloc: { args: [P, L, U], returns: I },
  cuMemFreeHost: { args: [P], returns: I },
  cuMemHostRegister_v2: { args: [P, L, U], returns: I },
  cuMemHostUnregister: { args: [P], returns: I },
  cuMemsetD8Async: { args: [P, "u8", L, P], returns: I },
  cuMemcpyHtoDAsync_v2: { args: [P, P, L, P], returns: I },
  cuMemcpyDtoHAsync_v2: { args: [P, P, L, P], returns: I },
  cuMemcpy2DAsync_v2: { args: [P, P], returns: I },
  cuStreamCreate: { args: [P, U], returns: I },
  cuStreamDestroy_v2: { args: [P], returns: I },
  cuStreamSynchronize: { args: [P], returns: I },
  cuStreamBeginCapture_v2: { args: [P, I], returns: I },
  cuStreamEndCapture: { args: [P, P], returns: I },
  cuGraphInstantiateWithFlags: { args: [P, P, L], returns: I },
  cuGraphLaunch: { args: [P, P], returns: I },
  cuGraphExecDestroy: { args: [P], returns: I },
  cuGraphDestroy: { args: [P], returns: I },
  cuEventCreate: { args: [P, U], returns: I },
  cuEventRecord: { args: [P, P], returns: I },
  cuEventSynchronize: { args: [P], returns: I },
  cuEventQuery: { args: [P], returns: I },
  cuEventElapsedTime: { args: [P, P, P], returns: I },
  cuEventDestroy_v2: { args: [P], returns: I },
  cuStreamWaitEvent: { args: [P, P, U], returns: I },
  cuMemGetInfo_v2: { args: [P, P], returns: I },
  cuLaunchKernelEx: { args: [P, P, P, P], returns: I },
} as const;

const OUT_OF_MEMORY = 2;
const NOT_READY = 600;
const NON_BLOCKING = 1; // the stream does not wait for the default stream
const THREAD_LOCAL = 1; // calls of other threads do not disturb a capture
const NO_TIMING = 2;
const READS = 4; // pinned buffers that take turns: two steps, each with results and alternatives
const PIECES = 2; // pinned buffers for copies to the device: one is written while the other is on its way
const PIECE_BYTES = 8 * MIB;

/**
 * A CUlaunchConfig with one attribute: the kernel may begin before the one before it ends, and waits for it itself
 * (waitForPrevious in kernels/decode/device.cuh). Without `early` the attribute is left out.
 */
function launchConfig(stream: Ptr, early: boolean) {
  const attribute = new Uint32Array(new ArrayBuffer(72));
  attribute[0] = 6; // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  attribute[2] = 1;
  const words = new Uint32Array(new ArrayBuffer(56)); // grid, block, shared memory, a gap, stream, attributes, their number
  const addresses = new BigUint64Array(words.buffer);
  addresses[4] = BigInt(stream);
  addresses[5] = BigInt(ptr(attribute));
  return {
    at: ptr(words),
    attribute, // held as long as the configuration is
    set({ grid, threads, shared = 0, alone = false }: Start) {
      words[12] = early && !alone ? 1 : 0;
      words.set(grid);
      words.set([threads, 1, 1, shared], 3);
    },
  };
}

export type CudaOptions = {
  index?: number;
  /** Overlap the start of a kernel with the end of the last. */
  early?: boolean;
  /** The path of verk-kernels.fatbin, which passes of many rows need. */
  trainer?: string | null;
};

/** `image`: the content of verk-decode.fatbin. */
export function openCudaDevice(image: Uint8Array, options: CudaOptions = {}): Device {
  const { index = 0, early = true, trainer: path = null } = options;
  const driver = cudaDriver(index);
  driver.enter();
  const { symbols: cuda } = dlopen("libcuda.so.1", CALLS);
  const slot = new BigUint64Array(new ArrayBuffer(8));
  const nameOf = (code: number) =>
    cuda.cuGetErrorName(code, ptr(slot)) === 0 ? text(Number(slot[0]) as Ptr) : `error ${code}`;
  const check = (code: number, what: string) => {
    if (code === OUT_OF_MEMORY) throw new OutOfMemory(`${what}: the GPU is out of memory`);
    if (code !== 0) throw new Error(`${what} failed on the GPU: ${nameOf(code)}`);
  };
  const written = (what: string, call: (to: Ptr) => number): Ptr => {
    check(call(ptr(slot)), what);
    return Number(slot[0]) as Ptr;
  };
  const names = Object.keys(DECODE_SIGNATURES) as DecodeKernel[];
  const kernels = driver.load(image, names, mostShared);
  const packed = new Map(names.map((name) => [name, new Arguments(DECODE_SIGNATURES[name])]));
  const stream = written("cuStreamCreate", (to) => cuda.cuStreamCreate(to, NON_BLOCKING));
  const config = launchConfig(stream, early && driver.major >= 9);
  const side = written("cuStreamCreate", (to) => cuda.cuStreamCreate(to, NON_BLOCKING));
  const sideConfig = launchConfig(side, false);
  const sideEvents = [0, 1].map(() => written("cuEventCreate", (to) => cuda.cuEventCreate(to, NO_TIMING))) as [
    Ptr,
    Ptr,
  ];
  let joins: "nothing" | "side" | "joined" = "nothing"; // what the next kernel has to wait for
  const timers = [0, 1].map(() => written("cuEventCreate", (to) => cuda.cuEventCreate(to, 0))) as [Ptr, Ptr];
  const reads = Array.from({ length: READS }, () => newPinned());
  const gathered = newPinned();
  const pieces = Array.from({ length: PIECES }, () => newPinned());
  let turn = 0;
  let filled = 0; // pieces
  let capturing = false;

  function newPinned() {
    const done = written("cuEventCreate", (to) => cuda.cuEventCreate(to, NO_TIMING));
    return { at: 0 as Ptr, bytes: 0, done };
  }
  type Pinned = ReturnType<typeof newPinned>;
  function grow(pinned: Pinned, bytes: number) {
    if (pinned.bytes >= bytes) return;
    if (pinned.bytes > 0) check(cuda.cuMemFreeHost(pinned.at), "cuMemFreeHost");
    pinned.at = written("cuMemHostAlloc", (to) => cuda.cuMemHostAlloc(to, BigInt(bytes), 0));
    pinned.bytes = bytes;
  }
  const wait = () => check(cuda.cuStreamSynchronize(stream), "The computation");

  const copyRows = (direction: Direction, on: DeviceRows, host: Uint8Array, of: HostRows) => {
    if (capturing) throw new Error("A copy cannot be part of a graph");
    eachCopy(direction, on, host, of, (at) => check(cuda.cuMemcpy2DAsync_v2(at, stream), "A copy of a block"));
  };

  const allocate = (bytes: number) => {
    const at = written("Memory for decoding", (to) => cuda.cuMemAlloc_v2(to, BigInt(Math.max(bytes, 16))));
    check(cuda.cuMemsetD8Async(at, 0, BigInt(Math.max(bytes, 16)), stream), "cuMemsetD8Async");
    return Number(at);
  };
  const free = (at: number) => {
    wait();
    check(cuda.cuMemFree_v2(at as Ptr), "cuMemFree");
  };
  const wide = lazyWideKernels({ driver, stream: Number(stream), path, allocate, free });

  return {
    multiprocessors: driver.multiprocessors,
    allocate,
    free,
    wide: wide.get,
    exact: () => wide.exact(),
    /** The driver copies pageable memory before it returns, so the caller may reuse it. */
    put(at, from) {
      if (capturing) throw new Error("A copy cannot be part of a graph");
      if (from.byteLength === 0) return;
      check(cuda.cuMemcpyHtoDAsync_v2(at as Ptr, ptr(from), BigInt(from.byteLength), stream), "A copy to the GPU");
    },
    hostMemory(bytes, count) {
      const all = mapHost(bytes * count);
      const code = cuda.cuMemHostRegister_v2(all.at, BigInt(all.bytes), 0);
      if (code !== 0) all.free();
      check(code, "Memory for blocks");
      let used = count;
      return Array.from({ length: count }, (_, i): HostMemory => {
        const { done } = newPinned();
        const at = (all.at + i * bytes) as Ptr;
        return {
          at,
          bytes: new Uint8Array(toArrayBuffer(at, 0, bytes)),
          queued: () => check(cuda.cuEventRecord(done, stream), "cuEventRecord"),
          isOver() {
            const state = cuda.cuEventQuery(done);
            if (state !== NOT_READY) check(state, "A copy of a block");
            return state === 0;
          },
          free() {
            wait();
            cuda.cuEventDestroy_v2(done);
            if (--used > 0) return;
            check(cuda.cuMemHostUnregister(all.at), "cuMemHostUnregister");
            all.free();
          },
        };
      });
    },
    putRows: (to, from, of) => copyRows("toDevice", to, from, of),
    fetchRows: (into, from, of) => copyRows("toHost", from, into, of),
    fill(at, bytes, read) {
      for (let done = 0; done < bytes; ) {
        const pinned = pieces[filled++ % PIECES] as Pinned;
        grow(pinned, PIECE_BYTES);
        check(cuda.cuEventSynchronize(pinned.done), "A copy to the GPU"); // an event that was never recorded is over
        const length = Math.min(PIECE_BYTES, bytes - done);
        read(new Uint8Array(toArrayBuffer(pinned.at, 0, length)), done);
        const to = (at + done) as Ptr;
        check(cuda.cuMemcpyHtoDAsync_v2(to, pinned.at, BigInt(length), stream), "A copy to the GPU");
        check(cuda.cuEventRecord(pinned.done, stream), "cuEventRecord");
        done += length;
      }
    },
    read(at, bytes): Read {
      const pinned = reads[turn++ % READS] as Pinned;
      grow(pinned, bytes);
      check(cuda.cuMemcpyDtoHAsync_v2(pinned.at, at as Ptr, BigInt(bytes), stream), "A copy from the GPU");
      check(cuda.cuEventRecord(pinned.done, stream), "cuEventRecord");
      return {
        wait() {
          check(cuda.cuEventSynchronize(pinned.done), "The computation");
          return new Uint8Array(toArrayBuffer(pinned.at, 0, bytes));
        },
      };
    },
    gather(places) {
      const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
      grow(gathered, bytes);
      let to: number = gathered.at;
      for (const place of places) {
        check(
          cuda.cuMemcpyDtoHAsync_v2(to as Ptr, place.at as Ptr, BigInt(place.bytes), stream),
          "A copy from the GPU",
        );
        to += place.bytes;
      }
      check(cuda.cuEventRecord(gathered.done, stream), "cuEventRecord");
      check(cuda.cuEventSynchronize(gathered.done), "The computation");
      return new Uint8Array(toArrayBuffer(gathered.at, 0, bytes)).slice();
    },
    launch(name, start, values) {
      const of = packed.get(name) as Arguments;
      of.set(values); // The driver copies the arguments, also into a graph.
      if (start.beside) {
        check(cuda.cuEventRecord(sideEvents[0], stream), "cuEventRecord");
        check(cuda.cuStreamWaitEvent(side, sideEvents[0], 0), "cuStreamWaitEvent");
        sideConfig.set(start);
        check(cuda.cuLaunchKernelEx(sideConfig.at, kernels[name], null, of.extra), name);
        joins = "side";
        return;
      }
      config.set(joins === "joined" ? { ...start, alone: true } : start); // it comes after two kernels
      joins = joins === "joined" ? "nothing" : joins;
      check(cuda.cuLaunchKernelEx(config.at, kernels[name], null, of.extra), name);
    },
    join() {
      if (joins !== "side") return;
      check(cuda.cuEventRecord(sideEvents[1], side), "cuEventRecord");
      check(cuda.cuStreamWaitEvent(stream, sideEvents[1], 0), "cuStreamWaitEvent");
      joins = "joined";
    },
    freeBytes() {
      const sizes = new BigUint64Array(new ArrayBuffer(16));
      check(cuda.cuMemGetInfo_v2(ptr(sizes), ptr(sizes, 8)), "cuMemGetInfo");
      return Number(sizes[0]);
    },
    record(act): Recorded {
      check(cuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL), "cuStreamBeginCapture");
      capturing = true;
      let failure: unknown = null;
      try {
        act();
      } catch (error) {
        failure = error;
      }
      capturing = false;
      const code = cuda.cuStreamEndCapture(stream, ptr(slot)); // always, or the stream stays unusable
      const graph = Number(slot[0]) as Ptr;
      if (failure !== null) throw failure;
      check(code, "cuStreamEndCapture");
      const runnable = written("cuGraphInstantiate", (to) => cuda.cuGraphInstantiateWithFlags(to, graph, 0n));
      check(cuda.cuGraphDestroy(graph), "cuGraphDestroy");
      return {
        run: () => check(cuda.cuGraphLaunch(runnable, stream), "Starting a graph"),
        free: () => check(cuda.cuGraphExecDestroy(runnable), "cuGraphExecDestroy"),
      };
    },
    time(act) {
      check(cuda.cuEventRecord(timers[0], stream), "cuEventRecord");
      act();
      check(cuda.cuEventRecord(timers[1], stream), "cuEventRecord");
      check(cuda.cuEventSynchronize(timers[1]), "The computation");
      const ms = new Float32Array(new ArrayBuffer(4));
      check(cuda.cuEventElapsedTime(ptr(ms), timers[0], timers[1]), "cuEventElapsedTime");
      return ms[0] as number;
    },
    wait,
    close() {
      wait();
      wide.close();
      const pinned = [...reads, ...pieces];
      for (const event of [...timers, ...sideEvents, ...pinned.map(({ done }) => done)]) cuda.cuEventDestroy_v2(event);
      for (const { at, bytes } of pinned) if (bytes > 0) cuda.cuMemFreeHost(at);
      for (const each of [stream, side]) check(cuda.cuStreamDestroy_v2(each), "cuStreamDestroy");
    },
  };
}
