/** A row as the turns that a model reads, and as one line. */
import { errorText } from "../../../lib/error_text.ts";
import { convertRow } from "../../../lib/rows/convert.ts";
import { isJsonLines, textKind } from "../../../lib/rows/file_kind.ts";
import { type Format, formatOf, isRow, type Row, rowFault } from "../../../lib/rows/format.ts";
import { detectShape, LOOKED_AT_ROWS, type Shape } from "../../../lib/rows/shape.ts";

export type Turn = { role: string; text: string };

const COLUMNS = ["messages", "prompt", "completion", "chosen", "rejected"];
const ROLES: Readonly<Record<string, string>> = { prompt: "user", completion: "assistant" };

/** The turns in the order in which the chat template gets them. */
export function turnsOf(row: Row): Turn[] {
  return COLUMNS.flatMap((column) => {
    const value = row[column];
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) return [{ role: ROLES[column] ?? column, text: textOf(value) }];
    const mark = column === "chosen" || column === "rejected" ? `${column}: ` : "";
    return value.map((message) => ({
      role: mark + (isRow(message) ? textOf(message["role"] ?? "") : "message"),
      text: isRow(message) ? textOf(message["content"] ?? message["tool_calls"] ?? "") : textOf(message),
    }));
  });
}

export type Conversation = { messages: unknown[]; tools: unknown[]; add_generation_prompt: boolean };

/** The conversation that a training reads from a row. A preference is shown with the chosen answer. */
export function conversationOf(row: Row): Conversation {
  const turns = (column: string, role: string) => {
    const value = row[column];
    if (value === undefined || value === null) return [];
    return Array.isArray(value) ? value : [{ role, content: textOf(value) }];
  };
  const answer = [...turns("completion", "assistant"), ...turns("chosen", "assistant")];
  const prompts = turns("messages", "user");
  const messages = prompts.length > 0 ? prompts : [...turns("prompt", "user"), ...answer];
  const last: unknown = messages.at(-1);
  const isAnswered = isRow(last) && last["role"] === "assistant";
  const { tools } = row;
  return { messages, tools: Array.isArray(tools) ? tools : [], add_generation_prompt: !isAnswered };
}

/** Columns that are no turns: rewards and templates see them. */
export const restOf = (row: Row): [string, unknown][] => Object.entries(row).filter(([key]) => !COLUMNS.includes(key));

export const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const LONGEST = 400;

/** Lines are kept with their rows: a list draws the same rows again with every frame of scrolling. */
const lines = new WeakMap<Row, string>();

/** One line for a list. */
export function lineOf(row: Row): string {
  const line = lines.get(row) ?? newLine(row);
  lines.set(row, line);
  return line;
}

function newLine(row: Row): string {
  const turns = turnsOf(row).map(({ text }) => text);
  const rest = restOf(row).map(([key, value]) => `${key}: ${textOf(value)}`);
  return [...turns, ...rest].join("  ·  ").replace(/\s+/g, " ").slice(0, LONGEST);
}

/** `shape`: what the rows look like. The rows are shown as they will be stored. Undefined: the columns have other names. */
export type Preview = {
  rows: Row[];
  format: Format | undefined;
  shape: Shape | undefined;
  faults: { line: number; message: string }[];
};

type Parsed = { line: number; row?: Row; fault?: string };
const MOST = 5; // rows of a preview

/** The first rows of a file of JSON lines. `isWhole` false: the text ends within a line. */
export const previewOf = (text: string, isWhole: boolean): Preview => checked(parsedLines(text, isWhole), undefined);

/** The first rows of a file that can be read here. Undefined for CSV, Parquet, packed files and large JSON arrays. */
export function filePreviewOf(start: Uint8Array, name: string, isWhole: boolean): Preview | undefined {
  const text = new TextDecoder().decode(start);
  const isLines = isJsonLines(start, name);
  if (!isLines && (textKind(start, name) !== "json" || !isWhole)) return undefined;
  const parsed = isLines ? parsedLines(text, isWhole) : parsedArray(text);
  const rows = parsed.flatMap(({ row }) => (row ? [row] : []));
  const detected = detectShape(rows);
  return checked(parsed, detected.type === "found" ? detected.shape : undefined);
}

function parsedLines(text: string, isWhole: boolean): Parsed[] {
  const lines = text.split("\n");
  if (!isWhole) lines.pop();
  const parsed: Parsed[] = [];
  for (const [i, line] of lines.entries()) {
    if (parsed.length >= LOOKED_AT_ROWS) break;
    if (line.trim() !== "") parsed.push(parsedRow(i + 1, () => JSON.parse(line)));
  }
  return parsed;
}

function parsedArray(text: string): Parsed[] {
  try {
    const all = JSON.parse(text) as unknown;
    return (Array.isArray(all) ? all : [all]).slice(0, LOOKED_AT_ROWS).map((row, i) => parsedRow(i + 1, () => row));
  } catch (error) {
    return [{ line: 1, fault: errorText(error) }];
  }
}

function parsedRow(line: number, read: () => unknown): Parsed {
  try {
    const row = read();
    return isRow(row) ? { line, row } : { line, fault: "a row must be a JSON object" };
  } catch (error) {
    return { line, fault: errorText(error) };
  }
}

function checked(parsed: readonly Parsed[], shape: Shape | undefined): Preview {
  const preview: Preview = { rows: [], format: undefined, shape, faults: [] };
  for (const { line, row, fault } of parsed.slice(0, MOST)) {
    try {
      if (!row) throw new Error(fault);
      const converted = shape === undefined ? row : convertRow(row, shape);
      preview.format ??= formatOf(converted);
      const wrong = rowFault(converted, preview.format);
      if (wrong) throw new Error(wrong.message);
      preview.rows.push(converted);
    } catch (error) {
      preview.faults.push({ line, message: errorText(error) });
    }
  }
  return preview;
}

/** The map that the server proposes in an error, such as `question=prompt,answer=completion`. */
export const proposedMap = (message: string): string | undefined => /`map`, for example (\S+)$/.exec(message)?.[1];
