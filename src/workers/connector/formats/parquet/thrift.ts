/**
 * Counts the values of a structure in Thrift's compact protocol, before a parser makes an object of each. One byte can
 * stand for an object of many.
 */
export function countValues(bytes: Uint8Array, most: number): number {
  return new Skimmer(bytes, most).struct(0);
}

const DEEPEST = 32;
const [STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
];

class Skimmer {
  private at = 0;
  private count = 0;
  constructor(
    private readonly bytes: Uint8Array,
    private readonly most: number,
  ) {}

  /** Stops early, above `most`. */
  struct(depth: number): number {
    if (depth > DEEPEST) throw new Error("its footer is nested too deeply");
    while (this.count <= this.most) {
      const head = this.byte();
      const type = head & 0x0f;
      if (type === STOP) break;
      if (head >> 4 === 0) this.varint(); // skip the field's number
      this.value(type, depth, false);
    }
    return this.count;
  }

  private value(type: number, depth: number, inList: boolean) {
    this.count++;
    if (type === TRUE || type === FALSE) this.at += inList ? 1 : 0;
    else if (type === BYTE) this.at += 1;
    else if (type === I16 || type === I32 || type === I64) this.varint();
    else if (type === DOUBLE) this.at += 8;
    else if (type === BINARY) this.skip(this.varint());
    else if (type === LIST || type === SET) this.list(depth);
    else if (type === STRUCT) this.struct(depth + 1);
    else throw new Error(`its footer holds an unknown type (${type})`);
  }

  private skip(length: number) {
    this.at += length;
  }

  private list(depth: number) {
    if (depth > DEEPEST) throw new Error("its footer is nested too deeply");
    const head = this.byte();
    const size = head >> 4 === 15 ? this.varint() : head >> 4;
    for (let i = 0; i < size && this.count <= this.most; i++) this.value(head & 0x0f, depth + 1, true);
  }

  private varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 63; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw new Error("its footer holds an endless number");
  }

  private byte(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw new Error("its footer ends too early");
    return byte;
  }
}
