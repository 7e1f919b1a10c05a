import type { SchemaElement } from "hyparquet";

/**
 * A column, or a part of a nested one. `def` and `rep` are Dremel levels: `def` at which the node is present, `rep` at
 * which it repeats. The annotation decides the meaning of a group. Layouts of old writers are supported.
 */
export type Node = {
  name: string;
  element: SchemaElement;
  optional: boolean;
  repeated: boolean;
  def: number;
  rep: number;
  shape: "value" | "struct" | "list" | "map";
  children: Node[];
  /** The index among the leaves, for a value. */
  leaf: number;
};

const DEEPEST = 64;
const MOST_ELEMENTS = 20_000;

export function schemaOf(elements: readonly SchemaElement[]): { root: Node; leaves: Node[] } {
  if (elements.length > MOST_ELEMENTS) throw new Error(`its schema has ${elements.length} parts`);
  const leaves: Node[] = [];
  let at = 0;
  const next = (above: { def: number; rep: number }, depth: number): Node => {
    const element = elements[at++];
    if (!element) throw new Error("its schema ends too early");
    if (depth > DEEPEST) throw new Error(`its schema is nested more than ${DEEPEST} levels deep`);
    const optional = depth > 0 && element.repetition_type === "OPTIONAL";
    const repeated = depth > 0 && element.repetition_type === "REPEATED";
    const levels = { def: above.def + (optional || repeated ? 1 : 0), rep: above.rep + (repeated ? 1 : 0) };
    const name = String(element.name);
    const node: Node = { name, element, optional, repeated, ...levels, shape: "value", children: [], leaf: -1 };
    if (element.type !== undefined) node.leaf = leaves.push(node) - 1;
    else {
      for (let i = 0; i < (element.num_children ?? 0); i++) node.children.push(next(levels, depth + 1));
      node.shape = shapeOf(node);
    }
    return node;
  };
  const root = next({ def: 0, rep: 0 }, 0);
  if (leaves.length === 0 || at !== elements.length) throw new Error("its schema has no columns, or unused parts");
  refuseTwins(root);
  return { root, leaves };
}

function shapeOf({ element, children, name }: Node): Node["shape"] {
  if (children.length === 0) throw new Error(`the group ${name} of its schema is empty`);
  if (element.logical_type?.type === "VARIANT")
    throw new Error(`column ${name} has the type VARIANT, which is not supported. Write it as JSON`);
  const kind = element.converted_type ?? element.logical_type?.type;
  const [only] = children;
  if (children.length !== 1 || !only?.repeated) return "struct";
  if ((kind === "MAP" || kind === "MAP_KEY_VALUE") && only.children.length === 2) return "map";
  return kind === "LIST" || kind === "MAP" ? "list" : "struct";
}

/**
 * Returns the item of a list: the repeated node itself or its only child. Old writers omitted the level between. The
 * rules are those of the Parquet format's page on logical types.
 */
export function itemOf(list: Node): { item: Node; itself: boolean } {
  const repeated = list.children[0]!;
  const [only] = repeated.children;
  const itself =
    only === undefined ||
    repeated.children.length > 1 ||
    only.repeated ||
    repeated.name === "array" ||
    repeated.name === `${list.name}_tuple`;
  return itself ? { item: repeated, itself } : { item: only, itself };
}

function refuseTwins({ children }: Node) {
  const names = new Set<string>();
  for (const { name } of children) {
    if (names.has(name)) throw new Error(`two columns are named ${JSON.stringify(name)}. Rename one of them`);
    names.add(name);
  }
}
