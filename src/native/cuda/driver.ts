/**
 * The surface of libcuda for launching kernels. The context is the primary one of the device, which ggml uses too, so
 * addresses are the same. Work goes to the default stream. The streams of ggml do not wait for it: a caller that
 * switches between the two must synchronize first.
 */
import { dlopen, ptr } from "bun:ffi";
import { cstr, type Ptr, text } from "../ffi.ts";
import { OutOfMemory } from "../ggml/out_of_memory.ts";

const P = "ptr";
const I = "i32";
const U = "u32";

const DRIVER = {
  cuInit: { args: [U], returns: I },
  cuDeviceGet: { args: [P, I], returns: I },
  cuDeviceGetAttribute: { args: [P, I, I], returns: I },
  cuDevicePrimaryCtxRetain: { args: [P, I], returns: I },
  cuCtxSetCurrent: { args: [P], returns: I },
  cuCtxSynchronize: { args: [], returns: I },
  cuGetErrorName: { args: [I, P], returns: I },
  cuModuleLoadData: { args: [P, P], returns: I },
  cuModuleGetFunction: { args: [P, P, P], returns: I },
  cuFuncSetAttribute: { args: [P, I, I], returns: I },
  cuLaunchKernel: { args: [P, U, U, U, U, U, U, U, P, P, P], returns: I },
} as const;

const MAJOR = 75; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
const MULTIPROCESSORS = 16; // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
const MOST_SHARED_BYTES = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
const OUT_OF_MEMORY = 2;

export type Driver = ReturnType<typeof openDriver>;
export type Kernel = Ptr;
export type Grid = readonly [number, number, number];

const opened = new Map<number, Driver>();

/** Opens the driver once per device and thread. */
export function cudaDriver(index: number): Driver {
  const driver = opened.get(index) ?? openDriver(index);
  opened.set(index, driver);
  return driver;
}

/** Returns the major version of a GPU's compute capability, or null if the driver does not answer. */
export function computeMajor(index: number): number | null {
  try {
    return cudaDriver(index).major;
  } catch {
    return null;
  }
}

function openDriver(index: number) {
  const { symbols: cuda } = dlopen("libcuda.so.1", DRIVER);
  const check = (code: number, what: string) => {
    if (code === OUT_OF_MEMORY) throw new OutOfMemory(`${what}: the GPU is out of memory`);
    if (code !== 0) throw new Error(`${what} failed on the GPU: ${nameOf(code)}`);
  };
  const nameOf = (code: number) => {
    const slot = new BigUint64Array(new ArrayBuffer(8));
    return cuda.cuGetErrorName(code, ptr(slot)) === 0 ? text(Number(slot[0]) as Ptr) : `error ${code}`;
  };
  /** Returns the value that a call writes through its first pointer. */
  const written = (what: string, call: (to: Ptr) => number): number => {
    const slot = new BigUint64Array(new ArrayBuffer(8));
    check(call(ptr(slot)), what);
    return Number(slot[0]);
  };
  check(cuda.cuInit(0), "cuInit");
  const device = written("cuDeviceGet", (to) => cuda.cuDeviceGet(to, index));
  const context = written("cuDevicePrimaryCtxRetain", (to) => cuda.cuDevicePrimaryCtxRetain(to, device)) as Ptr;
  check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");

  return {
    /** Major version of the compute capability. */
    major: written("cuDeviceGetAttribute", (to) => cuda.cuDeviceGetAttribute(to, MAJOR, device)),
    multiprocessors: written("cuDeviceGetAttribute", (to) => cuda.cuDeviceGetAttribute(to, MULTIPROCESSORS, device)),

    /** Loads kernels by name. `sharedBytes` is the dynamic shared memory that each may use. */
    load<Name extends string>(image: Uint8Array, names: readonly Name[], sharedBytes: (name: Name) => number) {
      check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
      const module = written("Loading the kernels", (to) => cuda.cuModuleLoadData(to, ptr(image))) as Ptr;
      const kernelOf = (name: Name): Kernel => {
        const text = cstr(name);
        const kernel = written(name, (to) => cuda.cuModuleGetFunction(to, module, ptr(text))) as Kernel;
        const bytes = sharedBytes(name);
        if (bytes > 0) check(cuda.cuFuncSetAttribute(kernel, MOST_SHARED_BYTES, bytes), name);
        return kernel;
      };
      return Object.fromEntries(names.map((name) => [name, kernelOf(name)])) as Record<Name, Kernel>;
    },

    /** `extra` points to the packed arguments; see `Arguments`. Without a stream, it is the default one. */
    launch(
      kernel: Kernel,
      grid: Grid,
      threads: number,
      { shared, extra, stream = null }: { shared: number; extra: Ptr; stream?: Ptr | null },
    ) {
      check(cuda.cuLaunchKernel(kernel, ...grid, threads, 1, 1, shared, stream, null, extra), "Starting a kernel");
    },

    enter: () => check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent"),
    wait: () => check(cuda.cuCtxSynchronize(), "The computation"),
  };
}

/**
 * Arguments of a kernel, packed like its parameters: each at a multiple of its own size. In `signature`, p is an
 * address, i an integer and f a float. Structs are written as their fields.
 */
export class Arguments {
  readonly #view: DataView;
  readonly #places: number[] = [];
  readonly #keep: readonly unknown[];
  readonly extra: Ptr;
  readonly packedAt: Ptr;

  constructor(readonly signature: string) {
    let at = 0;
    for (const letter of signature) {
      const size = letter === "p" ? 8 : 4;
      at = Math.ceil(at / size) * size;
      this.#places.push(at);
      at += size;
    }
    // Allocate a buffer at once: `.buffer` of a small array moves its bytes later, and the address would be wrong.
    const packed = new Uint8Array(new ArrayBuffer(Math.max(at, 8)));
    const size = BigUint64Array.of(BigInt(at));
    const extra = BigUint64Array.of(1n, BigInt(ptr(packed)), 2n, BigInt(ptr(size)), 0n); // pointer, size, end
    this.#view = new DataView(packed.buffer);
    this.#keep = [packed, size, extra];
    this.extra = ptr(extra);
    this.packedAt = ptr(packed);
  }

  set(values: readonly number[]) {
    if (values.length !== this.#places.length || this.#keep.length === 0)
      throw new Error(`A kernel takes ${this.#places.length} arguments, not ${values.length}`);
    for (let i = 0; i < values.length; i++) {
      const [at, value] = [this.#places[i] as number, values[i] as number];
      const letter = this.signature[i];
      if (letter === "p") this.#view.setBigUint64(at, BigInt(value), true);
      else if (letter === "i") this.#view.setInt32(at, value, true);
      else this.#view.setFloat32(at, value, true);
    }
  }
}
