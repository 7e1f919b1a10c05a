/** Rows as the model reads them, and statistics of their lengths and duplicates. Loads the vocabulary and no weights. */
import { errorText } from "../../../lib/error_text.ts";
import type { Row } from "../../../lib/rows/format.ts";
import type { FromTrainer, InspectTask } from "../../protocol_trainer.ts";
import { createEncoder, type Encoder, type Part, type Said } from "./encode.ts";
import { partsOf, promptOf, toolsOf } from "./examples.ts";
import { openRowSource, type RowSource } from "./rows.ts";
import { counts } from "./sft.ts";
import { openTokenizer } from "./tokenizer.ts";

type Inspected = Extract<FromTrainer, { type: "inspected" }>;
type ShownRow = Inspected["rows"][number];
/** The parts of one sequence; DPO has two of them for each row. */
type Sequences = { name: ShownRow["sequences"][number]["name"]; parts: Part[] }[];

const BEAT_ROWS = 200;

export async function inspectRows(task: InspectTask, beat: () => void): Promise<Inspected> {
  const tokenizer = openTokenizer(task.data_dir, task.model_path, false);
  const source = await openRowSource(task.rows, beat);
  try {
    const encoder = createEncoder(tokenizer, task.variables);
    const read = (text: string) => sequencesOf(JSON.parse(text) as Row, task, encoder);
    const scope = { completionOnly: task.rows.format === "completion", assistantOnly: task.assistant_only };
    const isTrained = ({ role }: Part) =>
      task.method === "grpo" ? false : task.method === "dpo" ? role !== "prompt" : counts(role, scope);
    const rows = Array.from({ length: Math.min(task.limit, source.count) }, (_, i): ShownRow => {
      try {
        const sequences = read(source.text(i)).map(({ name, parts }) => ({
          name,
          tokens: lengthOf(parts),
          parts: parts.map((part) => ({
            text: tokenizer.spell(part.tokens),
            tokens: part.tokens.length,
            trained: isTrained(part),
          })),
        }));
        return { row: i + 1, sequences, error: null };
      } catch (error) {
        return { row: i + 1, sequences: [], error: messageOf(error) };
      }
    });
    return { type: "inspected", rows, statistics: await statisticsOf(source, task, { read, isTrained }, beat) };
  } finally {
    source.close();
    tokenizer.close();
  }
}

function sequencesOf(row: Row, { method, rows: { format } }: InspectTask, encoder: Encoder): Sequences {
  if (method === "sft") return [{ name: "text", parts: partsOf(row, format, encoder) }];
  const tools = toolsOf(row);
  if (method === "grpo")
    return [{ name: "prompt", parts: [{ tokens: encoder.prompt(promptOf(row), tools), role: "prompt" }] }];
  return (["chosen", "rejected"] as const).map((name) => ({
    name,
    parts: encoder.answered(promptOf(row), row[name] as Said, tools),
  }));
}

const lengthOf = (parts: readonly Part[]) => parts.reduce((sum, { tokens }) => sum + tokens.length, 0);
const messageOf = (error: unknown) => errorText(error).slice(0, 500);

type Reading = { read: (text: string) => Sequences; isTrained: (part: Part) => boolean };

/** True if a token to learn lies within `most`. The first token never counts, because nothing predicts it. */
function learnsWithin(most: number, parts: readonly Part[], isTrained: (part: Part) => boolean): boolean {
  let start = 0;
  for (const part of parts) {
    const end = Math.min(start + part.tokens.length, most);
    if (isTrained(part) && end > Math.max(start, 1)) return true;
    start += part.tokens.length;
  }
  return false;
}

/** Lengths are measured on rows at even distances, at most `sample` of them. Duplicates are counted among all rows. */
async function statisticsOf(
  source: RowSource,
  { sample, max_length: maxLength }: InspectTask,
  { read, isTrained }: Reading,
  beat: () => void,
): Promise<Inspected["statistics"]> {
  const stride = Math.max(1, Math.ceil(source.count / sample));
  const lengths: number[] = [];
  const [texts, prompts] = [new Set<bigint>(), new Set<bigint>()];
  let [unreadable, unlearned] = [0, 0];
  await source.each((index, text) => {
    if (index % BEAT_ROWS === 0) beat();
    texts.add(hashOf(text));
    prompts.add(hashOf(promptText(text)));
    if (index % stride !== 0) return;
    try {
      const sequences = read(text);
      lengths.push(Math.max(...sequences.map(({ parts }) => lengthOf(parts))));
      if (!sequences.every(({ parts }) => learnsWithin(maxLength, parts, isTrained))) unlearned++;
    } catch {
      unreadable++;
    }
  });
  lengths.sort((a, b) => a - b);
  const at = (share: number) => lengths[Math.min(lengths.length - 1, Math.floor(share * lengths.length))] ?? 0;
  return {
    rows: source.count,
    measured_rows: lengths.length,
    unreadable_rows: unreadable,
    tokens: {
      p50: at(0.5),
      p95: at(0.95),
      max: lengths.at(-1) ?? 0,
      total: lengths.reduce((sum, each) => sum + each, 0),
    },
    over_max_length: lengths.filter((length) => length > maxLength).length,
    unlearned_rows: unlearned,
    duplicates: { exact: source.count - texts.size, prompt: source.count - prompts.size },
  };
}

const hashOf = (text: string): bigint => BigInt(Bun.hash(text));

/** Two prompts are the same if only case, blanks and punctuation differ. */
function promptText(text: string): string {
  try {
    const prompt = promptOf(JSON.parse(text) as Row);
    const words = typeof prompt === "string" ? prompt : prompt.map(({ content }) => JSON.stringify(content)).join("\n");
    return words
      .toLowerCase()
      .replaceAll(/[\s\p{P}]+/gu, " ")
      .trim();
  } catch {
    return text;
  }
}
