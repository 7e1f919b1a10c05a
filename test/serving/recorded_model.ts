/**
 * A model whose weights are a recording: turn N of a conversation always gets answer N, token by token. It is a real file,
 * so the whole path of a request is the real one. Attention and feed-forward are zero. The template ends the prompt with a
 * token for the turn, and the output layer names the one token that follows each token of the recording.
 */
import { join } from "node:path";
import { bool, f32, type GgufTensor, type GgufValue, i32s, str, strings, u32, writeGguf } from "../gguf_writer.ts";
import { tokenizerJson } from "../hugging_face.ts";
import { CHATML } from "../models.ts";
import { inOrder } from "../tokenizers.ts";

const [NORMAL, CONTROL, USER_DEFINED] = [1, 3, 4];
const END = "<|im_end|>";
const SPECIALS = ["<|endoftext|>", "<|im_start|>", END];
/** Letters in a token of the recording: short, so that tags and arguments come in several. */
export const PIECE = 12;
const HEAD = 32;
/** Far more than any temperature evens out. */
const LOUD = 20;

const turn = (n: number) => `<|turn_${n}|>`;
const START = '{{ "<|im_start|>assistant\\n" }}{% endif %}';
const TEMPLATE = CHATML.slice(0, -START.length).concat(
  '{{ "<|im_start|>assistant\\n<|turn_" ~ (messages | selectattr("role", "equalto", "assistant") | list | length) ~ "|>" }}{% endif %}',
);

/** Writes the model into `dir` and returns its path. `answers`: one for each turn; no two may share a piece of text. */
export function recordedModel(dir: string, answers: readonly string[], context = 32_768): string {
  if (!CHATML.endsWith(START)) throw new Error("CHATML does not end with the start of an answer");
  const letters = inOrder(tokenizerJson().model.vocab).slice(0, 256);
  const used = new Set(letters);
  const spoken = answers.map((answer) => piecesOf(answer, used));
  const control = [...answers.map((_, n) => turn(n)), ...SPECIALS];
  const tokens = [...letters, ...spoken.flat(), ...control];
  const types = [...letters.map(() => NORMAL), ...spoken.flat().map(() => USER_DEFINED), ...control.map(() => CONTROL)];
  const follows = spoken.flatMap((pieces, n) => {
    const chain = [turn(n), ...pieces, END];
    return chain.slice(1).map((next, i) => ({ after: chain[i] as string, next }));
  });
  const path = join(dir, "recorded.gguf");
  const width = Math.ceil((follows.length + 1) / HEAD) * HEAD;
  writeGguf(path, metadata(tokens, types, { width, context }), weights(tokens, follows, width));
  return path;
}

/** Cuts a text into pieces that occur only once in the whole recording, because a token has one successor. */
function piecesOf(text: string, used: Set<string>): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += pieces.at(-1)?.length ?? 0) {
    let length = PIECE;
    while (used.has(text.slice(at, at + length)) && at + length < text.length) length++;
    const piece = text.slice(at, at + length);
    if (used.has(piece)) throw new Error(`The recording has two answers that end with "${piece}": change one.`);
    used.add(piece);
    pieces.push(piece);
  }
  return pieces;
}

/** Direction 0 of the residual stream is every token outside the recording: after it the answer ends. */
function weights(tokens: string[], follows: { after: string; next: string }[], width: number): GgufTensor[] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const at = (token: string) => (ids.get(token) ?? 0) * width;
  const embedding = new Float32Array(tokens.length * width);
  const output = new Float32Array(tokens.length * width);
  const direction = new Map(follows.map(({ after }, i) => [after, i + 1]));
  for (const token of tokens) embedding[at(token) + (direction.get(token) ?? 0)] = 1;
  for (const [i, { next }] of follows.entries()) output[at(next) + i + 1] = LOUD;
  output[at(END)] = LOUD;
  const matrix = (name: string, inputs: number, outputs: number, values = new Float32Array(inputs * outputs)) =>
    ({ name: `${name}.weight`, shape: [inputs, outputs], type: "F32", values }) as const;
  const ones = (name: string): GgufTensor => ({
    name: `${name}.weight`,
    shape: [width],
    type: "F32",
    values: new Float32Array(width).fill(1),
  });
  return [
    matrix("token_embd", width, tokens.length, embedding),
    ones("output_norm"),
    matrix("output", width, tokens.length, output),
    ...["attn_norm", "ffn_norm"].map((name) => ones(`blk.0.${name}`)),
    ...["attn_q", "attn_k", "attn_v"].map((name) => matrix(`blk.0.${name}`, width, HEAD)),
    matrix("blk.0.attn_output", HEAD, width),
    ...["ffn_gate", "ffn_up"].map((name) => matrix(`blk.0.${name}`, width, HEAD)),
    matrix("blk.0.ffn_down", HEAD, width),
  ];
}

type Size = { width: number; context: number };
const metadata = (tokens: string[], types: number[], { width, context }: Size): Record<string, GgufValue> => ({
  "general.architecture": str("llama"),
  "general.name": str("recorded"),
  "general.file_type": u32(0),
  "llama.context_length": u32(context),
  "llama.embedding_length": u32(width),
  "llama.block_count": u32(1),
  "llama.feed_forward_length": u32(HEAD),
  "llama.attention.head_count": u32(1),
  "llama.attention.head_count_kv": u32(1),
  "llama.attention.key_length": u32(HEAD),
  "llama.attention.value_length": u32(HEAD),
  "llama.attention.layer_norm_rms_epsilon": f32(1e-6),
  "llama.rope.dimension_count": u32(HEAD),
  "llama.rope.freq_base": f32(10_000),
  "llama.vocab_size": u32(tokens.length),
  "tokenizer.ggml.model": str("gpt2"),
  "tokenizer.ggml.pre": str("gpt-2"),
  "tokenizer.ggml.tokens": strings(tokens),
  "tokenizer.ggml.token_type": i32s(types),
  "tokenizer.ggml.merges": strings([]),
  "tokenizer.ggml.bos_token_id": u32(tokens.indexOf("<|endoftext|>")),
  "tokenizer.ggml.eos_token_id": u32(tokens.indexOf(END)),
  "tokenizer.ggml.add_bos_token": bool(false),
  "tokenizer.chat_template": str(TEMPLATE),
});
