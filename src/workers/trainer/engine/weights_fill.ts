/** Copies a model file into its tensors, some rows at a time: a layer of a large model has gigabytes. */
import { closeSync, openSync, readSync } from "node:fs";
import type { Header, Tensor as Stored } from "../../../lib/gguf/parse.ts";
import { TENSOR_TYPES } from "../../../lib/gguf/types.ts";
import { must } from "../../../native/ffi.ts";
import { type Backend, putBytes, TYPE } from "../../../native/ggml/ggml.ts";
import { typeOf } from "../../../native/ggml/symbols.ts";
import { openRowMerger } from "../results/merge_rows.ts";
import type { Tensor } from "./tape.ts";

const typeNumbers = new Map([...TENSOR_TYPES].map(([number, { name }]) => [name, number]));
const typeNames = new Map([...TENSOR_TYPES].map(([number, { name }]) => [number, name]));
const READ_BYTES = 64 << 20;

/** Types that CUDA can look up, multiply and decode. F16 is excluded, because its products would be summed in F16. */
const ON_CUDA = ["F32", "BF16", "I32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"];

/** Returns a frozen weight's type on the device: the file's type, or BF16 if the device does not support that. */
export function frozenType({ kind }: Pick<Backend, "kind">, { type, dims }: Stored): number {
  const isFit = kind === "cpu" || dims.length === 1 || ON_CUDA.includes(type.name);
  return isFit ? (typeNumbers.get(type.name) as number) : TYPE.BF16;
}

export function fillWeights(
  backend: Backend,
  { path, header }: { path: string; header: Header },
  tensors: ReadonlyMap<string, Tensor>,
) {
  const fd = openSync(path, "r");
  const decoder = openDecoder(backend);
  try {
    for (const stored of header.tensors.values()) {
      const tensor = tensors.get(stored.name) as Tensor;
      const from = { fd, at: header.dataStart + stored.offset };
      const type = typeNames.get(typeOf(tensor)) as string;
      if (type === stored.type.name) copy(backend, from, { tensor, bytes: stored.bytes });
      else decoder.decode(from, { tensor, stored, type });
    }
  } finally {
    decoder.close();
    closeSync(fd);
  }
}

type From = { fd: number; at: number };

function copy({ ggml }: Backend, { fd, at }: From, { tensor, bytes }: { tensor: Tensor; bytes: number }) {
  const buffer = new Uint8Array(Math.min(bytes, READ_BYTES));
  for (let done = 0; done < bytes; done += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, bytes - done));
    readExactly(fd, piece, at + done);
    putBytes(ggml, tensor, piece, done);
  }
}

function readExactly(fd: number, into: Uint8Array, at: number) {
  for (let done = 0; done < into.length; ) {
    const read = readSync(fd, into, done, into.length - done, at + done);
    if (read === 0) throw new Error("The model file was truncated while it was read");
    done += read;
  }
}

type Decoded = { tensor: Tensor; stored: Stored; type: string };

/** Always on the CPU, which supports every type. */
function openDecoder(backend: Backend) {
  let cpu: Backend | undefined;
  return {
    decode({ fd, at }: From, { tensor, stored, type }: Decoded) {
      cpu ??= cpuOf(backend);
      const [inputs = 1, ...others] = stored.dims;
      const rows = others.reduce((a, b) => a * b, 1);
      const rowBytes = stored.bytes / rows;
      const most = Math.max(1, Math.floor(READ_BYTES / 4 / inputs)); // in F32
      for (let row = 0, written = 0; row < rows; row += most) {
        const count = Math.min(most, rows - row);
        const piece = new Uint8Array(count * rowBytes);
        readExactly(fd, piece, at + row * rowBytes);
        const merger = openRowMerger(cpu, { from: stored.type.name, to: type, inputs, rows: count });
        const made = merger.merge(piece, 0);
        putBytes(backend.ggml, tensor, made, written);
        written += made.byteLength;
        merger.free();
      }
    },
    close() {
      if (cpu && cpu !== backend) cpu.close();
    },
  };
}

const CPU_TYPE = 0;

function cpuOf(backend: Backend): Backend {
  if (backend.kind === "cpu") return backend;
  const { ggml } = backend;
  const all = Array.from({ length: Number(ggml.ggml_backend_dev_count()) }, (_, i) => ggml.ggml_backend_dev_get(i));
  const device = all.find((each) => each !== null && ggml.ggml_backend_dev_type(each) === CPU_TYPE);
  const at = must(ggml.ggml_backend_dev_init(must(device ?? null, "CPU"), null), "CPU");
  return { ...backend, at, kind: "cpu", kernels: null, close: () => ggml.ggml_backend_free(at) };
}
