import { numberOf } from "../rows/json.ts";
import type { Sample } from "./contract.ts";

/** Returns the problem of a row that is to be scored, or undefined. */
export function sampleFault(row: Record<string, unknown>): string | undefined {
  const { completion } = row;
  if (completion === undefined) return "is missing. Every row to be scored needs the model's answer as completion";
  if (typeof completion === "string" || isMessages(completion)) return undefined;
  return 'must be a string or a list of messages such as {"role": "assistant", "content": "…"}';
}

const isMessages = (value: unknown) =>
  Array.isArray(value) && value.map(numberOf).every((each) => typeof each === "object" && each && !Array.isArray(each));

export const sampleOf = (row: Record<string, unknown>): Sample => ({
  prompt: row["prompt"] ?? null,
  completion: row["completion"],
  row,
});
