/** Copies a model file into its tensors, some rows at a time: a layer of a large model has gigabytes. */
import { closeSync, openSync } from "node:fs";
import type { Header, Tensor as Stored } from "../../../lib/gguf/parse.ts";
import { PACKED_TYPES, TENSOR_TYPES } from "../../../lib/gguf/types.ts";
import { must } from "../../../native/ffi.ts";
import { allocate, type Backend, newContext, newTensor, putBytes, TYPE } from "../../../native/ggml/ggml.ts";
import { typeOf } from "../../../native/ggml/symbols.ts";
import { readExactlySync } from "../../../platform/files.ts";
import { openRowMerger } from "../results/merge_rows.ts";
import type { Tensor } from "./tape.ts";

const typeNumbers = new Map([...TENSOR_TYPES].map(([number, { name }]) => [name, number]));
const typeNames = new Map([...TENSOR_TYPES].map(([number, { name }]) => [number, name]));
const READ_BYTES = 64 << 20;

/** Types that CUDA can look up, multiply and decode. F16 is excluded, because its products would be summed in F16. */
const ON_CUDA = ["F32", "BF16", "I32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"];

/**
 * Matrices as our own kernels read them: `no`, ggml reads them; `file`, quantized ones stay so; `nf4`, those of layers that
 * are not quantized become NF4 too.
 */
export type Packing = "no" | "file" | "nf4";

/** ggml does not know NF4. Its type NVFP4 has blocks of the same size, and no tensor has it otherwise. */
export const NF4 = typeNumbers.get("NVFP4") as number;
const NF4_BLOCK = 64;

/** Returns a frozen weight's type on the device: the file's type, or BF16 if the device does not support that. */
export function frozenType({ kind }: Pick<Backend, "kind">, { name, type, dims }: Stored, packing: Packing): number {
  const isFile = packing === "no" ? kind === "cpu" || ON_CUDA.includes(type.name) : PACKED_TYPES.includes(type.name);
  if (packing === "nf4" && !isFile && dims.length === 2 && name.startsWith("blk.") && (dims[0] ?? 1) % NF4_BLOCK === 0)
    return NF4;
  const isFit = isFile || dims.length === 1;
  return isFit ? (typeNumbers.get(type.name) as number) : TYPE.BF16;
}

export function fillWeights(
  backend: Backend,
  { path, header }: { path: string; header: Header },
  tensors: ReadonlyMap<string, Tensor>,
) {
  const fd = openSync(path, "r");
  const decoder = openDecoder(backend);
  const packer = openPacker(backend);
  try {
    for (const stored of header.tensors.values()) {
      const tensor = tensors.get(stored.name) as Tensor;
      const from = { fd, at: header.dataStart + stored.offset };
      const type = typeNames.get(typeOf(tensor)) as string;
      if (typeOf(tensor) === NF4) packer.pack(tensor, (put) => decoder.decode(from, { stored, type: "BF16", put }));
      else if (type === stored.type.name) copy(backend, from, { tensor, bytes: stored.bytes });
      else decoder.decode(from, { stored, type, put: (bytes, at) => putBytes(backend.ggml, tensor, bytes, at) });
    }
  } finally {
    packer.free();
    decoder.close();
    closeSync(fd);
  }
}

type From = { fd: number; at: number };

function copy({ ggml }: Backend, { fd, at }: From, { tensor, bytes }: { tensor: Tensor; bytes: number }) {
  const buffer = new Uint8Array(Math.min(bytes, READ_BYTES));
  for (let done = 0; done < bytes; done += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, bytes - done));
    readExactlySync(fd, piece, at + done, tooShort);
    putBytes(ggml, tensor, piece, done);
  }
}

const tooShort = () => new Error("The model file was truncated while it was read");

type Put = (bytes: Uint8Array, at: number) => void;
type Decoded = { stored: Stored; type: string; put: Put };

/** Always on the CPU, which supports every type. */
function openDecoder(backend: Backend) {
  let cpu: Backend | undefined;
  return {
    decode({ fd, at }: From, { stored, type, put }: Decoded) {
      cpu ??= cpuOf(backend);
      const [inputs = 1, ...others] = stored.dims;
      const rows = others.reduce((a, b) => a * b, 1);
      const rowBytes = stored.bytes / rows;
      const most = Math.max(1, Math.floor(READ_BYTES / 4 / inputs)); // in F32
      for (let row = 0, written = 0; row < rows; row += most) {
        const count = Math.min(most, rows - row);
        const piece = new Uint8Array(count * rowBytes);
        readExactlySync(fd, piece, at + row * rowBytes, tooShort);
        const merger = openRowMerger(cpu, { from: stored.type.name, to: type, inputs, rows: count });
        const merged = merger.merge(piece, 0);
        put(merged, written);
        written += merged.byteLength;
        merger.free();
      }
    },
    close() {
      if (cpu && cpu !== backend) cpu.close();
    },
  };
}

const STAGED_BYTES = READ_BYTES / 2; // one piece of the decoder, in BF16

/** Quantizes rows in BF16 to NF4 on the device. */
function openPacker({ ggml, kernels, at }: Backend) {
  let staged: { tensor: Tensor; free: () => void } | undefined;
  const stage = () => {
    const context = newContext(ggml, 1);
    const tensor = newTensor(ggml, context, TYPE.BF16, [STAGED_BYTES / 2]);
    const held = allocate({ ggml, at }, context);
    const free = () => {
      held.free();
      context.free();
    };
    return { tensor, free };
  };
  const address = (tensor: Tensor) => Number(must(ggml.ggml_get_data(tensor), "memory"));
  return {
    pack(tensor: Tensor, decode: (put: Put) => void) {
      if (!kernels) throw new Error("load_in_4bit needs the CUDA kernels of Verk, which this build or this GPU lacks");
      kernels.enter();
      staged ??= stage();
      const { tensor: from } = staged;
      const blockBytes = Number(ggml.ggml_row_size(NF4, NF4_BLOCK));
      decode((bytes, done) => {
        const blocks = bytes.byteLength / 2 / NF4_BLOCK;
        putBytes(ggml, from, bytes);
        const to = address(tensor) + (done / 2 / NF4_BLOCK) * blockBytes;
        kernels.launch("pack_nf4", { grid: [Math.ceil(blocks / 128), 1, 1], threads: 128 }, [
          address(from),
          to,
          blocks,
        ]);
        kernels.wait(); // the next piece overwrites this one
      });
    },
    free: () => staged?.free(),
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
