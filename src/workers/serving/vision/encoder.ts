/**
 * The vision encoder as a graph of ggml: patches, transformer, projector. All squares have one size, so the graph is built
 * and planned once. The steps and their order are those of llama.cpp, whose numbers it must give.
 */
import type { Header } from "../../../lib/gguf/parse.ts";
import type { Projector } from "../../../lib/vision/projector.ts";
import { must, type Ptr } from "../../../native/ffi.ts";
import {
  type Backend,
  getFloats,
  newContext,
  newTensor,
  OutOfMemory,
  putBytes,
  TYPE,
} from "../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../native/ggml/symbols.ts";
import { loadVisionWeights, type VisionWeights } from "./weights.ts";

const NODES_PER_LAYER = 64;
const NODES_MORE = 256;
const PREC_F32 = 10; // of enum ggml_prec
const POOL_AVERAGE = 1; // of enum ggml_op_pool

export type Encoder = {
  /** `patches` of one square (squares.ts). Returns its rows, one after the other. */
  encode: (patches: Float32Array) => Float32Array;
  readonly bytes: number;
  free: () => void;
};

export function openEncoder(backend: Backend, path: string, header: Header, of: Projector): Encoder {
  const { ggml } = backend;
  const weights = loadVisionWeights(backend, path, header, of);
  const nodes = of.layers * NODES_PER_LAYER + NODES_MORE;
  const context = newContext(ggml, nodes, nodes);
  const allocator = must(ggml.ggml_gallocr_new(ggml.ggml_backend_get_default_buffer_type(backend.at)), "allocator");
  const free = () => {
    ggml.ggml_gallocr_free(allocator);
    context.free();
    weights.free();
  };
  const patches = (of.imageSize / of.patchSize) ** 2;
  const input = newTensor(ggml, context, TYPE.F32, [of.patchSize ** 2 * 3, patches]);
  ggml.ggml_set_input(input);
  const output = new Layers(backend, context.at, weights, of).build(input, patches);
  ggml.ggml_set_output(output);
  const graph = must(ggml.ggml_new_graph_custom(context.at, nodes, false), "graph");
  ggml.ggml_build_forward_expand(graph, output);
  if (!ggml.ggml_gallocr_alloc_graph(allocator, graph)) {
    free();
    throw new OutOfMemory("The device has not enough memory to read images");
  }
  return {
    encode(values) {
      putBytes(ggml, input, values);
      if (ggml.ggml_backend_graph_compute(backend.at, graph) !== 0)
        throw new Error("The device could not read the image");
      return getFloats(ggml, output);
    },
    bytes: weights.bytes + Number(ggml.ggml_gallocr_get_buffer_size(allocator, 0)),
    free,
  };
}

class Layers {
  readonly #ggml: Backend["ggml"];

  constructor(
    readonly backend: Backend,
    readonly context: Ptr,
    readonly weights: VisionWeights,
    readonly of: Projector,
  ) {
    this.#ggml = backend.ggml;
  }

  build(input: Ptr, patches: number): Ptr {
    const { of, weights, context } = this;
    const ggml = this.#ggml;
    let x = this.#linear("v.patch_embd", input);
    if (of.hasClass) {
      const first = must(ggml.ggml_reshape_2d(context, weights.must("v.class_embd"), of.width, 1), "class");
      x = must(ggml.ggml_concat(context, first, x, 1), "class");
    }
    x = this.#add(x, this.#floats(weights.must("v.position_embd.weight")));
    x = this.#normIfAny("v.pre_ln", x);
    for (let layer = 0; layer < of.layers; layer++) x = this.#layer(`v.blk.${layer}`, x);
    x = this.#normIfAny("v.post_ln", x);
    return this.#project(of.hasClass ? this.#withoutClass(x, patches) : x);
  }

  #layer(name: string, x: Ptr): Ptr {
    const [up, down] = this.of.isSwapped ? ["ffn_down", "ffn_up"] : ["ffn_up", "ffn_down"];
    const attended = this.#add(x, this.#attention(name, this.#norm(`${name}.ln1`, x)));
    const inner = this.#activate(this.#linear(`${name}.${up}`, this.#norm(`${name}.ln2`, attended)));
    return this.#add(attended, this.#linear(`${name}.${down}`, inner));
  }

  #attention(name: string, x: Ptr): Ptr {
    const { of, context } = this;
    const ggml = this.#ggml;
    const [, tokens] = shapeOf(x);
    const head = of.width / of.heads;
    const heads = (part: string) => {
      const shaped = ggml.ggml_reshape_4d(context, this.#linear(`${name}.${part}`, x), head, of.heads, tokens, 1);
      return must(ggml.ggml_permute(context, shaped, 0, 2, 1, 3), part);
    };
    const [q, k, v] = [heads("attn_q"), heads("attn_k"), heads("attn_v")];
    const seen = this.#flash(q, k, v) ?? this.#plain(q, k, v);
    return this.#linear(`${name}.attn_out`, must(ggml.ggml_reshape_2d(context, seen, of.width, tokens), "heads"));
  }

  /** Undefined: the device has no such operation. The plain one needs memory for all pairs of patches. */
  #flash(q: Ptr, k: Ptr, v: Ptr): Ptr | undefined {
    const { context, backend } = this;
    const ggml = this.#ggml;
    const half = (x: Ptr) => ggml.ggml_cast(context, x, TYPE.F16);
    const seen = must(ggml.ggml_flash_attn_ext(context, q, half(k), half(v), null, this.#scale, 0, 0), "attention");
    ggml.ggml_flash_attn_ext_set_prec(seen, PREC_F32);
    return ggml.ggml_backend_supports_op(backend.at, seen) ? seen : undefined;
  }

  #plain(q: Ptr, k: Ptr, v: Ptr): Ptr {
    const { context } = this;
    const ggml = this.#ggml;
    const shares = ggml.ggml_soft_max_ext(context, ggml.ggml_mul_mat(context, k, q), null, this.#scale, 0);
    const across = ggml.ggml_cont(context, ggml.ggml_permute(context, v, 1, 0, 2, 3));
    const seen = ggml.ggml_permute(context, ggml.ggml_mul_mat(context, across, shares), 0, 2, 1, 3);
    return must(ggml.ggml_cont(context, seen), "attention");
  }

  get #scale() {
    return 1 / Math.sqrt(this.of.width / this.of.heads);
  }

  #withoutClass(x: Ptr, patches: number): Ptr {
    const row = this.of.width * 4;
    return must(
      this.#ggml.ggml_cont(this.context, this.#ggml.ggml_view_2d(this.context, x, this.of.width, patches, row, row)),
      "patches",
    );
  }

  #project(x: Ptr): Ptr {
    if (this.of.kind === "mlp") {
      const inner = must(this.#ggml.ggml_gelu(this.context, this.#linear("mm.0", x)), "gelu");
      return this.#linear("mm.2", inner);
    }
    return this.of.kind === "idefics3" ? this.#linear("mm.model.fc", this.#shuffle(x)) : this.#pool(x);
  }

  /** `merge` × `merge` neighbours become one row with the values of all. */
  #shuffle(x: Ptr): Ptr {
    const { context, of } = this;
    const ggml = this.#ggml;
    const side = of.imageSize / of.patchSize;
    const [long, short] = [of.width * of.merge, side / of.merge];
    const rows = ggml.ggml_permute(context, ggml.ggml_reshape_3d(context, x, long, short, side), 0, 2, 1, 3);
    const joined = ggml.ggml_reshape_3d(context, ggml.ggml_cont(context, rows), long * of.merge, short, short);
    const back = ggml.ggml_cont(context, ggml.ggml_permute(context, joined, 0, 2, 1, 3));
    return must(ggml.ggml_reshape_2d(context, back, long * of.merge, of.rows), "shuffle");
  }

  /** The mean of `merge` × `merge` neighbours is one row. */
  #pool(x: Ptr): Ptr {
    const { context, of, weights } = this;
    const ggml = this.#ggml;
    const side = of.imageSize / of.patchSize;
    const turned = ggml.ggml_cont(context, ggml.ggml_transpose(context, x));
    const grid = ggml.ggml_reshape_4d(context, turned, side, side, of.width, 1);
    const k = of.merge;
    const pooled = ggml.ggml_pool_2d(context, grid, POOL_AVERAGE, k, k, k, k, 0, 0);
    const flat = ggml.ggml_reshape_2d(context, pooled, of.rows, of.width);
    const rows = ggml.ggml_cont(context, ggml.ggml_transpose(context, flat));
    const normed = ggml.ggml_rms_norm(context, rows, of.epsilon);
    const scaled = ggml.ggml_mul(context, normed, weights.must("mm.soft_emb_norm.weight"));
    const matrix = ggml.ggml_cont(context, ggml.ggml_transpose(context, weights.must("mm.input_projection.weight")));
    return must(ggml.ggml_mul_mat(context, matrix, scaled), "projection");
  }

  #linear(name: string, x: Ptr): Ptr {
    const product = must(this.#ggml.ggml_mul_mat(this.context, this.weights.must(`${name}.weight`), x), name);
    const bias = this.weights.get(`${name}.bias`);
    return bias === undefined ? product : this.#add(product, bias);
  }

  #norm(name: string, x: Ptr): Ptr {
    const normed = this.#ggml.ggml_norm(this.context, x, this.of.epsilon);
    const scaled = must(this.#ggml.ggml_mul(this.context, normed, this.weights.must(`${name}.weight`)), name);
    const bias = this.weights.get(`${name}.bias`);
    return bias === undefined ? scaled : this.#add(scaled, bias);
  }

  #normIfAny(name: string, x: Ptr): Ptr {
    return this.weights.get(`${name}.weight`) === undefined ? x : this.#norm(name, x);
  }

  #activate(x: Ptr): Ptr {
    const ggml = this.#ggml;
    const by = { gelu: ggml.ggml_gelu, gelu_quick: ggml.ggml_gelu_quick, silu: ggml.ggml_silu }[this.of.activation];
    return must(by(this.context, x), "activation");
  }

  #floats(x: Ptr): Ptr {
    return typeOf(x) === TYPE.F32 ? x : must(this.#ggml.ggml_cast(this.context, x, TYPE.F32), "cast");
  }

  #add(a: Ptr, b: Ptr): Ptr {
    return must(this.#ggml.ggml_add(this.context, a, b), "sum");
  }
}
