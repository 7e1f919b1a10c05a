/** The difference of two texts by words: the longest common subsequence. Long texts are compared by lines. */
export type Part = { kind: "same" | "added" | "removed"; text: string };

/** The table has this many cells at most; beyond that the texts are shown as wholly different. */
const MOST_CELLS = 4_000_000;
const MOST_WORDS = 2_000;

const wordsOf = (text: string) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
const linesOf = (text: string) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

export function diff(before: string, after: string): Part[] {
  if (before === after) return before === "" ? [] : [{ kind: "same", text: before }];
  const [a, b] = [wordsOf(before), wordsOf(after)];
  return a.length > MOST_WORDS || b.length > MOST_WORDS ? compare(linesOf(before), linesOf(after)) : compare(a, b);
}

function compare(a: readonly string[], b: readonly string[]): Part[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const parts: Part[] = [];
  const push = (kind: Part["kind"], text: string) => {
    const last = parts.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") parts.push({ kind, text });
  };
  push("same", a.slice(0, start).join(""));
  middle(a.slice(start, a.length - end), b.slice(start, b.length - end), push);
  push("same", a.slice(a.length - end).join(""));
  return parts;
}

function middle(a: readonly string[], b: readonly string[], push: (kind: Part["kind"], text: string) => void) {
  const width = b.length + 1;
  if (a.length * b.length > MOST_CELLS) {
    push("removed", a.join(""));
    push("added", b.join(""));
    return;
  }
  const common = new Uint16Array((a.length + 1) * width); // [i, j]: of a from i and b from j
  const at = (i: number, j: number) => common[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push("same", a[i] ?? "");
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) push("removed", a[i++] ?? "");
    else push("added", b[j++] ?? "");
  }
}
