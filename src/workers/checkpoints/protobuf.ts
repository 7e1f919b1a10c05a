/** Reads the fields of a protobuf message, without its schema. Bounded: every length is checked before use. */

/** `value`: a number, or the bytes of a text, a message or a fixed number as a view into the given bytes. */
export type Field = { number: number; value: Uint8Array | number };

const FIXED: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

export function* fieldsOf(bytes: Uint8Array, damaged: (why: string) => Error): Generator<Field> {
  let at = 0;
  const varint = (): number => {
    let [value, scale] = [0, 1];
    for (let i = 0; i < 10; i++) {
      const byte = bytes[at++];
      if (byte === undefined) throw damaged("it ends inside a number");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw damaged("a number is too long");
  };
  while (at < bytes.byteLength) {
    const tag = varint();
    const [number, wire] = [Math.floor(tag / 8), tag % 8];
    if (wire === 0) yield { number, value: varint() };
    else {
      const length = FIXED[wire] ?? (wire === 2 ? varint() : Number.NaN);
      if (!(at + length <= bytes.byteLength)) throw damaged("a field is longer than the file");
      yield { number, value: bytes.subarray(at, at + length) };
      at += length;
    }
  }
}
