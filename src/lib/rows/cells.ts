/** Cells of CSV and Parquet are text: messages in them are JSON, and a label is the word true or false. */
import type { Row } from "./format.ts";

const TALK_COLUMNS = /^(messages|conversations?|prompt|completion|chosen|rejected|tools)$/;

/** Other columns stay text: a number may be a postcode. */
export function parseCells(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, cellOf(name, value)]));
}

function cellOf(name: string, value: unknown): unknown {
  if (typeof value !== "string") return value;
  if (name === "label" && /^(true|false)$/i.test(value)) return value.toLowerCase() === "true";
  if (!TALK_COLUMNS.test(name) || !/^\s*\[\s*\{/.test(value)) return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}
