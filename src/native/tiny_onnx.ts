/** Y = Relu(X · W + B) as the bytes of an ONNX model. The protobuf is written by hand, so a self-test needs no file. */
const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
const int = (field: number, value: number) => [...varint(field << 3), ...varint(value)];
const bytes = (field: number, body: ArrayLike<number>) => [
  ...varint((field << 3) | 2),
  ...varint(body.length),
  ...Array.from(body),
];
const text = (field: number, value: string) => bytes(field, new TextEncoder().encode(value));

const FLOAT = 1;
const node = (op: string, inputs: string[], output: string) =>
  bytes(1, [...inputs.flatMap((name) => text(1, name)), ...text(2, output), ...text(4, op)]);
const constant = (name: string, dims: number[], values: number[]) =>
  bytes(5, [
    ...dims.flatMap((d) => int(1, d)),
    ...int(2, FLOAT),
    ...text(8, name),
    ...bytes(9, new Uint8Array(Float32Array.from(values).buffer)),
  ]);
const tensor = (field: number, name: string, dims: number[]) => {
  const shape = dims.flatMap((d) => bytes(1, int(1, d)));
  return bytes(field, [...text(1, name), ...bytes(2, bytes(1, [...int(1, FLOAT), ...bytes(2, shape)]))]);
};

export function tinyOnnx(): Uint8Array {
  const graph = [
    ...node("MatMul", ["X", "W"], "p"),
    ...node("Add", ["p", "B"], "s"),
    ...node("Relu", ["s"], "Y"),
    ...text(2, "self_test"),
    ...constant("W", [2, 3], [1, 0, 2, 0, 1, -4]), // (2, 3)
    ...constant("B", [3], [0.5, -0.5, 1]),
    ...tensor(11, "X", [1, 2]),
    ...tensor(12, "Y", [1, 3]),
  ];
  const opset = bytes(8, [...text(1, ""), ...int(2, 13)]);
  return Uint8Array.from([...int(1, 8), ...bytes(7, graph), ...opset]);
}
