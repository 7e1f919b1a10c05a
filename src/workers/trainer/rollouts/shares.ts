/** Assigns each group to the engine with the least work so far. The result depends only on the sizes. */
export function shares(sizes: readonly number[], count: number): number[] {
  const load = Array.from({ length: count }, () => 0);
  return sizes.map((size) => {
    const least = load.indexOf(Math.min(...load));
    load[least]! += size;
    return least;
  });
}
