/** Converts one row of a shape of other tools into a row of ours. Columns that the shape does not use stay as they are. */
import type { Row } from "./format.ts";
import { isRow, kindOf, OTHER_ROLES } from "./messages.ts";
import { type Shape, talkOf } from "./shape.ts";

/** The message names the field and says what is wrong with it. */
export class ConversionError extends Error {}

type Message = Row & { role: unknown };

export function convertRow(row: Row, shape: Shape): Row {
  switch (shape) {
    case "sharegpt":
      return fromShareGpt(row);
    case "alpaca":
      return fromAlpaca(row);
    case "implicit_preference":
      return fromImplicit(row);
    default:
      return row;
  }
}

const TURN_ROLES: Readonly<Record<string, string>> = {
  ...OTHER_ROLES,
  observation: "tool",
  tool_response: "tool",
};

function fromShareGpt(row: Row): Row {
  const name = talkOf(row);
  if (name === undefined)
    throw new ConversionError(
      'conversations must be a list of turns such as {"from": "human", "value": "…"}, as in the first rows',
    );
  const { [name]: turns, system, ...rest } = row;
  const messages = (turns as unknown[]).map((turn, i) => messageOf(turn, `${name}[${i}]`));
  const isSystem = typeof system === "string" && system !== "" && messages[0]?.role !== "system";
  const others = typeof system === "string" ? rest : without(row, name);
  return { messages: isSystem ? [{ role: "system", content: system }, ...messages] : messages, ...others };
}

function without(row: Row, name: string): Row {
  const { [name]: _, ...rest } = row;
  return rest;
}

/** Unknown roles pass: the check of the row names them and suggests the right one. */
function messageOf(turn: unknown, at: string): Message {
  if (!isRow(turn)) throw new ConversionError(`${at} must be a turn such as {"from": "human", "value": "…"}`);
  if (turn["from"] === undefined && turn["role"] !== undefined) return turn as Message;
  const { from, value, ...rest } = turn;
  if (typeof from !== "string") throw new ConversionError(`${at}.from must be a string such as "human"`);
  if (from === "function_call") return { role: "assistant", content: null, tool_calls: [callOf(value, at)] };
  const role = Object.hasOwn(TURN_ROLES, from.toLowerCase()) ? TURN_ROLES[from.toLowerCase()] : from;
  return { role, content: value, ...rest };
}

/** A call is JSON text with a name and arguments. */
function callOf(value: unknown, at: string): Row {
  try {
    const { name, arguments: args } = JSON.parse(String(value)) as Row;
    return {
      type: "function",
      function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
    };
  } catch {
    throw new ConversionError(`${at}.value must be a call such as {"name": "…", "arguments": {…}}`);
  }
}

/** The input stands below the instruction. A system text or a history makes the prompt a list of messages. */
function fromAlpaca(row: Row): Row {
  const { instruction, input, output, system, history, ...rest } = row;
  if (typeof instruction !== "string") throw wrongText("instruction", instruction);
  if (typeof output !== "string") throw wrongText("output", output);
  if (input !== undefined && input !== null && typeof input !== "string") throw wrongText("input", input);
  const text = input ? `${instruction}\n\n${input}` : instruction;
  const before: Row[] = [];
  if (typeof system === "string" && system !== "") before.push({ role: "system", content: system });
  for (const [i, turn] of (Array.isArray(history) ? history : []).entries()) {
    if (!Array.isArray(turn) || turn.length !== 2)
      throw new ConversionError(`history[${i}] must be a question and its answer, such as ["…", "…"]`);
    before.push({ role: "user", content: turn[0] }, { role: "assistant", content: turn[1] });
  }
  const prompt = before.length === 0 ? text : [...before, { role: "user", content: text }];
  return { prompt, completion: output, ...rest };
}

const wrongText = (field: string, value: unknown) =>
  new ConversionError(`${field} must be a string, not ${kindOf(value)}`);

/** The beginning that both answers share is the prompt. */
function fromImplicit(row: Row): Row {
  const { prompt: _, chosen, rejected, ...rest } = row;
  if (Array.isArray(chosen) && Array.isArray(rejected)) {
    const shared = sharedMessages(chosen, rejected);
    if (shared === 0) throw noPrompt("the same first message");
    return {
      prompt: chosen.slice(0, shared),
      chosen: chosen.slice(shared),
      rejected: rejected.slice(shared),
      ...rest,
    };
  }
  if (typeof chosen !== "string" || typeof rejected !== "string")
    throw new ConversionError("chosen and rejected must both be strings, or both lists of messages");
  const shared = sharedText(chosen, rejected);
  if (shared === 0) throw noPrompt("the same beginning");
  return { prompt: chosen.slice(0, shared), chosen: chosen.slice(shared), rejected: rejected.slice(shared), ...rest };
}

const noPrompt = (what: string) =>
  new ConversionError(`prompt is missing, and chosen and rejected do not have ${what}. Add a column prompt`);

/** The last message of each is its answer, and never a part of the prompt. */
function sharedMessages(a: readonly unknown[], b: readonly unknown[]): number {
  const most = Math.min(a.length, b.length) - 1;
  let count = 0;
  while (count < most && JSON.stringify(a[count]) === JSON.stringify(b[count])) count++;
  while (count > 0 && isRow(a[count - 1]) && (a[count - 1] as Row)["role"] === "assistant") count--;
  return count;
}

/** Cut before the last blank: an answer begins with a whole word, together with the blank before it. */
function sharedText(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let count = 0;
  while (count < most && a[count] === b[count]) count++;
  while (count > 0 && !/\s/.test(a[count] ?? " ")) count--;
  return a.slice(0, count).trim() === "" ? 0 : count;
}
