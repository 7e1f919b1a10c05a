/**
 * Reads untrusted CBOR (RFC 8949). Lengths are checked against the rest of the input; depth and number of items are
 * limited. Tags are ignored. Keys of maps are text, or integers as decimal text; other keys are dropped. Throws on
 * invalid input.
 */
import { isObject } from "../../../lib/json/object.ts";
export type Cbor = null | boolean | number | bigint | string | Uint8Array | Cbor[] | { [key: string]: Cbor };

const MAX_DEPTH = 32;
const MAX_ITEMS = 100_000;
const INDEFINITE = 31;
const BREAK = Symbol("break");

export function readCbor(bytes: Uint8Array): Cbor {
  const item = new Reader(bytes).item(0);
  if (item === BREAK) throw new Error("CBOR: a break outside any item");
  return item;
}

class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #items = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  item(depth: number): Cbor | typeof BREAK {
    if (depth > MAX_DEPTH || ++this.#items > MAX_ITEMS) throw new Error("CBOR: nested too deeply, or too many items");
    const head = this.#view.getUint8(this.#advance(1));
    const [major, detail] = [head >> 5, head & 31];
    if (major === 7) return this.#simple(detail);
    if (detail === INDEFINITE) return this.#open(major, depth);
    const value = this.#argument(detail);
    if (major === 0) return value;
    if (major === 1) return typeof value === "bigint" ? -1n - value : -1 - value;
    if (major === 6) return this.item(depth + 1);
    const count = Number(value);
    if (major === 2) return this.#take(count);
    if (major === 3) return new TextDecoder().decode(this.#take(count));
    if (count > this.#bytes.length - this.#at) throw new Error("CBOR: longer than the file");
    return major === 4 ? this.#list(count, depth) : this.#map(count, depth);
  }

  #argument(detail: number): number | bigint {
    if (detail < 24) return detail;
    if (detail === 24) return this.#view.getUint8(this.#advance(1));
    if (detail === 25) return this.#view.getUint16(this.#advance(2));
    if (detail === 26) return this.#view.getUint32(this.#advance(4));
    if (detail !== 27) throw new Error("CBOR: an unknown form of length");
    const value = this.#view.getBigUint64(this.#advance(8));
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  }

  #simple(detail: number): Cbor | typeof BREAK {
    if (detail === INDEFINITE) return BREAK;
    if (detail === 20 || detail === 21) return detail === 21;
    if (detail === 24) this.#advance(1);
    if (detail === 25) this.#advance(2); // half precision: its value is not needed
    if (detail === 26) return this.#view.getFloat32(this.#advance(4));
    if (detail === 27) return this.#view.getFloat64(this.#advance(8));
    return null;
  }

  /** Reads an item of indefinite length, up to a break. */
  #open(major: number, depth: number): Cbor {
    if (major === 4) return this.#list(Number.POSITIVE_INFINITY, depth);
    if (major === 5) return this.#map(Number.POSITIVE_INFINITY, depth);
    if (major !== 2 && major !== 3) throw new Error("CBOR: a number of indefinite length");
    const parts = this.#list(Number.POSITIVE_INFINITY, depth);
    if (major === 3) return parts.filter((part) => typeof part === "string").join("");
    return Uint8Array.from(Buffer.concat(parts.filter((part) => part instanceof Uint8Array)));
  }

  #list(count: number, depth: number): Cbor[] {
    const list: Cbor[] = [];
    while (list.length < count) {
      const item = this.item(depth + 1);
      if (item === BREAK) break;
      list.push(item);
    }
    return list;
  }

  #map(count: number, depth: number): { [key: string]: Cbor } {
    const map: { [key: string]: Cbor } = Object.create(null);
    for (let i = 0; i < count; i++) {
      const key = this.item(depth + 1);
      if (key === BREAK) break;
      const value = this.item(depth + 1);
      if (value === BREAK) throw new Error("CBOR: a key without a value");
      if (typeof key === "string" || typeof key === "number") map[key] = value;
    }
    return map;
  }

  #advance(length: number): number {
    const at = this.#at;
    if (length > this.#bytes.length - at) throw new Error("CBOR: longer than the file");
    this.#at += length;
    return at;
  }

  #take(length: number): Uint8Array {
    const at = this.#advance(length);
    return this.#bytes.subarray(at, at + length);
  }
}

export type CborMap = { [key: string]: Cbor };
export const isMap = (value: Cbor | undefined): value is CborMap => isObject(value) && !(value instanceof Uint8Array);
export const asList = (value: Cbor | undefined): Cbor[] => (Array.isArray(value) ? value : []);
