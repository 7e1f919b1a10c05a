/**
 * The last layer of a detector inside its ONNX file: one row of weights and a bias that turn features into a logit. Its
 * numbers are changed in place, so an adapted model costs nothing more when it scores.
 */
import { type Field, fieldsOf } from "../../checkpoints/protobuf.ts";

export type Head = {
  /** Name of the tensor with the features: the input of the last layer. */
  features: string;
  /** Float32 numbers of the file, as views into its bytes. */
  weight: Uint8Array;
  bias: Uint8Array;
};
/** Amounts that are added to the weights and the bias. */
export type HeadChange = { weight: Float32Array; bias: number };

type Node = { op: string; inputs: string[]; outputs: string[]; attributes: Map<string, number> };
type Tensor = { name: string; raw: Uint8Array };

const MODEL = { graph: 7 } as const;
const GRAPH = { node: 1, initializer: 5, output: 12 } as const;
const LOGITS = "logits";
/** Operations between the last layer and the output that move numbers and do not change them. */
const SHAPE_ONLY: readonly string[] = ["Gather", "Squeeze", "Reshape", "Flatten", "Identity"];
const FLOAT_BYTES = 4;

/** Undefined: the model ends in another way, so only its calibration can be adapted. */
export function findHead(onnx: Uint8Array): Head | undefined {
  const { nodes, tensors } = readGraph(onnx);
  const makerOf = (name: string | undefined) => nodes.find(({ outputs }) => name !== undefined && outputs[0] === name);
  let last = makerOf(LOGITS);
  while (last && SHAPE_ONLY.includes(last.op)) last = makerOf(last.inputs[0]);
  if (last?.op !== "Gemm" || [...last.attributes].some(([name, value]) => name !== "transB" && value !== 1))
    return undefined;
  const [features, weightName, biasName] = last.inputs;
  const rawOf = (name: string | undefined) => tensors.find((tensor) => tensor.name === name)?.raw;
  const [weight, bias] = [rawOf(weightName), rawOf(biasName)];
  if (!features || !weight || bias?.byteLength !== FLOAT_BYTES) return undefined;
  return { features, weight, bias };
}

/** A copy of the file with a changed last layer. */
export function withHead(onnx: Uint8Array, change: HeadChange): Uint8Array<ArrayBuffer> {
  const copy = Uint8Array.from(onnx);
  const head = findHead(copy);
  if (head?.weight.byteLength !== change.weight.byteLength)
    throw new Error(`The adaptation has ${change.weight.length} weights, but the model does not`);
  for (const [i, amount] of change.weight.entries()) add(head.weight, i, amount);
  add(head.bias, 0, change.bias);
  return copy;
}

function add(raw: Uint8Array, index: number, amount: number) {
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  view.setFloat32(index * FLOAT_BYTES, view.getFloat32(index * FLOAT_BYTES, true) + amount, true);
}

/** A copy of the file that also returns this tensor. A second part of a protobuf message is merged with the first. */
export function withOutput(onnx: Uint8Array, name: string): Uint8Array<ArrayBuffer> {
  const port = message(GRAPH.output, message(1, new TextEncoder().encode(name)));
  const more = message(MODEL.graph, port);
  const longer = new Uint8Array(onnx.length + more.length);
  longer.set(onnx);
  longer.set(more, onnx.length);
  return longer;
}

const varint = (n: number): number[] => (n < 128 ? [n] : [(n % 128) + 128, ...varint(Math.floor(n / 128))]);
const message = (field: number, body: Uint8Array) =>
  Uint8Array.from([...varint(field * 8 + 2), ...varint(body.length), ...body]);

const damaged = (why: string) => new Error(`The model is not an ONNX file, or it is damaged: ${why}`);
const partsOf = (bytes: Uint8Array) => [...fieldsOf(bytes, damaged)];
const text = ({ value }: Field) => (typeof value === "number" ? "" : new TextDecoder().decode(value));

function readGraph(onnx: Uint8Array): { nodes: Node[]; tensors: Tensor[] } {
  const graph = partsOf(onnx).find(({ number }) => number === MODEL.graph)?.value;
  if (!(graph instanceof Uint8Array)) throw damaged("it has no graph");
  const parts = partsOf(graph);
  const messages = (field: number) =>
    parts.flatMap(({ number, value }) => (number === field && value instanceof Uint8Array ? [value] : []));
  return { nodes: messages(GRAPH.node).map(readNode), tensors: messages(GRAPH.initializer).map(readTensor) };
}

function readNode(bytes: Uint8Array): Node {
  const node: Node = { op: "", inputs: [], outputs: [], attributes: new Map() };
  for (const field of partsOf(bytes)) {
    if (field.number === 1) node.inputs.push(text(field));
    if (field.number === 2) node.outputs.push(text(field));
    if (field.number === 4) node.op = text(field);
    if (field.number === 5 && field.value instanceof Uint8Array) node.attributes.set(...readAttribute(field.value));
  }
  return node;
}

function readAttribute(bytes: Uint8Array): [name: string, value: number] {
  let [name, attribute] = ["", Number.NaN];
  for (const field of partsOf(bytes)) {
    const { number, value } = field;
    if (number === 1) name = text(field);
    if (number === 2 && value instanceof Uint8Array)
      attribute = new DataView(value.buffer, value.byteOffset).getFloat32(0, true);
    if (number === 3 && typeof value === "number") attribute = value;
  }
  return [name, attribute];
}

function readTensor(bytes: Uint8Array): Tensor {
  const tensor: Tensor = { name: "", raw: new Uint8Array() };
  for (const field of partsOf(bytes)) {
    if (field.number === 8) tensor.name = text(field);
    if (field.number === 9 && field.value instanceof Uint8Array) tensor.raw = field.value;
  }
  return tensor;
}
