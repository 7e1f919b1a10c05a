/** JUMBF boxes (ISO 19566-5), as far as C2PA uses them. Reading stops at a box with a wrong length. */
import { latin, viewOf } from "../containers.ts";

export type Box = {
  label: string;
  content: { type: string; body: Uint8Array }[];
  children: Box[];
  /** Everything after the header of the box: what a hash of the box covers. */
  body: Uint8Array;
};

const MAX_DEPTH = 8;
const MAX_BOXES = 5_000;
const TYPE_BYTES = 16; // the UUID at the start of a description
const HAS_LABEL = 0b10;

/** Returns the superboxes in `bytes`, with their content. */
export function readBoxes(bytes: Uint8Array): Box[] {
  const budget = { boxes: MAX_BOXES };
  return [...split(bytes, budget)].filter(({ type }) => type === "jumb").map(({ body }) => readBox(body, 1, budget));
}

type Budget = { boxes: number };

function readBox(bytes: Uint8Array, depth: number, budget: Budget): Box {
  const box: Box = { label: "", content: [], children: [], body: bytes };
  for (const { type, body } of split(bytes, budget)) {
    if (type === "jumd") box.label = labelOf(body);
    else if (type !== "jumb") box.content.push({ type, body });
    else if (depth < MAX_DEPTH) box.children.push(readBox(body, depth + 1, budget));
  }
  return box;
}

function* split(bytes: Uint8Array, budget: Budget): Generator<{ type: string; body: Uint8Array }> {
  const view = viewOf(bytes);
  for (let at = 0; at + 8 <= bytes.length && budget.boxes-- > 0; ) {
    const said = view.getUint32(at);
    const wide = said === 1 && at + 16 <= bytes.length;
    const length = said === 0 ? bytes.length - at : wide ? Number(view.getBigUint64(at + 8)) : said;
    const head = wide ? 16 : 8;
    if (length < head || at + length > bytes.length) return;
    yield { type: latin(bytes.subarray(at + 4, at + 8)), body: bytes.subarray(at + head, at + length) };
    at += length;
  }
}

function labelOf(body: Uint8Array): string {
  if (((body[TYPE_BYTES] ?? 0) & HAS_LABEL) === 0) return "";
  const end = body.indexOf(0, TYPE_BYTES + 1);
  return new TextDecoder().decode(body.subarray(TYPE_BYTES + 1, end < 0 ? body.length : end));
}
