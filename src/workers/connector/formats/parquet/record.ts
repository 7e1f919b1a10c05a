/** Assembles rows from columns. The levels mark the start of a list, its continuation, and missing values. */
import { exceeds } from "../file.ts";
import type { Column } from "./column.ts";
import { itemOf, type Node } from "./schema.ts";

type Write = () => string;

export class RowTooLong extends Error {}

/** Writes the next row as a JSON object. Every call takes one row off every column. */
export function rowWriter(root: Node, columns: readonly Column[], rowBytes: number): Write {
  const write = fieldsOf(root, columns, rowBytes);
  return () => {
    const row = write();
    if (exceeds(row, rowBytes)) throw new RowTooLong();
    return row;
  };
}

/** Writes a node of any kind: single, null or a list. */
function writerOf(node: Node, columns: readonly Column[], rowBytes: number): Write {
  const content = contentOf(node, columns, rowBytes);
  if (node.repeated) return listOf(node, content, columns, rowBytes);
  if (!node.optional || node.shape === "value") return content; // the value itself writes null
  const below = columnsOf(node, columns);
  const [first] = below;
  return () => (first!.def < node.def ? nothing(below, "null") : content());
}

function contentOf(node: Node, columns: readonly Column[], rowBytes: number): Write {
  if (node.shape === "value") {
    const column = columns[node.leaf]!;
    return () => column.take();
  }
  if (node.shape === "map") return mapOf(node, columns, rowBytes);
  if (node.shape !== "list") return fieldsOf(node, columns, rowBytes);
  const repeated = node.children[0]!;
  const { item, itself } = itemOf(node);
  const write = itself ? contentOf(item, columns, rowBytes) : writerOf(item, columns, rowBytes);
  return listOf(repeated, write, columns, rowBytes);
}

function fieldsOf(node: Node, columns: readonly Column[], rowBytes: number): Write {
  const names = node.children.map(({ name }, i) => `${i === 0 ? "{" : ","}${JSON.stringify(name)}:`);
  const fields = node.children.map((child) => writerOf(child, columns, rowBytes));
  return () => {
    let text = "";
    for (let i = 0; i < fields.length; i++) {
      text += names[i]! + fields[i]!();
      if (text.length > rowBytes) throw new RowTooLong();
    }
    return `${text}}`;
  };
}

function listOf(repeated: Node, item: Write, columns: readonly Column[], rowBytes: number): Write {
  const items = itemsOf(repeated, item, columns, rowBytes);
  return () => `[${items()}]`;
}

/** JSON allows only string keys, so other keys become strings. */
function mapOf(node: Node, columns: readonly Column[], rowBytes: number): Write {
  const entry = node.children[0]!;
  const [key, value] = [entry.children[0]!, entry.children[1]!].map((child) => writerOf(child, columns, rowBytes));
  const one = () => {
    const name = key!();
    return `${name.startsWith('"') ? name : JSON.stringify(name)}:${value!()}`;
  };
  const entries = itemsOf(entry, one, columns, rowBytes);
  return () => `{${entries()}}`;
}

function itemsOf(repeated: Node, item: Write, columns: readonly Column[], rowBytes: number): Write {
  const below = columnsOf(repeated, columns);
  const [first] = below;
  return () => {
    if (first!.def < repeated.def) return nothing(below, "");
    let text = item();
    while (first!.rep === repeated.rep) {
      text += `,${item()}`;
      if (text.length > rowBytes) throw new RowTooLong();
    }
    return text;
  };
}

/** A missing value still has one entry in every column below it. */
function nothing(below: readonly Column[], text: string): string {
  for (const column of below) column.take();
  return text;
}

const columnsOf = (node: Node, columns: readonly Column[]): Column[] =>
  node.shape === "value" ? [columns[node.leaf]!] : node.children.flatMap((child) => columnsOf(child, columns));
