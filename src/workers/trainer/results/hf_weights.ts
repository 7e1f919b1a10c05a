/** The weights of a merged model as safetensors files with Hugging Face's names, in shards. */
import { type Family, familyOf } from "../../../lib/checkpoints/families.ts";
import type { Header, Tensor } from "../../../lib/gguf/parse.ts";
import { encodeSafetensorsHeader, type TensorSpec } from "../../checkpoints/safetensors.ts";
import { type Change, type Size, type TensorName, tensorNames, unrotatedRow } from "../../checkpoints/tensors.ts";
import { WorkerError } from "../../protocol.ts";
import { expertChunks } from "./hf_experts.ts";
import type { MergedTensors } from "./merged_gguf.ts";

export type HfType = "F32" | "F16" | "BF16";
export const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
const SHARD_BYTES = 5e9; // as save_pretrained of transformers

/** `expert`: the content is this expert of the stored tensor. `odd`: its rows stand between those of `stored`. */
export type HfTensor = {
  stored: Tensor;
  odd?: Tensor;
  expert?: number;
  spec: TensorSpec;
  change: Change;
  bytes: number;
};
export type Shard = { name: string; tensors: readonly HfTensor[]; header: Uint8Array; size: number };

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
const IN_CONFIG = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

type ShardOptions = Size & { type: HfType; limit?: number };

/** Every tensor of the file has a place, or the export is refused: a missing weight would be drawn at random. */
export function planShards(
  header: Header,
  family: Family,
  { type, limit = SHARD_BYTES, ...size }: ShardOptions,
): Shard[] {
  const names = new Map(tensorNames(family, size).map((each) => [each.gguf, each]));
  const chosen: HfTensor[] = [];
  for (const stored of header.tensors.values()) {
    if (IN_CONFIG.includes(stored.name)) continue;
    const hfName = names.get(stored.name);
    if (!hfName) throw refused(`its tensor ${stored.name} has no name there`);
    chosen.push(...hfTensors(stored, hfName, { header, names, type }));
  }
  return named(cut(chosen, limit));
}

type PlanContext = { header: Header; names: ReadonlyMap<string, TensorName>; type: HfType };

function hfTensors(stored: Tensor, { hf, change }: TensorName, { header, names, type }: PlanContext): HfTensor[] {
  const [name = ""] = hf;
  const shape = [...stored.dims].reverse();
  const tensorOf = (
    more: Pick<HfTensor, "odd" | "expert">,
    as: { name: string; shape: readonly number[] },
  ): HfTensor => {
    const bytes = as.shape.reduce((product, length) => product * length, BYTES[type]);
    return { stored, ...more, change, spec: { ...as, dtype: type }, bytes };
  };
  if (change === "odd_rows") return []; // written together with the even rows
  if (change === "stack") {
    const [experts, ...one] = shape;
    if (experts !== hf.length) throw refused(`its tensor ${stored.name} has ${experts} experts, not ${hf.length}`);
    return hf.map((each, expert) => tensorOf({ expert }, { name: each, shape: one }));
  }
  if (change === "transpose") return [tensorOf({}, { name, shape: [shape[0] ?? 0, shape[2] ?? 0, shape[1] ?? 0] })];
  if (change !== "even_rows") return [tensorOf({}, { name, shape })];
  const partner = [...names.values()].find((each) => each.hf[0] === name && each.change === "odd_rows");
  const odd = header.tensors.get(partner?.gguf ?? "");
  if (odd?.dims.join() !== stored.dims.join()) throw refused(`${stored.name} has no partner of its shape`);
  const [experts = 0, rows = 0, ...columns] = shape;
  return [tensorOf({ odd }, { name, shape: [experts, ...columns, rows * 2] })];
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

export async function* shardChunks({ header, tensors }: Shard, source: Source) {
  yield header;
  for (const tensor of tensors) yield* tensorChunks(tensor, source);
}

async function* tensorChunks(tensor: HfTensor, { merged, type, headLength }: Source): AsyncGenerator<Uint8Array> {
  const { stored, change } = tensor;
  if (change === "same") yield* merged.content(stored, type);
  else if (change === "add_one") yield lessOne(await whole(merged.content(stored, "F32"), stored.elements * 4), type);
  else if (change === "rotate_q" || change === "rotate_k") {
    const rows = stored.dims.length === 1 ? stored.elements : stored.elements / (stored.dims[0] ?? 1);
    const bytes = await whole(merged.content(stored, type), stored.elements * BYTES[type]);
    yield reordered(bytes, rows, headLength);
  } else yield* expertChunks(tensor, merged, type);
}

export async function whole(chunks: AsyncIterable<Uint8Array>, size: number): Promise<Uint8Array<ArrayBuffer>> {
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
