/**
 * Messages for users made from a server's error, without any credential. They are passed on as text, never as the
 * driver's own error.
 */
import type { Credentials } from "../../../lib/source.ts";
import * as hide from "../hide.ts";
import { SourceError, type SourceFault } from "../types.ts";

export type { Hide } from "../hide.ts";

const LONGEST = 500;

export const hiding = (credentials: Credentials) => hide.hiding(credentials, LONGEST);

/** Error code → its meaning for users. Undefined for unknown codes. */
export type Verdict = readonly [fault: SourceFault, param: string | null, advice: string];

/**
 * A driver's message names the address it connected to, which the caller must not learn: `connect ECONNREFUSED
 * 10.0.0.1:1`.
 */
export const withoutAddress = (text: string) => text.replaceAll(/\b(connect E[A-Z]+) \S+/g, "$1");

export function told(verdict: Verdict, said: string): SourceError {
  const [fault, param, advice] = verdict;
  return new SourceError(fault, said === "" ? advice : `${advice}: ${said}`, param);
}

/** Rejects an unknown field, so that a typing mistake is not ignored. */
export function onlyKnown(fields: Record<string, unknown>, names: readonly string[], param: string) {
  const stranger = Object.keys(fields).find((name) => !names.includes(name));
  if (stranger === undefined) return;
  throw new SourceError(
    "invalid_source",
    `${stranger.slice(0, 100)} is not a known field. Use ${names.join(", ")}`,
    `${param}/${stranger.slice(0, 100)}`,
  );
}

/** Reads a string of a description or of credentials; undefined if it is absent. */
export function textIn(fields: Record<string, unknown>, name: string, param: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string" && !value.includes("\0")) return value;
  throw new SourceError("invalid_source", `${name} must be a string`, `${param}/${name}`);
}

export function needed(fields: Record<string, unknown>, name: string, param: string): string {
  const value = textIn(fields, name, param);
  if (value !== undefined) return value;
  throw new SourceError("invalid_source", `${name} is missing in ${param.slice(1)}`, `${param}/${name}`);
}
