/**
 * The 256 numbers that a byte of a moment stands for, as shares of the largest of its block: the dynamic map of
 * bitsandbytes. Its numbers are dense near zero. One of them differs: the least of the signed map is -1, so that a block's
 * largest number is always exact. A decoded moment that is encoded again is therefore the same byte. Pure.
 */

/** `edges` has 255 numbers in order, and a last one that is never read. */
export type DynamicMap = { values: Float32Array; edges: Float32Array };

export const MAP_SIZE = 256;
const EXPONENTS = 7;

function dynamicMap(signed: boolean): DynamicMap {
  const means = [0, 1];
  for (let i = 0; i < EXPONENTS; i++) {
    const parts = 2 ** (signed ? i : i + 1);
    for (let part = 0; part < parts; part++) {
      const mean = 10 ** (i + 1 - EXPONENTS) * (0.1 + (0.9 * (part + 0.5)) / parts);
      means.push(mean);
      if (signed) means.push(-mean);
    }
  }
  const values = Float32Array.from(means.sort((a, b) => a - b));
  if (signed) values[0] = -1;
  const edges = new Float32Array(MAP_SIZE);
  for (let i = 1; i < MAP_SIZE; i++) edges[i - 1] = ((values[i - 1] as number) + (values[i] as number)) / 2;
  return { values, edges };
}

export const FIRST_MAP = dynamicMap(true);
export const SECOND_MAP = dynamicMap(false);

/** Both maps as the kernel reads them: values and edges of the first moment, then of the second. */
export function mapTable(): Float32Array {
  const table = new Float32Array(4 * MAP_SIZE);
  [FIRST_MAP.values, FIRST_MAP.edges, SECOND_MAP.values, SECOND_MAP.edges].forEach((part, i) => {
    table.set(part, i * MAP_SIZE);
  });
  return table;
}

/** The byte of the nearest number: how many edges lie below `share`. */
export function codeOf({ edges }: DynamicMap, share: number): number {
  let code = 0;
  for (let step = MAP_SIZE / 2; step > 0; step >>= 1) if (share > (edges[code + step - 1] as number)) code += step;
  return code;
}
