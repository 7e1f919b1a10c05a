/** The weights of a merged model as safetensors files with Hugging Face's names, in shards. */
import { type Family, familyOf } from "../../../lib/checkpoints/families.ts";
import { encodeSafetensorsHeader, type TensorSpec } from "../../../lib/checkpoints/safetensors.ts";
import { type Change, tensorNames, unrotatedRow } from "../../../lib/checkpoints/tensors.ts";
import type { Header, Tensor } from "../../../lib/gguf/parse.ts";
import { WorkerError } from "../../protocol.ts";
import type { MergedTensors } from "./merged_gguf.ts";

export type HfType = "F32" | "F16" | "BF16";
const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
const SHARD_BYTES = 5e9; // as save_pretrained of transformers

type HfTensor = { stored: Tensor; spec: TensorSpec; change: Change; bytes: number };
export type Shard = { name: string; tensors: readonly HfTensor[]; header: Uint8Array; size: number };

const SUPPORTED: readonly Change[] = ["same", "rotate_q", "rotate_k", "add_one"];

export function mustFamily(architecture: string): Family {
  const family = familyOf(architecture);
  if (family) return family;
  throw refused(`the architecture ${architecture} has no Hugging Face form here`);
}

/** For a job, which has other variants. */
export const OTHER_VARIANT = ". Use the variant gguf or merged";

const refused = (why: string) =>
  new WorkerError("config", `The model cannot be exported as a Hugging Face folder: ${why}${OTHER_VARIANT}`);

/** Factors of the rotation stand in config.json instead. */
const IN_CONFIG = ["rope_freqs.weight"];

/** Every tensor of the file has a place, or the export is refused: a missing weight would be drawn at random. */
export function planShards(
  header: Header,
  family: Family,
  size: { layers: number; type: HfType; limit?: number },
): Shard[] {
  const { layers, type, limit = SHARD_BYTES } = size;
  const names = new Map(tensorNames(family, { layers }).map((each) => [each.gguf, each]));
  const chosen: HfTensor[] = [];
  for (const stored of header.tensors.values()) {
    if (IN_CONFIG.includes(stored.name)) continue;
    const found = names.get(stored.name);
    const [name] = found?.hf ?? [];
    if (!found || name === undefined || found.hf.length > 1 || !SUPPORTED.includes(found.change))
      throw refused(`its tensor ${stored.name} has no name there`);
    const spec = { name, dtype: type, shape: [...stored.dims].reverse() };
    chosen.push({ stored, spec, change: found.change, bytes: stored.elements * BYTES[type] });
  }
  return named(cut(chosen, limit));
}

function cut(chosen: readonly HfTensor[], limit: number): HfTensor[][] {
  const shards: HfTensor[][] = [[]];
  let bytes = 0;
  for (const tensor of chosen) {
    if (bytes > 0 && bytes + tensor.bytes > limit) {
      shards.push([]);
      bytes = 0;
    }
    shards.at(-1)!.push(tensor);
    bytes += tensor.bytes;
  }
  return shards;
}

const named = (shards: readonly HfTensor[][]): Shard[] =>
  shards.map((tensors, i) => {
    const number = (value: number) => String(value).padStart(5, "0");
    const part = shards.length === 1 ? "" : `-${number(i + 1)}-of-${number(shards.length)}`;
    const header = encodeSafetensorsHeader(
      tensors.map(({ spec }) => spec),
      { format: "pt" },
    );
    const size = tensors.reduce((sum, { bytes }) => sum + bytes, header.byteLength);
    return { name: `model${part}.safetensors`, tensors, header, size };
  });

/** Needed only if there are several shards. */
export const indexOf = (shards: readonly Shard[]) => ({
  metadata: { total_size: shards.flatMap(({ tensors }) => tensors).reduce((sum, { bytes }) => sum + bytes, 0) },
  weight_map: Object.fromEntries(shards.flatMap(({ name, tensors }) => tensors.map(({ spec }) => [spec.name, name]))),
});

type Source = { merged: MergedTensors; type: HfType; headLength: number };

export async function* shardChunks({ header, tensors }: Shard, { merged, type, headLength }: Source) {
  yield header;
  for (const { stored, change } of tensors) {
    const isVector = stored.dims.length === 1;
    if (change === "same") yield* merged.content(stored, type);
    else if (change === "add_one") yield lessOne(await whole(merged.content(stored, "F32"), stored.elements * 4), type);
    else {
      const rows = isVector ? stored.elements : stored.elements / (stored.dims[0] ?? 1);
      const bytes = await whole(merged.content(stored, type), stored.elements * BYTES[type]);
      yield reordered(bytes, rows, headLength);
    }
  }
}

async function whole(chunks: AsyncIterable<Uint8Array>, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

function reordered(bytes: Uint8Array, rows: number, headLength: number): Uint8Array {
  const width = bytes.byteLength / rows;
  const out = new Uint8Array(bytes.byteLength);
  for (let row = 0; row < rows; row++) {
    const from = unrotatedRow(row, headLength);
    out.set(bytes.subarray(from * width, (from + 1) * width), row * width);
  }
  return out;
}

function lessOne(bytes: Uint8Array<ArrayBuffer>, type: HfType): Uint8Array {
  const values = new Float32Array(bytes.buffer).map((value) => value - 1);
  if (type === "F32") return new Uint8Array(values.buffer);
  if (type === "F16") return new Uint8Array(new Float16Array(values).buffer);
  return new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), toBf16).buffer);
}

/** Converts the bits of a float32: rounds to nearest even; NaN stays NaN. */
export function toBf16(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
