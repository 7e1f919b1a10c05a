/** The only reader of YAML (`test/meta/yaml.test.ts`). It returns a tree of limited size, as JSON would. */
import { isTree } from "../json/object.ts";

const MOST_VALUES = 100_000;
const MOST_LEVELS = 100;

type Node = Record<string, unknown> | unknown[];

/** Throws a SyntaxError also for an anchor that contains itself, and for aliases that stand for too many values. */
export function parseYaml(text: string): unknown {
  const value = parsed(text);
  if (isTree(value)) countValues(value, { names: [], above: [], counts: new Map() });
  return value;
}

function parsed(text: string): unknown {
  try {
    return Bun.YAML.parse(text);
  } catch (error) {
    throw error instanceof RangeError ? tooDeep() : error;
  }
}

const tooDeep = () => new SyntaxError(`the values are nested more than ${MOST_LEVELS} levels deep`);

/** `above`: the nodes on the way from the top, by `names`. `counts`: counts of nodes that were read before. */
type Walk = { names: string[]; above: Node[]; counts: Map<Node, number> };

/** Counts a shared node each time that it occurs, because JSON writes it each time. */
function countValues(node: Node, walk: Walk): number {
  const { names, above, counts } = walk;
  const counted = counts.get(node);
  if (counted !== undefined) return counted;
  const at = above.indexOf(node);
  if (at >= 0) throw new SyntaxError(circleOf(names, at));
  if (above.length >= MOST_LEVELS) throw tooDeep();
  above.push(node);
  let count = 1;
  for (const [name, value] of Object.entries(node)) {
    names.push(name);
    count += isTree(value) ? countValues(value, walk) : 1;
    names.pop();
    if (count > MOST_VALUES) throw new SyntaxError(`its aliases stand for more than ${MOST_VALUES} values`);
  }
  above.pop();
  counts.set(node, count);
  return count;
}

function circleOf(names: readonly string[], at: number): string {
  const outer = names.slice(0, at).join(".") || "the whole file";
  return `${names.join(".")} is an alias of ${outer}, which contains it. An anchor must not contain itself`;
}
