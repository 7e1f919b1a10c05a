/**
 * Reads ExportTraceServiceRequest of OTLP in protobuf as the same request in JSON (docs/adr/0076-otlp-protobuf.md), so that both have one check. It
 * knows the fields that the server uses and skips the others. Nothing grows past the limits: a length never passes the end
 * of its message, and depth, values of a span and spans are counted.
 */
import type { Turn } from "../../../../lib/turns.ts";

const MAX_DEPTH = 16;
/** Values in the attributes and events of one span or resource. */
const MAX_VALUES = 10_000;

export class ProtobufError extends Error {
  override name = "ProtobufError";
}

type Field = { number: number; wire: number; value: bigint; bytes: Uint8Array };

const [VARINT, FIXED64, BYTES, FIXED32] = [0, 1, 2, 5];
const NOTHING = new Uint8Array();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The fields of one message, in their order. */
function* fieldsOf(message: Uint8Array): Generator<Field> {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  let at = 0;
  const take = (bytes: number): number => {
    if (bytes > message.byteLength - at) throw new ProtobufError("the body is cut off");
    at += bytes;
    return at - bytes;
  };
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = view.getUint8(take(1));
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new ProtobufError("a number has more than ten bytes");
  };
  while (at < message.byteLength) {
    const tag = Number(varint());
    const [number, wire] = [Math.floor(tag / 8), tag % 8];
    if (wire === VARINT) yield { number, wire, value: varint(), bytes: NOTHING };
    else if (wire === FIXED64) yield { number, wire, value: view.getBigUint64(take(8), true), bytes: NOTHING };
    else if (wire === FIXED32) yield { number, wire, value: BigInt(view.getUint32(take(4), true)), bytes: NOTHING };
    else if (wire === BYTES) {
      const length = Number(varint());
      const from = take(length);
      yield { number, wire, value: 0n, bytes: message.subarray(from, from + length) };
    } else throw new ProtobufError(`field ${number} has the unknown wire type ${wire}`);
  }
}

/** The messages or texts in this field. */
const inField = (message: Uint8Array, number: number): Uint8Array[] =>
  [...fieldsOf(message)].filter((field) => field.number === number && field.wire === BYTES).map(({ bytes }) => bytes);

const textOf = (bytes: Uint8Array): string => {
  try {
    return strictUtf8.decode(bytes);
  } catch (cause) {
    throw new ProtobufError("a text is not UTF-8", { cause });
  }
};

const doubleOf = (bits: bigint): number => {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, bits);
  return view.getFloat64(0);
};

type Json = Record<string, unknown>;
type Budget = { values: number };

function readValue(message: Uint8Array, budget: Budget, depth: number): Json {
  if (depth > MAX_DEPTH) throw new ProtobufError(`a value is nested more than ${MAX_DEPTH} levels deep`);
  if (--budget.values < 0) throw new ProtobufError(`a span has more than ${MAX_VALUES} values`);
  let value: Json = {};
  for (const { number, value: bits, bytes } of fieldsOf(message)) {
    if (number === 1) value = { stringValue: textOf(bytes) };
    else if (number === 2) value = { boolValue: bits !== 0n };
    else if (number === 3) value = { intValue: String(BigInt.asIntN(64, bits)) };
    else if (number === 4) value = { doubleValue: doubleOf(bits) };
    else if (number === 5)
      value = { arrayValue: { values: inField(bytes, 1).map((each) => readValue(each, budget, depth + 1)) } };
    else if (number === 6) value = { kvlistValue: { values: attributesOf(inField(bytes, 1), budget, depth + 1) } };
    else if (number === 7) value = { stringValue: Buffer.from(bytes).toString("base64") };
  }
  return value;
}

const attributesOf = (pairs: readonly Uint8Array[], budget: Budget, depth = 0): Json[] =>
  pairs.map((pair) => {
    let key = "";
    let value: Json = {};
    for (const { number, bytes } of fieldsOf(pair)) {
      if (number === 1) key = textOf(bytes);
      else if (number === 2) value = readValue(bytes, budget, depth);
    }
    return { key, value };
  });

const newBudget = (): Budget => ({ values: MAX_VALUES });

function eventOf(message: Uint8Array, budget: Budget): Json {
  const name = inField(message, 2).map(textOf).at(-1) ?? "";
  return { name, attributes: attributesOf(inField(message, 3), budget) };
}

function spanOf(message: Uint8Array): Json {
  const budget = newBudget();
  const span: Json = { attributes: [], events: [] };
  const attributes: Uint8Array[] = [];
  const events: Uint8Array[] = [];
  for (const { number, value, bytes } of fieldsOf(message)) {
    if (number === 1) span["traceId"] = Buffer.from(bytes).toString("hex");
    else if (number === 2) span["spanId"] = Buffer.from(bytes).toString("hex");
    else if (number === 5) span["name"] = textOf(bytes);
    else if (number === 7) span["startTimeUnixNano"] = String(value);
    else if (number === 8) span["endTimeUnixNano"] = String(value);
    else if (number === 9) attributes.push(bytes);
    else if (number === 11) events.push(bytes);
    else if (number === 15)
      span["status"] = { code: Number([...fieldsOf(bytes)].find((f) => f.number === 3)?.value ?? 0) };
  }
  span["attributes"] = attributesOf(attributes, budget);
  span["events"] = events.map((event) => eventOf(event, budget));
  return span;
}

/** `most`: the most spans that are read. The next one is an error of the caller's form. */
export async function readTraces(body: Uint8Array, { most, turn }: { most: number; turn: Turn }): Promise<Json> {
  const resourceSpans: Json[] = [];
  let count = 0;
  for (const group of inField(body, 1)) {
    const resource = inField(group, 1).at(-1) ?? NOTHING;
    const spans: Json[] = [];
    for (const scope of inField(group, 2))
      for (const { number, bytes } of fieldsOf(scope)) {
        if (number !== 2) continue;
        await turn();
        if (++count > most) throw new ProtobufError(`the body has more than ${most} spans: send smaller batches`);
        spans.push(spanOf(bytes));
      }
    await turn();
    const attributes = attributesOf(inField(resource, 1), newBudget());
    resourceSpans.push({ resource: { attributes }, scopeSpans: [{ spans }] });
  }
  return { resourceSpans };
}

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value % 0x80) | 0x80, ...varint(Math.floor(value / 0x80))];
}

/** ExportTraceServiceResponse. Without a rejected span it has no bytes. */
export function writeExported(partial: { rejectedSpans: number; errorMessage: string } | undefined): Uint8Array {
  if (!partial) return NOTHING;
  const message = new TextEncoder().encode(partial.errorMessage);
  const inside = [0x08, ...varint(partial.rejectedSpans), 0x12, ...varint(message.length), ...message];
  return Uint8Array.from([0x0a, ...varint(inside.length), ...inside]);
}
