/** Encodes rows of weights: the plain types in TypeScript, the others with ggml. */
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { BLOCK_TYPES, type BlockType, type StoredType } from "../../../lib/checkpoints/mix.ts";
import { encode } from "../../../lib/checkpoints/numbers.ts";
import { quantizeRows } from "../../../native/ggml/quantize.ts";

/** `values` are whole rows of this many columns. */
export type Encode = (type: StoredType, values: Float32Array, columns: number) => Uint8Array;

/** `dataDir` has the native libraries. */
export const encoderFor =
  (dataDir: string): Encode =>
  (type, values, columns) => {
    if (!isBlockType(type)) return encode(type, values);
    for (const value of values)
      if (!Number.isFinite(value)) throw new CheckpointError(`A weight is not a number, so it cannot become ${type}`);
    return quantizeRows(dataDir, type, values, columns);
  };

const isBlockType = (type: StoredType): type is BlockType => (BLOCK_TYPES as readonly string[]).includes(type);
