import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { tempDir } from "../../../../test/harness.ts";
import { makeModel } from "../../../../test/models.ts";
import { rowsFile } from "../../../../test/trainer_kit.ts";
import type { Row } from "../../../lib/rows/format.ts";
import { openRows } from "../../../platform/rows/file.ts";
import { mismatched } from "../loop/kto.ts";
import { createEncoder } from "./encode.ts";
import { openAnswers, openPairs, openPrompts, openSequences, type Sequence } from "./examples.ts";
import { openRowSource, type RowSource } from "./rows.ts";
import { openTokenizer, type Tokenizer } from "./tokenizer.ts";

const dir = tempDir();
const chat = openTokenizer(dir, makeModel(dir, { arch: "llama", type: "F32" }), false);
const bare = openTokenizer(dir, makeModel(dir, { arch: "llama", type: "F32", template: null }), false);
const rewriting = openTokenizer(
  dir,
  makeModel(dir, {
    arch: "llama",
    type: "F32",
    template:
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}thought {% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
  }),
  false,
);
const thinking = openTokenizer(
  dir,
  makeModel(dir, {
    arch: "llama",
    type: "F32",
    template:
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}",
  }),
  false,
);
afterAll(() => {
  for (const each of [chat, bare, rewriting, thinking]) each.close();
  rmSync(dir, { recursive: true, force: true });
});

type Tokens = ArrayLike<number>;
const source = async (rows: readonly Row[]): Promise<RowSource> => openRowSource(await rowsFile(dir, rows), () => {});
const ids = (text: string) => [...chat.tokenize(text, { addBos: false, special: true })];
const CHAT = (text: string) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
const counted = ({ tokens, from, mask }: Sequence) => [...tokens.subarray(from)].filter((_, i) => mask[i]);
const SCOPE = { completionOnly: true, assistantOnly: false, maxLength: 512, packing: false };
const spell = (tokens: Tokens) => Array.from(tokens);

describe("prompts", () => {
  test("a text is one message of the user, as serving renders it; messages stay as they are", async () => {
    const rows = await source([{ prompt: "hello" }, { prompt: [{ role: "user", content: "hello" }], answer: 7 }]);
    const prompts = await openPrompts(rows, createEncoder(chat), { contextLength: 512, least: 10 });
    expect(spell(prompts.get(0).tokens)).toEqual(ids(CHAT("hello")));
    expect(spell(prompts.get(1).tokens)).toEqual(ids(CHAT("hello")));
    expect(prompts.get(1).row).toBe('{"prompt":[{"role":"user","content":"hello"}],"answer":7}');
    expect(prompts.longest).toBe(ids(CHAT("hello")).length);
  });

  test("variables of the chat template are those of the job", async () => {
    const opened = async (variables?: object) => {
      const rows = await source([{ prompt: "hello" }]);
      const prompts = await openPrompts(rows, createEncoder(thinking, { ...variables }), {
        contextLength: 512,
        least: 10,
      });
      return spell(prompts.get(0).tokens);
    };
    expect(await opened()).toEqual(ids(CHAT("hello")));
    expect(await opened({ enable_thinking: true })).toEqual(ids(CHAT("hello")));
    expect(await opened({ enable_thinking: false })).toEqual(ids(`${CHAT("hello")}<think></think>`));
  });

  test("a model without a template reads a text as it is", async () => {
    const prompts = await openPrompts(await source([{ prompt: "hello" }]), createEncoder(bare), {
      contextLength: 512,
      least: 1,
    });
    expect(spell(prompts.get(0).tokens)).toEqual(ids("hello"));
  });

  test("text that a user typed is never a control token", async () => {
    const prompts = await openPrompts(await source([{ prompt: "a<|im_end|>b" }]), createEncoder(chat), {
      contextLength: 512,
      least: 1,
    });
    const end = ids("<|im_end|>")[0]!;
    expect(spell(prompts.get(0).tokens).filter((token) => token === end)).toHaveLength(1);
  });

  test("prompts without room for an answer are left out; if none is left, the error names the fix", async () => {
    const rows = await source([{ prompt: "x ".repeat(300) }, { prompt: "b" }]);
    const prompts = await openPrompts(rows, createEncoder(chat), { contextLength: 200, least: 50 });
    expect([prompts.count, prompts.leftOut]).toEqual([1, 1]);
    expect(prompts.get(0).prompt).toBe("b");
    const none = openPrompts(rows, createEncoder(chat), { contextLength: 50, least: 50 });
    await expect(none).rejects.toMatchObject({
      kind: "bad_rows",
      message: expect.stringContaining("max_completion_length"),
    });
  });

  test("a conversation becomes a prompt without its answer", async () => {
    const messages = [
      { role: "user", content: "hello" },
      { role: "assistant", content: "yes" },
    ];
    const prompts = await openPrompts(await source([{ messages }]), createEncoder(chat), {
      contextLength: 512,
      least: 1,
    });
    expect(spell(prompts.get(0).tokens)).toEqual(ids(CHAT("hello")));
  });
});

describe("sequences", () => {
  test("only the completion and its end count; nothing follows the end", async () => {
    const rows = await source([{ prompt: "hello", completion: "the" }]);
    const [one] = (await openSequences(rows, createEncoder(chat), SCOPE)).get(0);
    expect(spell(one!.tokens)).toEqual(ids(`${CHAT("hello")}the<|im_end|>`));
    expect(counted(one!)).toEqual(ids("the<|im_end|>"));
    const all = (await openSequences(rows, createEncoder(chat), { ...SCOPE, completionOnly: false })).get(0)[0]!;
    expect(all.from).toBe(1);
    expect(all.mask.every((each) => each === 1)).toBe(true);
  });

  test("a model without a template learns the completion and the end token", async () => {
    const rows = await source([{ prompt: "hello", completion: " the" }]);
    const [one] = (await openSequences(rows, createEncoder(bare), SCOPE)).get(0);
    expect(spell(one!.tokens)).toEqual(ids("hello the<|im_end|>"));
    expect(counted(one!)).toEqual(ids(" the<|im_end|>"));
  });

  test("text that a user typed in an answer is learned as typed", async () => {
    const rows = await source([{ prompt: "a<|im_end|>", completion: "b<|im_end|>c" }]);
    const [one] = (await openSequences(rows, createEncoder(chat), SCOPE)).get(0);
    const typed = chat.tokenize("<|im_end|>", { addBos: false, special: false });
    expect(counted(one!)).toEqual([...ids("b"), ...typed, ...ids("c<|im_end|>")]);
  });

  test("a begin token appears only at the beginning", async () => {
    const [bos] = ids("<|endoftext|>");
    const adding: Tokenizer = {
      ...chat,
      facts: { ...chat.facts, addsBos: true },
      tokenize: (text, options) =>
        Int32Array.from([...(options.addBos ? [bos!] : []), ...chat.tokenize(text, { ...options, addBos: false })]),
    };
    const rows = await source([{ prompt: "hello", completion: "the" }]);
    const [one] = (await openSequences(rows, createEncoder(adding), SCOPE)).get(0);
    expect(spell(one!.tokens)).toEqual([bos!, ...ids(`${CHAT("hello")}the<|im_end|>`)]);
  });

  const messages = [
    { role: "system", content: "be" },
    { role: "user", content: "hello" },
    { role: "assistant", content: "the" },
    { role: "user", content: "and" },
    { role: "assistant", content: "in" },
  ];

  test("in a conversation the assistant's turns count, or all turns", async () => {
    const rows = await source([{ messages }]);
    const scope = { ...SCOPE, completionOnly: false };
    const [turns] = (await openSequences(rows, createEncoder(chat), { ...scope, assistantOnly: true })).get(0);
    expect(counted(turns!)).toEqual(ids("the<|im_end|>\nin<|im_end|>"));
    const [all] = (await openSequences(rows, createEncoder(chat), scope)).get(0);
    const whole = ids(
      "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\nthe<|im_end|>\n<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\nin<|im_end|>",
    );
    expect(spell(all!.tokens)).toEqual(whole);
    expect(counted(all!)).toEqual(whole.slice(1));
  });

  test("if a template writes the last turn differently, the answer's text is searched in the result", async () => {
    const rows = await source([{ messages }]);
    const scope = { ...SCOPE, assistantOnly: true };
    const [turns] = (await openSequences(rows, createEncoder(rewriting), scope)).get(0);
    expect(counted(turns!)).toEqual([...ids("the<|im_end|>"), ...ids("in<|im_end|>")]);
  });

  test("…together with the end of its turn, for any end token of the model", async () => {
    const rows = await source([{ messages }]);
    const tokenizer = { ...rewriting, facts: { ...rewriting.facts, eosToken: "<|endoftext|>" } };
    const [turns] = (await openSequences(rows, createEncoder(tokenizer), { ...SCOPE, assistantOnly: true })).get(0);
    expect(counted(turns!)).toEqual([...ids("the<|im_end|>"), ...ids("in<|im_end|>")]);
  });

  test("…and found in the answer, not in the question that repeats it", async () => {
    const conversation = messages.map((each) =>
      each.role === "assistant" ? each : { ...each, content: "the or in?" },
    );
    const rows = await source([{ messages: conversation }]);
    const [turns] = (await openSequences(rows, createEncoder(rewriting), { ...SCOPE, assistantOnly: true })).get(0);
    expect(counted(turns!)).toEqual([...ids("the<|im_end|>"), ...ids("in<|im_end|>")]);
    const question = ids("the or in?").join();
    expect(spell(turns!.tokens).slice(0, turns!.from).join()).toContain(question);
  });

  test("tokens beyond max_length are cut, and a row without remaining tokens is left out", async () => {
    const rows = await source([
      { prompt: "hello", completion: "x".repeat(100) },
      { prompt: "y".repeat(100), completion: "z" },
    ]);
    const cut = await openSequences(rows, createEncoder(chat), { ...SCOPE, maxLength: 40 });
    expect([cut.count, cut.leftOut, cut.longest]).toEqual([1, 1, 40]);
    expect(cut.get(0)[0]!.tokens).toHaveLength(40);
    const none = openSequences(rows, createEncoder(chat), { ...SCOPE, maxLength: 2 });
    await expect(none).rejects.toMatchObject({ kind: "bad_rows", message: expect.stringContaining("max_length") });
  });

  test("packed, every sequence is in exactly one example, and none is longer than max_length", async () => {
    const rows = await source(Array.from({ length: 30 }, (_, i) => ({ prompt: "p", completion: "q".repeat(1 + i) })));
    const packed = await openSequences(rows, createEncoder(chat), { ...SCOPE, maxLength: 100, packing: true });
    const all = Array.from({ length: packed.count }, (_, i) => packed.get(i));
    expect(
      all
        .flat()
        .map((each) => counted(each).length)
        .sort((a, b) => a - b),
    ).toEqual(Array.from({ length: 30 }, (_, i) => i + 2));
    const most = Math.max(...all.map((example) => example.reduce((sum, { tokens }) => sum + tokens.length, 0)));
    expect(most).toBeLessThanOrEqual(100);
    expect(packed.count).toBeLessThan(15);
  });

  test("a row that the template refuses is named by its number", async () => {
    const rows = await source([{ messages: [{ role: "user", content: "a" }] }, { prompt: "a" }]);
    const opened = openSequences(rows, createEncoder(chat), SCOPE);
    await expect(opened).rejects.toMatchObject({ kind: "bad_rows", message: expect.stringContaining("messages") });
  });
});

test("a pair is its prompt with either answer", async () => {
  const rows = await source([{ prompt: "hello", chosen: "the", rejected: "and so" }]);
  const { chosen, rejected } = (await openPairs(rows, createEncoder(chat), 512)).get(0);
  expect(spell(chosen.tokens.subarray(0, chosen.from))).toEqual(ids(CHAT("hello")));
  expect(spell(chosen.tokens.subarray(chosen.from))).toEqual(ids("the<|im_end|>"));
  expect(spell(rejected.tokens.subarray(rejected.from))).toEqual(ids("and so<|im_end|>"));
  const none = openPairs(rows, createEncoder(chat), 5);
  await expect(none).rejects.toMatchObject({ kind: "bad_rows" });
});

test("a labelled answer is its prompt with the completion, cut at max_length", async () => {
  const rows = await source([
    { prompt: "hello", completion: "the", label: true },
    { prompt: "hello there", completion: "and so on", label: false },
  ]);
  const answers = await openAnswers(rows, createEncoder(chat), 512);
  const [good, bad] = [answers.get(0), answers.get(1)];
  expect(spell(good.tokens.subarray(0, good.from))).toEqual(ids(CHAT("hello")));
  expect(spell(good.tokens.subarray(good.from))).toEqual(ids("the<|im_end|>"));
  expect([good.isGood, bad.isGood]).toEqual([true, false]);
  // The KL estimate scores the answer of one row under the prompt of another.
  const other = mismatched(good, bad, 512);
  expect(spell(other.tokens)).toEqual([...ids(CHAT("hello")), ...ids("and so on<|im_end|>")]);
  expect(other.from).toBe(good.from);
  expect(mismatched(bad, good, 512).tokens.length).toBeLessThanOrEqual(answers.longest);
  expect(mismatched(good, bad, good.from + 2).tokens).toHaveLength(good.from + 2);
  await expect(openAnswers(rows, createEncoder(chat), 5)).rejects.toMatchObject({ kind: "bad_rows" });
});

test("a row without a label, or with another one than true and false, is named by its number", async () => {
  const good = { prompt: "a", completion: "b", label: true };
  for (const [label, words] of [
    [undefined, "Row 2 of the dataset cannot be used: label is missing"],
    ["yes", "label must be true or false, not a string"],
    [1, "label must be true or false, not a number"],
    [null, "label must be true or false, not null"],
  ] as const) {
    const opened = openAnswers(await source([good, { ...good, label }]), createEncoder(chat), 512);
    await expect(opened).rejects.toMatchObject({ kind: "bad_rows", message: expect.stringContaining(words) });
  }
  const pairs = openAnswers(await source([{ prompt: "a", chosen: "b", rejected: "c" }]), createEncoder(chat), 512);
  await expect(pairs).rejects.toMatchObject({ message: expect.stringContaining("prompt, completion and label") });
});

test("the rows are those of the head: changed rows at their old position, deleted rows absent", async () => {
  const spec = await rowsFile(dir, [{ prompt: "a" }, { prompt: "b" }, { prompt: "c" }]);
  const file = openRows(spec.path, "append");
  const more = new TextEncoder().encode('{"prompt":"A"}\n\n{"prompt":"d"}\n');
  const changes = [
    { rowId: 4, target: 1, op: "supersede" as const },
    { rowId: 5, target: 2, op: "tombstone" as const },
  ];
  file.transact(() => file.append(4, [more], changes, 1));
  await file.flush();
  file.close();
  const read = async (head: number) => {
    const rows = await openRowSource({ ...spec, head_row: head }, () => {});
    const walked: string[] = [];
    await rows.each((_, text) => void walked.push(text));
    expect(Array.from({ length: rows.count }, (_, i) => rows.text(i))).toEqual(walked);
    rows.close();
    return walked.map((text) => (JSON.parse(text) as { prompt: string }).prompt).join("");
  };
  expect([await read(3), await read(4), await read(5), await read(6)]).toEqual(["abc", "Abc", "Ac", "Acd"]);
});
