/** A row as the turns that a model reads, and as one line. */
import { isRow, type Row } from "../../../lib/rows/format.ts";

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

const cells = new WeakMap<Row, Map<string, string>>();

/** The value of one column in one line: of messages, their texts. */
export function cellOf(row: Row, column: string): string {
  const ofRow = cells.get(row) ?? new Map<string, string>();
  cells.set(row, ofRow);
  const cell = ofRow.get(column) ?? newCell(row[column]);
  ofRow.set(column, cell);
  return cell;
}

function newCell(value: unknown): string {
  if (value === undefined || value === null) return "";
  const texts = Array.isArray(value)
    ? value.map((each) => (isRow(each) && each["content"] !== undefined ? textOf(each["content"]) : textOf(each)))
    : [textOf(value)];
  return texts.join("  ·  ").replace(/\s+/g, " ").slice(0, LONGEST);
}

function newLine(row: Row): string {
  const turns = turnsOf(row).map(({ text }) => text);
  const rest = restOf(row).map(([key, value]) => `${key}: ${textOf(value)}`);
  return [...turns, ...rest].join("  ·  ").replace(/\s+/g, " ").slice(0, LONGEST);
}
