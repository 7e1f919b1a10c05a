import { SCALAR_BYTES, type ValueType } from "./types.ts";

/** The file is not what it claims to be. The message names what is wrong and where, and is safe to show to users. */
export class GgufError extends Error {
  override name = "GgufError";
}

/** Thrown only inside the parser: the file has more bytes than the parser was given. */
export class NeedMore extends Error {
  constructor(readonly bytes: number) {
    super("more bytes are needed");
  }
}

export type Reader = ReturnType<typeof createReader>;

// An invalid character becomes U+FFFD: names are compared, never executed. A byte order mark may be a token.
const text = new TextDecoder("utf-8", { ignoreBOM: true });

/** Reads forward. Reading past the file throws GgufError; past the given bytes, NeedMore. */
export function createReader(bytes: Uint8Array, fileSize: number, maxHeaderBytes: number) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;

  const fail = (message: string): never => {
    throw new GgufError(`${message} (at byte ${at})`);
  };

  /** Checks that the file and the header can hold `length` more bytes. */
  function has(length: number, what: string) {
    const end = at + length;
    if (end > fileSize) fail(`The file ends inside ${what}: it has ${fileSize} bytes, but needs at least ${end}`);
    if (end > maxHeaderBytes) fail(`The header is larger than ${maxHeaderBytes} bytes, inside ${what}`);
    if (end > bytes.byteLength) throw new NeedMore(end);
  }

  /** Skips `length` bytes and returns their start. */
  function take(length: number, what: string): number {
    has(length, what);
    const start = at;
    at += length;
    return start;
  }

  /** A count or an offset: no file has values beyond 2^53. */
  function u64(what: string): number {
    const start = take(8, what);
    const value = view.getUint32(start + 4, true) * 2 ** 32 + view.getUint32(start, true);
    return Number.isSafeInteger(value) ? value : fail(`${what} is ${value}, larger than any file`);
  }

  function scalar(type: keyof typeof SCALAR_BYTES, what: string): number | bigint | boolean {
    const start = take(SCALAR_BYTES[type], what);
    return READ[type](view, start);
  }

  return {
    fail,
    has,
    take,
    u64,
    scalar,
    u32: (what: string) => view.getUint32(take(4, what), true),
    string(what: string, maxBytes: number): string {
      const start = stringSpan(what, maxBytes);
      return text.decode(bytes.subarray(start, at));
    },
    /** Returns the start of the string; it ends at the reader's new position. */
    skipString: stringSpan,
    bytes,
    get at() {
      return at;
    },
  };

  function stringSpan(what: string, maxBytes: number): number {
    const length = u64(what); // no message is built here, because there may be millions of strings
    if (length > maxBytes) fail(`${what} is ${length} bytes long; the maximum is ${maxBytes}`);
    return take(length, what);
  }
}

const exact = (value: bigint): number | bigint =>
  value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;

type Scalar = Exclude<ValueType, "string" | "array">;
const READ: Record<Scalar, (view: DataView, at: number) => number | bigint | boolean> = {
  uint8: (view, at) => view.getUint8(at),
  int8: (view, at) => view.getInt8(at),
  uint16: (view, at) => view.getUint16(at, true),
  int16: (view, at) => view.getInt16(at, true),
  uint32: (view, at) => view.getUint32(at, true),
  int32: (view, at) => view.getInt32(at, true),
  float32: (view, at) => view.getFloat32(at, true),
  bool: (view, at) => view.getUint8(at) !== 0,
  uint64: (view, at) => exact(view.getBigUint64(at, true)),
  int64: (view, at) => exact(view.getBigInt64(at, true)),
  float64: (view, at) => view.getFloat64(at, true),
};
