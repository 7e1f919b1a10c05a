"""Makes an exported network compute in bytes, which costs a third: static quantization, written as QuantizeLinear and DequantizeLinear.

Activations are uint8 with one scale a tensor. Weights are int8 with a scale a channel, sums int32. ONNX Runtime fuses such pairs
into layers of whole numbers. Float stay the spectrum with its logarithm, the statistics and the last layer.
"""
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# A processor with AVX2 and without VNNI adds two products in 16 bits, where these do not fit. The product therefore opens its sessions
# with session.x64quantprecision, for which the runtime stores weights there as uint8 and multiplies exactly.
TOP = 127
CARRIERS = ("Relu", "Clip", "Add", "Concat", "AveragePool", "MaxPool")
BATCH = 8


def folded(path):
    """The model with its constants computed, so that every filter is an initialiser."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = path
    onnxruntime.InferenceSession(path, options)
    model = onnx.load(path)
    for each in [o for o in model.opset_import if o.domain]:
        model.opset_import.remove(each)
    for node in model.graph.node:  # the product knows the last layer by its attributes, and the runtime adds those that say nothing
        if node.op_type == "Gemm":
            node.attribute.remove(next(a for a in node.attribute if a.name == "transA"))
    del model.graph.value_info[:]
    return model


def outputs(model, names, pixels):
    """Yields the tensors of these names for each batch of pixels."""
    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    known = {o.name for o in model.graph.output}
    wider.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n not in known)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(wider.SerializeToString(), options)
    for at in range(0, len(pixels), BATCH):
        yield session.run(list(names), {"pixels": pixels[at : at + BATCH]})


class Graph:
    def __init__(self, graph):
        self.graph, self.nodes = graph, list(graph.node)
        self.values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.maker = {o: n for n in self.nodes for o in n.output}
        self.inside = self.computed_in_bytes()

    def users(self, tensor):
        return [n for n in self.nodes if tensor in n.input]

    def computed_in_bytes(self):
        """Names of the learned filters, and of what lies between them. The spectrum's filters go into Abs, so they are not among them."""
        names = {n.name for n in self.nodes if n.op_type == "Conv" and all(u.op_type in CARRIERS for u in self.users(n.output[0]))}
        for n in self.nodes:  # in the order of computation
            if n.op_type in CARRIERS and all(i in self.values or i in self.maker and self.maker[i].name in names for i in n.input):
                names.add(n.name)
        return names

    def is_high_pass(self, node):
        return node.op_type == "Conv" and any(u.op_type == "Clip" for u in self.users(node.output[0]))

    def held(self):
        """Tensors that are stored as bytes. What only goes into a Relu or Clip is not: the range of the bytes does the clipping."""
        mine = [n for n in self.nodes if n.name in self.inside]
        ends = dict.fromkeys(t for n in mine for t in (*(n.input[:1] if n.op_type in ("Conv", "Clip") else n.input), n.output[0]))
        return [t for t in ends if not (t in self.maker and self.maker[t].name in self.inside
                                        and all(u.op_type in ("Relu", "Clip") for u in self.users(t)))]

    def scales(self, model, pixels):
        """{tensor: (scale, zero point)} from the smallest and largest values that these pixels give."""
        names = self.held()
        low, high = np.zeros(len(names)), np.full(len(names), 1e-6)
        for batch in outputs(model, names, pixels):
            low, high = np.minimum(low, [t.min() for t in batch]), np.maximum(high, [t.max() for t in batch])
        steps = (high - low) / 255
        out = {n: (np.float32(s), np.uint8(round(-l / s))) for n, s, l in zip(names, steps, low)}
        for node in self.nodes:
            if self.is_high_pass(node):  # pixels are bytes already
                out[node.input[0]] = (np.float32(1), np.uint8(128))
            if node.op_type == "Clip" and node.name in self.inside:  # all bytes lie within ±1, so that the Clip can go
                out[node.output[0]] = (np.float32(1 / 128), np.uint8(128))
            if node.op_type == "MaxPool" and node.name in self.inside:  # chooses among bytes
                out[node.output[0]] = out[node.input[0]]
        return out


def rounded(weights, least):
    """(scales, whole numbers) of each channel. Scales are not below `least`."""
    scales = np.maximum(np.abs(weights).max((1, 2, 3)) / TOP, least).astype(np.float32)
    return scales, np.round(weights / scales[:, None, None, None])


def balanced(weights):
    """As `rounded`, and every colour's weights still sum to zero: those that were rounded furthest are rounded the other way."""
    scales = (np.abs(weights).max((1, 2, 3)) / (TOP - 1)).astype(np.float32)
    exact = (weights / scales[:, None, None, None]).reshape(-1, weights[0, 0].size)
    whole = np.round(exact)
    for row, goal in zip(whole, exact):
        over = int(row.sum())
        row[np.argsort(np.sign(over) * (goal - row), kind="stable")[: abs(over)]] -= np.sign(over)
    return scales, whole.reshape(weights.shape)


def converted(model, pixels):
    """Changes the model so that it computes in bytes."""
    graph = Graph(model.graph)
    scales = graph.scales(model, pixels)
    nodes, stored = [], {}

    def dequantized(name, scale, zero):
        stored.update({f"{name}_scale": scale, f"{name}_zero": zero})
        axis = {"axis": 0} if np.ndim(scale) else {}
        return helper.make_node("DequantizeLinear", [f"{name}_{part}" for part in ("bytes", "scale", "zero")], [f"{name}_read"], **axis)

    for node in graph.nodes:
        if node.name in graph.inside and node.op_type == "Conv":
            weight, *bias = (graph.values.pop(i) for i in node.input[1:])
            step = scales[node.input[0]][0]
            # A channel of no weights has a bias that must fit into 32 bits nevertheless.
            least = max(np.abs(bias[0]).max() / step / 2**30, 1e-12) if bias else 1e-12
            scale, whole = balanced(weight) if graph.is_high_pass(node) else rounded(weight, least)
            parts = [(node.input[1], whole.astype(np.int8), scale)]
            if bias:
                parts.append((node.input[2], np.round(bias[0] / (scale * step)).astype(np.int32), scale * step))
            stored.update({f"{name}_bytes": each for name, each, _ in parts})
            nodes += [dequantized(name, by, np.zeros(len(by), each.dtype)) for name, each, by in parts]
            node.input[1:] = [f"{name}_read" for name, *_ in parts]
        for i, name in enumerate(node.input):
            if name in scales:
                node.input[i] = f"{name}_read"
        nodes.append(node)
        for name in node.output:
            if name in scales:
                nodes.append(helper.make_node("QuantizeLinear", [name, f"{name}_scale", f"{name}_zero"], [f"{name}_bytes"]))
                nodes.append(dequantized(name, *(np.array(each) for each in scales[name])))
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in {**graph.values, **stored}.items())


def logits(model, pixels):
    return np.concatenate([batch[0] for batch in outputs(model, ["logits"], pixels)])


def in_whole_numbers(path, pixels):
    """Rewrites the file. The last layer's bias makes up for the mean difference. Returns the differences that are left."""
    model = folded(path)
    expected = logits(model, pixels)
    converted(model, pixels)
    last = [n for n in model.graph.node if n.op_type == "Gemm"][-1].input[2]
    bias = next(t for t in model.graph.initializer if t.name == last)
    off = logits(model, pixels) - expected
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) - off.mean(), last))
    model.doc_string, model.producer_name = "", "verk"
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return off - off.mean()
