/**
 * Turns rows into examples of a method. Every row is tokenized once at the start to get its length, so that rows that
 * do not fit are known before training. Its tokens are made again when it is drawn.
 */

import type { ChatMessage, Tool } from "../../../lib/chat/messages.ts";
import { errorText } from "../../../lib/error_text.ts";
import { labelFault, type Row } from "../../../lib/rows/format.ts";
import { pack } from "../trainee/pack.ts";
import type { Piece } from "../trainee/types.ts";
import { Trouble } from "../trouble.ts";
import type { Encoder, Part, Said } from "./encode.ts";
import { growing, type RowSource } from "./rows.ts";
import { type LossScope, lossMask } from "./sft.ts";

/** `shown`: the tokens of the prompt that the teacher sees. Absent: the same. */
export type Prompt = { tokens: Int32Array; shown?: Int32Array; prompt: unknown; row: string };
/** `mask` belongs to tokens[from], tokens[from + 1] … */
export type Sequence = Piece & { mask: Uint8Array };
export type Pair = { chosen: Piece; rejected: Piece };
/** One answer; the label says if it is a good one. */
export type Answer = Piece & { isGood: boolean };

export type Examples<T> = {
  readonly count: number;
  /** Tokens of the longest sequence. */
  readonly longest: number;
  /** Number of rows that no example uses. */
  readonly leftOut: number;
  get: (index: number) => T;
};

type Measured = { usable: Uint32Array; lengths: Uint32Array; longest: number };

/** At least `least` tokens of the context must remain after a prompt. `tools`: in place of those of the row. */
type Room = {
  contextLength: number;
  least: number;
  tools?: (row: Row) => readonly Tool[];
  /** The teacher's prompt for a row. Null: the same as the student's. */
  shown?: ((row: Row, prompt: Said) => Said) | null;
};

export async function openPrompts(
  source: RowSource,
  encoder: Encoder,
  { contextLength, least, tools = toolsOf, shown = null }: Room,
): Promise<Examples<Prompt>> {
  const read = (text: string): Prompt => {
    const row = JSON.parse(text) as Row;
    const prompt = promptOf(row);
    const other = shown ? { shown: encoder.prompt(shown(row, prompt), tools(row)) } : {};
    return { tokens: encoder.prompt(prompt, tools(row)), ...other, prompt, row: text };
  };
  const { usable, longest } = await measure(source, (text) => {
    const example = read(text);
    const length = example.tokens.length && Math.max(example.tokens.length, example.shown?.length ?? 0);
    return length > 0 && length + least <= contextLength ? length : 0;
  });
  if (usable.length === 0)
    throw new Trouble(
      "bad_rows",
      `No prompt leaves room for max_completion_length (${least}) in the model's context of ${contextLength} tokens. Shorten the prompts or lower max_completion_length`,
      { param: "dataset" },
    );
  return examples(source, { usable, longest }, read, ({ tokens, row }) => tokens.length + row.length);
}

/** With `packing` an example holds as many sequences as fit into max_length. */
export async function openSequences(
  source: RowSource,
  encoder: Encoder,
  scope: LossScope & { packing: boolean },
): Promise<Examples<Sequence[]>> {
  const read = (text: string) => sequenceOf(partsOf(JSON.parse(text) as Row, source.format, encoder), scope);
  const measured = await measure(source, (text) => read(text)?.tokens.length ?? 0);
  const { usable, lengths, longest } = measured;
  if (usable.length === 0)
    throw new Trouble(
      "bad_rows",
      `No row has tokens to learn within max_length (${scope.maxLength} tokens). Raise max_length or shorten the prompts`,
      { param: "dataset" },
    );
  const one = remembering(
    (index) => inRow(index, () => read(source.text(index))) as Sequence,
    ({ tokens }) => tokens.length,
  );
  const leftOut = source.count - usable.length;
  if (!scope.packing) return { count: usable.length, longest, leftOut, get: (index) => [one(usable[index]!)] };
  const packed = pack([...lengths], scope.maxLength);
  const get = (index: number) => packed[index]!.spans.map(({ sequence }) => one(usable[sequence]!));
  return { count: packed.length, longest, leftOut, get };
}

export async function openPairs(source: RowSource, encoder: Encoder, maxLength: number): Promise<Examples<Pair>> {
  const read = (text: string): Pair | null => {
    const row = JSON.parse(text) as Row;
    const [chosen, rejected] = [
      answerOf(row, "chosen", encoder, maxLength),
      answerOf(row, "rejected", encoder, maxLength),
    ];
    const whole = chosen.from < chosen.tokens.length && rejected.from < rejected.tokens.length;
    return whole ? { chosen, rejected } : null;
  };
  if (source.format !== "preference")
    throw new Trouble(
      "bad_rows",
      `This method needs rows with prompt, chosen and rejected. The dataset has the format ${source.format}`,
      {
        param: "dataset",
      },
    );
  const longer = (pair: Pair | null) => Math.max(pair?.chosen.tokens.length ?? 0, pair?.rejected.tokens.length ?? 0);
  const measured = await measure(source, (text) => longer(read(text)));
  if (measured.usable.length === 0)
    throw new Trouble(
      "bad_rows",
      `No row has tokens of chosen and rejected within max_length (${maxLength} tokens). Raise max_length or shorten the prompts`,
      { param: "dataset" },
    );
  const sizeOf = ({ chosen, rejected }: Pair) => chosen.tokens.length + rejected.tokens.length;
  return examples(source, measured, (text) => read(text) as Pair, sizeOf);
}

/** Rows with prompt, completion and label. `longest` holds for the prompt of a row with the answer of another too. */
export async function openAnswers(source: RowSource, encoder: Encoder, maxLength: number): Promise<Examples<Answer>> {
  if (source.format !== "completion")
    throw new Trouble(
      "bad_rows",
      `kto needs rows with prompt, completion and label. The dataset has the format ${source.format}`,
      { param: "dataset" },
    );
  const read = (text: string): Answer => {
    const row = JSON.parse(text) as Row;
    const fault = labelFault(row);
    if (fault) throw new Error(fault.message);
    return { ...answerOf(row, "completion", encoder, maxLength), isGood: row["label"] === true };
  };
  let [longestPrompt, longestAnswer] = [0, 0];
  const { usable } = await measure(source, (text) => {
    const { tokens, from } = read(text);
    if (from >= tokens.length) return 0;
    longestPrompt = Math.max(longestPrompt, from);
    longestAnswer = Math.max(longestAnswer, tokens.length - from);
    return tokens.length;
  });
  if (usable.length === 0)
    throw new Trouble(
      "bad_rows",
      `No row has tokens of the completion within max_length (${maxLength} tokens). Raise max_length or shorten the prompts`,
      { param: "dataset" },
    );
  const longest = Math.min(maxLength, longestPrompt + longestAnswer);
  return examples(source, { usable, longest }, read, ({ tokens }) => tokens.length);
}

/** The scored tokens begin with the answer, which `maxLength` may cut off. */
function answerOf(row: Row, name: "chosen" | "rejected" | "completion", encoder: Encoder, maxLength: number): Piece {
  const parts = encoder.answered(promptOf(row), row[name] as Said, toolsOf(row));
  const tokens = joined(parts).subarray(0, maxLength);
  return { tokens, from: Math.max(1, parts[0]?.tokens.length ?? 0) };
}

function examples<T>(
  source: RowSource,
  { usable, longest }: Pick<Measured, "usable" | "longest">,
  read: (text: string) => T,
  sizeOf: (example: T) => number,
): Examples<T> {
  const get = remembering((index) => inRow(usable[index]!, () => read(source.text(usable[index]!))), sizeOf);
  return { count: usable.length, longest, leftOut: source.count - usable.length, get };
}

/** At most this many tokens are cached, for a dataset of any size. Others are example again. */
const KEPT_TOKENS = 1 << 23;

function remembering<T>(make: (index: number) => T, sizeOf: (example: T) => number): (index: number) => T {
  const kept = new Map<number, T>();
  let left = KEPT_TOKENS;
  return (index) => {
    const stored = kept.get(index);
    if (stored !== undefined) return stored;
    const example = make(index);
    left -= sizeOf(example);
    if (left > 0) kept.set(index, example);
    return example;
  };
}

/** A `lengthOf` of 0 leaves the row out. */
async function measure(source: RowSource, lengthOf: (text: string) => number): Promise<Measured> {
  const [usable, lengths] = [growing(), growing()];
  let longest = 0;
  await source.each((index, text) => {
    const length = inRow(index, () => lengthOf(text));
    if (length === 0) return;
    usable.push(index);
    lengths.push(length);
    longest = Math.max(longest, length);
  });
  return { usable: usable.done(), lengths: lengths.done(), longest };
}

function inRow<T>(index: number, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof Trouble) throw cause;
    const why = errorText(cause);
    throw new Trouble(
      "bad_rows",
      `Row ${index + 1} of the dataset cannot be used: ${why}`,
      { param: "dataset" },
      { cause },
    );
  }
}

/** A conversation that ends with an answer is used without that answer. */
export function promptOf(row: Row): Said {
  if (row["prompt"] !== undefined) return row["prompt"] as Said;
  const messages = [...((row["messages"] ?? []) as ChatMessage[])];
  while (messages.at(-1)?.role === "assistant") messages.pop();
  if (messages.length === 0) throw new Error("messages has no message before the answer");
  return messages;
}

export const toolsOf = (row: Row): readonly Tool[] => (Array.isArray(row["tools"]) ? (row["tools"] as Tool[]) : []);

export function partsOf(row: Row, format: RowSource["format"], encoder: Encoder): Part[] {
  if (format === "completion") return encoder.answered(promptOf(row), row["completion"] as Said, toolsOf(row));
  const messages = row["messages"] ?? row["prompt"];
  if (format === "chat" && Array.isArray(messages))
    return encoder.conversation(messages as ChatMessage[], toolsOf(row));
  throw new Trouble("bad_rows", "sft needs rows with prompt and completion, or with messages", { param: "dataset" });
}

/** Returns null if no token counts. */
function sequenceOf(parts: readonly Part[], scope: LossScope): Sequence | null {
  const mask = lossMask(
    parts.map(({ tokens, role }) => ({ tokens: tokens.length, role })),
    scope,
  );
  const from = mask.indexOf(1);
  if (from < 0) return null;
  const end = mask.lastIndexOf(1) + 1; // no later token is predicted that counts
  return { tokens: joined(parts).slice(0, end), from, mask: mask.slice(from, end) };
}

function joined(parts: readonly Part[]): Int32Array {
  const out = new Int32Array(parts.reduce((sum, { tokens }) => sum + tokens.length, 0));
  let at = 0;
  for (const { tokens } of parts) {
    out.set(tokens, at);
    at += tokens.length;
  }
  return out;
}
