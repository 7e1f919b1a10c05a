/** Items whose text has all letters of `wanted` in order, best first. An exact part beats scattered letters. */
export function rank<T>(items: readonly T[], wanted: string, textOf: (item: T) => string): T[] {
  const needle = wanted.trim().toLowerCase();
  if (needle === "") return [...items];
  return items
    .map((item) => ({ item, score: score(textOf(item).toLowerCase(), needle) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ item }) => item);
}

/** 0: no match. */
function score(text: string, needle: string): number {
  const at = text.indexOf(needle);
  if (at >= 0) return 2 + (at === 0 || /\W/.test(text[at - 1] ?? "") ? 1 : 0) + 1 / (1 + text.length);
  let from = 0;
  for (const letter of needle) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return 0;
  }
  return 1 / (1 + text.length);
}
