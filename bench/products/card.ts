/** Memory, a stream and the time of launches on one GPU, by libcuda. */
import { dlopen, ptr } from "bun:ffi";
import { cudaDriver } from "../../src/native/cuda/driver.ts";
import type { Ptr } from "../../src/native/ffi.ts";
import { median } from "../tools.ts";

const P = "ptr";
const I = "i32";
const U = "u32";
const L = "u64";

const CALLS = {
  cuMemAlloc_v2: { args: [P, L], returns: I },
  cuMemFree_v2: { args: [P], returns: I },
  cuMemsetD8_v2: { args: [P, "u8", L], returns: I },
  cuMemcpyHtoD_v2: { args: [P, P, L], returns: I },
  cuMemcpyDtoH_v2: { args: [P, P, L], returns: I },
  cuMemcpyDtoD_v2: { args: [P, P, L], returns: I },
  cuStreamCreate: { args: [P, U], returns: I },
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
  cuEventElapsedTime: { args: [P, P, P], returns: I },
} as const;

const RELAXED = 2; // CU_STREAM_CAPTURE_MODE_RELAXED: cuBLAS may load a kernel meanwhile
const REPEATS = 3;

export type Card = ReturnType<typeof openCard>;

export function openCard() {
  cudaDriver(0).enter();
  const { symbols: cuda } = dlopen("libcuda.so.1", CALLS);
  const check = (code: number, what: string) => {
    if (code !== 0) throw new Error(`${what} failed on the GPU: error ${code}`);
  };
  const made = (what: string, call: (to: Ptr) => number): Ptr => {
    const slot = new BigUint64Array(new ArrayBuffer(8));
    check(call(ptr(slot)), what);
    return Number(slot[0]) as Ptr;
  };
  // A stream of the blocking kind: copies and fills, which use the default stream, wait for it and it for them.
  const stream = made("cuStreamCreate", (to) => cuda.cuStreamCreate(to, 0));
  const [before, after] = [0, 1].map(() => made("cuEventCreate", (to) => cuda.cuEventCreate(to, 0))) as [Ptr, Ptr];
  const copy = (to: number, from: number, bytes: number) =>
    check(cuda.cuMemcpyDtoD_v2(to as Ptr, from as Ptr, BigInt(bytes)), "Copying on the card");

  function record(act: () => void): Ptr {
    check(cuda.cuStreamBeginCapture_v2(stream, RELAXED), "cuStreamBeginCapture");
    const slot = new BigUint64Array(new ArrayBuffer(8));
    let code = 0;
    try {
      act();
    } finally {
      code = cuda.cuStreamEndCapture(stream, ptr(slot)); // a capture that is left open would spoil all calls after it
    }
    check(code, "cuStreamEndCapture");
    const graph = Number(slot[0]) as Ptr;
    const runnable = made("cuGraphInstantiate", (to) => cuda.cuGraphInstantiateWithFlags(to, graph, 0n));
    check(cuda.cuGraphDestroy(graph), "cuGraphDestroy");
    return runnable;
  }
  function microseconds(graph: Ptr): number {
    const ms = new Float32Array(new ArrayBuffer(4));
    check(cuda.cuEventRecord(before, stream), "cuEventRecord");
    check(cuda.cuGraphLaunch(graph, stream), "cuGraphLaunch");
    check(cuda.cuEventRecord(after, stream), "cuEventRecord");
    check(cuda.cuEventSynchronize(after), "The computation");
    check(cuda.cuEventElapsedTime(ptr(ms), before, after), "cuEventElapsedTime");
    return (ms[0] as number) * 1000;
  }

  return {
    stream: stream as number,
    allocate: (bytes: number) => made("cuMemAlloc", (to) => cuda.cuMemAlloc_v2(to, BigInt(bytes))) as number,
    free: (at: number) => check(cuda.cuMemFree_v2(at as Ptr), "cuMemFree"),
    clear: (at: number, bytes: number) => check(cuda.cuMemsetD8_v2(at as Ptr, 0xff, BigInt(bytes)), "cuMemset"),
    copy,
    read: (at: number, to: Uint8Array) =>
      check(cuda.cuMemcpyDtoH_v2(ptr(to), at as Ptr, BigInt(to.byteLength)), "Reading from the card"),
    /** Fills memory with `block`, again and again. */
    fill(at: number, bytes: number, block: Uint8Array) {
      const first = Math.min(bytes, block.byteLength);
      check(cuda.cuMemcpyHtoD_v2(at as Ptr, ptr(block), BigInt(first)), "Writing to the card");
      for (let done = first; done < bytes; done *= 2) copy(at + done, at, Math.min(done, bytes - done));
    },
    wait: () => check(cuda.cuStreamSynchronize(stream), "The computation"),
    /**
     * Microseconds of one of `count` launches that are recorded as one graph; the median of some runs. A first run warms
     * up; if it takes twice as long as `best`, it is the answer.
     */
    time(count: number, launch: (index: number) => void, best = Infinity): number {
      const graph = record(() => {
        for (let i = 0; i < count; i++) launch(i);
      });
      let us = microseconds(graph) / count;
      if (us < 2 * best) us = median(Array.from({ length: REPEATS }, () => microseconds(graph))) / count;
      check(cuda.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
      return us;
    },
  };
}
