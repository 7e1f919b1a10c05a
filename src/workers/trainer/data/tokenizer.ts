/** A model's vocabulary and chat template, without its weights. */

import { cstr, text } from "../../../native/ffi.ts";
import { loadModel } from "../../../native/llama/load.ts";
import { openLlama } from "../../../native/llama/symbols.ts";
import { Vocab } from "../../serving/engine/vocab.ts";

export type Tokenizer = {
  readonly facts: {
    bosToken: string;
    eosToken: string;
    addsBos: boolean;
    chatTemplate: string | null;
    toolTemplate: string | null;
    vocabSize: number;
    /** The context length of the model's training. */
    contextLength: number;
  };
  tokenize: (text: string, options: { addBos: boolean; special: boolean }) => Int32Array;
  detokenize: (tokens: Int32Array) => string;
  /** The same with the names of control tokens, which `detokenize` leaves out. */
  spell: (tokens: Int32Array) => string;
  /** True for tokens that end an answer. */
  isEnd: (token: number) => boolean;
  close: () => void;
};

/** `cuda`: true if this process uses a GPU elsewhere. A process can load only one set of libraries. */
export function openTokenizer(dataDir: string, modelPath: string, cuda: boolean): Tokenizer {
  const llama = openLlama(dataDir, { cuda });
  const model = loadModel(llama, { path: modelPath, devices: [], repack: false, vocabOnly: true });
  const vocab = new Vocab(llama, model);
  const meta = (key: string) => {
    const room = Buffer.alloc(256);
    const length = llama.llama_model_meta_val_str(model, cstr(key), room, room.length);
    return room.toString("utf8", 0, Math.max(0, length));
  };
  const template = (name: string | null) =>
    text(llama.llama_model_chat_template(model, name === null ? null : cstr(name))) || null;
  return {
    facts: {
      bosToken: vocab.bosToken,
      eosToken: vocab.eosToken,
      addsBos: vocab.addsBos,
      chatTemplate: template(null),
      toolTemplate: template("tool_use"),
      vocabSize: vocab.size,
      contextLength: Number(meta(`${meta("general.architecture")}.context_length`)),
    },
    tokenize: (source, options) => vocab.tokenize(source, options),
    detokenize: (tokens) => vocab.detokenize(tokens),
    spell: (tokens) => vocab.spell(tokens),
    isEnd: (token) => llama.llama_vocab_is_eog(vocab.address, token),
    close: () => void llama.llama_model_free(model),
  };
}
