/** Adapters for our kernels: what their files change in a model, and the tiles of rows that share one. Pure. */
import type { Header, Tensor } from "../../../lib/gguf/parse.ts";
import { MOST_RANK, PLACED, RANK_STEP, TILE_ROWS, TILE_WORDS } from "../../../native/cuda/decode/kernels.ts";
import { loraNames } from "../../trainer/engine/weights.ts";
import type { DecoderModel } from "../model.ts";

/** A file, and how strongly it applies. */
export type AdapterSource = { path: string; header: Header; scale: number };

/** Matrices of a layer in the order of the device's table. Those that share a product's input are neighbours. */
const PARTS: readonly string[] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
export const PLACE = { qkv: 0, output: 3, gateUp: 4, down: 6, layer: PARTS.length } as const;

/**
 * The part of one file in a matrix; several apply together as one of all their ranks. `first`: the row of B where a part of a
 * joined matrix begins.
 */
export type LowRankPart = { source: number; a: Tensor; b: Tensor; rank: number; scale: number; first: number };
export type PlannedMatrix = { place: number; rows: number; columns: number; rank: number; parts: LowRankPart[] };
export type AdapterPlan = { matrices: readonly PlannedMatrix[]; bytes: number; head: boolean };

const ALIGN = 256;
const aligned = (bytes: number) => Math.ceil(bytes / ALIGN) * ALIGN;

/** Numbers of a rank of B, which lies turned. */
export const strideOf = (rows: number) => Math.ceil(rows / 8) * 8;
const ranksOf = (rank: number) => Math.ceil(rank / RANK_STEP) * RANK_STEP;
/** A and B in BF16, each from an aligned address. B has zeros behind its rank. */
export const bytesOfA = ({ rank, columns }: PlannedMatrix) => aligned(rank * columns * 2);
export const bytesOfB = ({ rank, rows }: PlannedMatrix) => aligned(ranksOf(rank) * strideOf(rows) * 2);

/** The last place is that of the head. */
export const placeCount = (model: DecoderModel) => model.architecture.layers * PLACE.layer + 1;

/**
 * Returns the reason if the kernels cannot apply these files to the model, which another engine may. Throws if they are no
 * adapters of this model.
 */
export function planAdapter(sources: readonly AdapterSource[], model: DecoderModel): AdapterPlan | string {
  const matrices = new Map<number, PlannedMatrix>();
  for (const [source, { header, scale }] of sources.entries()) {
    if (header.metadata.get("general.type")?.value !== "adapter") throw new Error("The file is not an adapter");
    if (header.metadata.get("adapter.type")?.value !== "lora") return "is not of the type LoRA";
    if (header.metadata.has("adapter.alora.invocation_tokens")) return "applies only behind certain tokens";
    const alpha = Number(header.metadata.get("adapter.lora.alpha")?.value ?? 0);
    for (const tensor of header.tensors.values()) {
      const name = tensor.name.replace(/\.lora_[ab]$/, "");
      const ofTable = partsOf(name, model);
      const base = model.matrices.get(name);
      if (ofTable.length === 0 || !base || tensor.name === name) return `changes ${name}`;
      const names = loraNames(name);
      const [a, b] = [header.tensors.get(names.a), header.tensors.get(names.b)];
      const rank = a?.dims[1] ?? 1;
      const fits = a?.dims[0] === base.columns && b?.dims[0] === rank && (b.dims[1] ?? 1) === base.rows;
      if (!a || !b || !fits) throw new Error(`The file is not an adapter of this model: ${name} has another shape`);
      if (!(tensor.type.name in PLACED)) return `has ${tensor.name} in ${tensor.type.name}`;
      if (tensor !== a) continue;
      for (const { place, first, rows } of ofTable) {
        const known = matrices.get(place);
        const matrix = known ?? { place, rows, columns: base.columns, rank: 0, parts: [] };
        matrix.parts.push({ source, a, b, rank, first, scale: alpha === 0 ? scale : (scale * alpha) / rank });
        matrix.rank += rank;
        if (matrix.rank > MOST_RANK) return `has the rank ${matrix.rank} in ${name}; the most is ${MOST_RANK}`;
        matrices.set(place, matrix);
      }
    }
  }
  const all = [...matrices.values()];
  const bytes = all.reduce((sum, each) => sum + bytesOfA(each) + bytesOfB(each), 0);
  return { matrices: all, bytes, head: matrices.has(placeCount(model) - 1) };
}

type TablePart = { place: number; first: number; rows: number };

/** Places of a matrix in the table, those of its parts if it is a joined one; none if the kernels apply nothing to it. */
function partsOf(name: string, { architecture, layers, head }: DecoderModel): TablePart[] {
  const { tied, joins } = architecture;
  if (name === "output.weight") return tied ? [] : [{ place: layers.length * PLACE.layer, first: 0, rows: head.rows }];
  const [, index, part = ""] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  const layer = layers[Number(index)];
  if (!layer) return [];
  const { qkv, output, gate, up, down } = layer;
  const begin = Number(index) * PLACE.layer;
  if (joins.attention && part === "attn_qkv") return behind(begin + PLACE.qkv, qkv);
  if (joins.forward && part === "ffn_up") return behind(begin + PLACE.gateUp, [gate, up]);
  const at = PARTS.indexOf(part);
  const weight = [...qkv, output, gate, up, down][at];
  return weight ? [{ place: begin + at, first: 0, rows: weight.rows }] : [];
}

const behind = (place: number, parts: readonly { rows: number }[]): TablePart[] =>
  parts.map(({ rows }, i) => ({
    place: place + i,
    first: parts.slice(0, i).reduce((sum, { rows }) => sum + rows, 0),
    rows,
  }));

/**
 * Every row in a tile of rows with the same adapter, as words for the device. `adapters` are those of the rows, below zero:
 * none.
 */
export function adapterTiles(adapters: readonly number[]): number[] {
  const rowsOf = new Map<number, number[]>();
  for (const [row, adapter] of adapters.entries()) {
    const rows = rowsOf.get(adapter);
    if (rows) rows.push(row);
    else rowsOf.set(adapter, [row]);
  }
  return [...rowsOf].flatMap(([adapter, rows]) =>
    Array.from({ length: Math.ceil(rows.length / TILE_ROWS) }, (_, tile) => [
      adapter,
      ...Array.from({ length: TILE_ROWS }, (_, i) => rows[tile * TILE_ROWS + i] ?? -1),
    ]).flat(),
  );
}

/** Tiles of the grid for this many: a power of two, so that there are few graphs. */
export const tilesOf = (words: readonly number[]) => 2 ** Math.ceil(Math.log2(words.length / TILE_WORDS));
