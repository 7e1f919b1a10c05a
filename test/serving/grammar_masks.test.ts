/** The kept masks of a grammar's states against the library, which is asked anew for every token. */
import { afterAll, expect, test } from "bun:test";
import { must, type Ptr } from "../../src/native/ffi.ts";
import { loadModel } from "../../src/native/llama/load.ts";
import { openLlama } from "../../src/native/llama/symbols.ts";
import { TokenKinds } from "../../src/workers/serving/engine/kinds.ts";
import { Grammars } from "../../src/workers/serving/engine/sampling/grammar.ts";
import { Candidates, openGrammar, type SamplerNative } from "../../src/workers/serving/engine/sampling/sampler.ts";
import { Vocab } from "../../src/workers/serving/engine/vocab.ts";
import { schemaGrammar } from "../../src/workers/serving/grammar/schema.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { randomFor } from "../sweep.ts";
import { parseGbnf, sentence } from "./gbnf.ts";
import { randomSchema } from "./random_schema.ts";

const llama = openLlama(tempDir(), { cuda: false });
const extraVocab = ["é漢", '{"', '":', '","', "true", "[[", "]]", "1234", '"a"'];
const path = makeModel(tempDir(), { arch: "llama", type: "F16", extraVocab });
const model = loadModel(llama, { path, devices: [], repack: false, vocabOnly: true });
const vocabulary = new Vocab(llama, model);
const vocab = must(vocabulary.address, "vocab");
const native: SamplerNative = {
  llama,
  vocab,
  vocabSize: vocabulary.size,
  contextLength: 512,
  kinds: new TokenKinds(llama, vocab),
};
const candidates = new Candidates(native.vocabSize);
const grammars = new Grammars(native, candidates);
afterAll(() => {
  grammars.free();
  llama.llama_model_free(model);
});

const freshMask = (grammar: Ptr) => candidates.mask(llama, { grammar, kinds: native.kinds });

/** Walks a text through the grammar and compares the masks at each token. Returns the number of tokens. */
function compare(grammar: string, text: string): number {
  const kept = grammars.open(grammar);
  const fresh = openGrammar(llama, vocab, grammar);
  const tokens = vocabulary.tokenize(text, { addBos: false, special: false });
  try {
    for (const token of tokens) {
      expect(kept.allows(token)).toBe(true);
      const mask = freshMask(fresh);
      expect(Buffer.from(kept.mask().buffer).equals(Buffer.from(mask.buffer))).toBe(true);
      const refused = mask.findIndex((word) => word !== 0xffffffff) * 32;
      const bit = (token: number) => (mask[token >> 5]! & (1 << (token & 31))) !== 0;
      expect(kept.allows(refused + 3)).toBe(bit(refused + 3));
      kept.accept(token);
      llama.llama_sampler_accept(fresh, token);
    }
    expect(Buffer.from(kept.mask().buffer).equals(Buffer.from(freshMask(fresh).buffer))).toBe(true);
  } finally {
    kept.free();
    llama.llama_sampler_free(fresh);
  }
  return tokens.length;
}

test("masks that are kept for a state are those of the library, for random schemas and texts", () => {
  const random = randomFor("grammar masks");
  let compared = 0;
  for (let i = 0; i < 25; i++) {
    const grammar = schemaGrammar(
      randomSchema(() => random()),
      "",
    );
    const rules = parseGbnf(grammar);
    const words = () => [...sentence(rules, () => random(), 6)].slice(0, 120).join(""); // no half of a character
    for (let k = 0; k < 4; k++) compared += compare(grammar, words());
  }
  expect(compared).toBeGreaterThan(200);
}, 120_000);

test("the library is asked once for each state", () => {
  const grammar = schemaGrammar({ type: "object", properties: { name: { type: "string" } }, required: ["name"] }, "");
  let requests = 0;
  const count = new Candidates(native.vocabSize);
  const mask = count.mask.bind(count);
  count.mask = (...args) => {
    requests++;
    return mask(...args);
  };
  const counted = new Grammars(native, count);
  const run = (text: string) => {
    const state = counted.open(grammar);
    for (const token of vocabulary.tokenize(text, { addBos: false, special: false })) {
      state.mask();
      state.accept(token);
    }
    state.free();
  };
  run('{"name": "a short one"}');
  const first = requests;
  run('{"name": "another one, which has more words than the first"}');
  expect(first).toBeGreaterThan(3);
  expect(requests - first).toBeLessThan(3);
  counted.free();
});

test("text that must follow is guessed whole, and other guesses end where the grammar does not allow them", () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string" }, kind: { enum: ["person"] } },
    required: ["name", "kind"],
  };
  const tokenize = (text: string) => vocabulary.tokenize(text, { addBos: false, special: false });
  const state = grammars.open(schemaGrammar(schema, ""));
  const none = new Int32Array(0);
  expect(vocabulary.detokenize(state.guess(none, 99))).toBe('{"name": "');
  expect(state.guess(none, 3)).toEqual(tokenize('{"name": "').subarray(0, 3));
  const take = (text: string) => {
    for (const token of tokenize(text)) state.accept(token);
  };
  take('{"name": "');
  const others = tokenize('Ada", "age": 7');
  const guessed = vocabulary.detokenize(state.guess(others, 99));
  expect(guessed).toBe('Ada", "'); // the schema has no property of that name
  take('Ada",');
  expect(vocabulary.detokenize(state.guess(none, 99))).toBe(' "kind": "person"}');
  take(' "kind": "person"}');
  expect(state.guess(others, 99)).toHaveLength(0);
  state.free();
});

test("a grammar that is not written by this program is read by the library alone", () => {
  expect(compare('root ::= "a" b # a note\nb ::= [xy]+', "axyx")).toBe(4);
});
