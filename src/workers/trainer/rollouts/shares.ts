/** Which of `count` engines takes each group: the one with the least to do so far. Depends on the sizes alone. */
export function shares(sizes: readonly number[], count: number): number[] {
  const load = Array.from({ length: count }, () => 0);
  return sizes.map((size) => {
    const least = load.indexOf(Math.min(...load));
    load[least]! += size;
    return least;
  });
}
