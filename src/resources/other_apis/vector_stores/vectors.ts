/** Vectors of length 1, whose cosine is their product. Pure. */

export function unit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (value) => (length === 0 ? 0 : value / length));
}

/** The stored form, whose bytes may begin anywhere in their memory. */
export const vectorOf = (bytes: Uint8Array): Float32Array => new Float32Array(new Uint8Array(bytes).buffer);

/** Undefined: they have different lengths. */
export function cosine(a: Float32Array, b: Float32Array): number | undefined {
  if (a.length !== b.length) return undefined;
  let product = 0;
  for (let i = 0; i < a.length; i++) product += (a[i] as number) * (b[i] as number);
  return product;
}
