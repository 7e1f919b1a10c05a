/** Writes random sentences of a grammar, like a model without preferences. */
import { type Node, parseGbnf } from "../../src/workers/serving/grammar/gbnf.ts";

export { parseGbnf };

const SAMPLE_CHARS = [..."abz09 _-.,:;/~!é漢😀\u0080"].map((char) => char.codePointAt(0) as number);
const MORE_THAN_MIN = 3;

/** Returns a random sentence. Beyond `depth` it takes the shortest way out, so that it ends. */
export function sentence(rules: Map<string, Node>, random: () => number, depth = 12): string {
  const cost = costs(rules);
  const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
  const write = (node: Node, left: number): string => {
    if (node.kind === "text") return node.text;
    if (node.kind === "set") return String.fromCodePoint(fromSet(node, random, pick));
    if (node.kind === "rule") return write(ruleOf(rules, node.name), left - 1);
    if (node.kind === "seq") return node.parts.map((part) => write(part, left)).join("");
    if (node.kind === "alt") {
      const least = Math.min(...node.parts.map(cost));
      return write(pick(left > 0 ? node.parts : node.parts.filter((part) => cost(part) === least)), left);
    }
    const more = left > 0 ? Math.min(node.max - node.min, MORE_THAN_MIN) : 0;
    const times = node.min + Math.floor(random() * (more + 1));
    return Array.from({ length: times }, () => write(node.part, left)).join("");
  };
  return write({ kind: "rule", name: "root" }, depth);
}

function ruleOf(rules: Map<string, Node>, name: string): Node {
  const rule = rules.get(name);
  if (!rule) throw new Error(`undefined rule ${name}`);
  return rule;
}

/** Returns the minimum depth of rules that a node needs. */
function costs(rules: Map<string, Node>): (node: Node) => number {
  const known = new Map<string, number>();
  const cost = (node: Node): number => {
    if (node.kind === "rule") {
      ruleOf(rules, node.name);
      return known.get(node.name) ?? Number.POSITIVE_INFINITY;
    }
    if (node.kind === "seq") return Math.max(0, ...node.parts.map(cost));
    if (node.kind === "alt") return Math.min(...node.parts.map(cost));
    return node.kind === "repeat" && node.min > 0 ? cost(node.part) : 0;
  };
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, node] of rules) {
      const found = cost(node) + 1;
      if (found < (known.get(name) ?? Number.POSITIVE_INFINITY)) {
        known.set(name, found);
        changed = true;
      }
    }
  }
  return cost;
}

function fromSet(
  { ranges, negated }: { ranges: [number, number][]; negated: boolean },
  random: () => number,
  pick: <T>(items: readonly T[]) => T,
): number {
  if (negated) return pick(SAMPLE_CHARS.filter((code) => !ranges.some(([from, to]) => from <= code && code <= to)));
  const [from, to] = pick(ranges);
  return from + Math.floor(random() * (to - from + 1));
}
