/** Writes ONNX models: just enough protobuf for untrained networks. */
const FIELD = { graph: 7, opset: 8, irVersion: 1 } as const;
export const TYPE = { float: 1, uint8: 2, int64: 7 } as const;

export type Attributes = Record<string, number | readonly number[]>;
export type Node = { op: string; inputs: readonly string[]; output: string; attributes?: Attributes };
export type Tensor = { name: string; dims: readonly number[]; values: Float32Array | BigInt64Array };
/** A side of unknown length has a name. */
export type Port = { name: string; type: number; dims: readonly (number | string)[] };
export type Graph = { nodes: readonly Node[]; tensors: readonly Tensor[]; input: Port; output: Port };

const varint = (n: number): number[] => (n < 128 ? [n] : [(n % 128) + 128, ...varint(Math.floor(n / 128))]);
const key = (field: number, wire: number) => Buffer.from(varint(field * 8 + wire));
const int = (field: number, value: number) => Buffer.concat([key(field, 0), Buffer.from(varint(value))]);
const bytes = (field: number, ...body: Uint8Array[]) => {
  const length = body.reduce((sum, part) => sum + part.byteLength, 0);
  return Buffer.concat([key(field, 2), Buffer.from(varint(length)), ...body]);
};
const text = (field: number, value: string) => bytes(field, Buffer.from(value));

function attribute([name, value]: [string, number | readonly number[]]): Buffer {
  const [INT, INTS] = [2, 7];
  if (typeof value === "number") return bytes(5, text(1, name), int(3, value), int(20, INT));
  return bytes(5, text(1, name), ...value.map((item) => int(8, item)), int(20, INTS));
}

const node = ({ op, inputs, output, attributes = {} }: Node) =>
  bytes(
    1,
    ...inputs.map((name) => text(1, name)),
    text(2, output),
    text(3, output),
    text(4, op),
    ...Object.entries(attributes).map(attribute),
  );

const tensor = ({ name, dims, values }: Tensor) =>
  bytes(
    5,
    ...dims.map((side) => int(1, side)),
    int(2, values instanceof Float32Array ? TYPE.float : TYPE.int64),
    text(8, name),
    bytes(9, new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
  );

function port(field: number, { name, type, dims }: Port): Buffer {
  const sides = dims.map((side) => bytes(1, typeof side === "number" ? int(1, side) : text(2, side)));
  return bytes(field, text(1, name), bytes(2, bytes(1, int(1, type), bytes(2, ...sides))));
}

export function writeOnnx({ nodes, tensors, input, output }: Graph): Uint8Array<ArrayBuffer> {
  const graph = [...nodes.map(node), text(2, "g"), ...tensors.map(tensor), port(11, input), port(12, output)];
  const opset = bytes(FIELD.opset, text(1, ""), int(2, 13));
  return Uint8Array.from(Buffer.concat([int(FIELD.irVersion, 8), bytes(FIELD.graph, ...graph), opset]));
}

export const floats = (name: string, dims: readonly number[], values: ArrayLike<number>): Tensor => ({
  name,
  dims,
  values: Float32Array.from(values),
});
