/**
 * Data that another machine or an outside author sends: nodes, hubs, providers, authorities, backups, bundles. Each kind
 * is declared once with `outside`: who sends it, a schema in which every text, list and table has a limit, and the most
 * bytes. `test/meta/outside.test.ts` checks the limits of all declared schemas, and that nothing is parsed elsewhere.
 */

import { z } from "zod";
import { issueText } from "../text/issue.ts";
import { KIB } from "../units.ts";

/** The serving thread parses no more than this at once. */
export const SERVING_BYTES = 256 * KIB;

/**
 * `here`: at most `SERVING_BYTES`, in any process. `thread`: larger texts are parsed by a thread
 * (platform/outside.ts). `command`: only commands and workers read it, in their own process.
 */
type Parsing = "here" | "thread" | "command";

export type Outside<T> = {
  /** The sender and the document, for messages: "the node's answer to info". */
  readonly source: string;
  readonly schema: z.ZodType<T>;
  readonly mostBytes: number;
  readonly parsing: Parsing;
};

/** All declared forms, for the test of their limits. */
export const FORMS: Outside<unknown>[] = [];

export function outside<S extends z.ZodType>(
  source: string,
  schema: S,
  { mostBytes = SERVING_BYTES, parsing = "here" as Parsing } = {},
): Outside<z.output<S>> {
  const form = { source, schema, mostBytes, parsing } as Outside<z.output<S>>;
  FORMS.push(form);
  return form;
}

/** The sender broke the form. The message names the sender and the field. */
export class OutsideError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "OutsideError";
  }
}

/** `truncated`: the reader stopped at its limit, and the rest was not read. */
export type Sent = { body: Uint8Array; truncated: boolean };

const MESSAGE_CHARACTERS = 200;
const strict = new TextDecoder("utf-8", { fatal: true });

/** The checked value. Throws OutsideError. */
export function readOutside<T>(form: Outside<T>, sent: Sent | Uint8Array | string): T {
  mustFit(form, sent);
  return checked(form, jsonOf(form, sent));
}

/** Undefined if the sender broke the form: an error, for example, may have any body. */
export function tryOutside<T>(form: Outside<T>, sent: Sent | Uint8Array | string): T | undefined {
  try {
    return readOutside(form, sent);
  } catch (error) {
    if (error instanceof OutsideError) return undefined;
    throw error;
  }
}

export function mustFit({ source, mostBytes }: Outside<unknown>, sent: Sent | Uint8Array | string) {
  const isTooLong = typeof sent === "object" && "truncated" in sent && sent.truncated;
  if (isTooLong || bytesOf(sent) > mostBytes) throw new OutsideError(`${source} has more than ${mostBytes} bytes`);
}

/** A value that was parsed before, for example by a library. */
export function checked<T>({ source, schema }: Outside<T>, value: unknown): T {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [issue] = error.issues;
  const field = issue?.path.length ? `${issue.path.join(".").slice(0, MESSAGE_CHARACTERS)}: ` : "";
  throw new OutsideError(`${source} cannot be used: ${field}${issueText(issue).slice(0, MESSAGE_CHARACTERS)}`);
}

function jsonOf({ source }: Outside<unknown>, sent: Sent | Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof sent === "string" ? sent : strict.decode("body" in sent ? sent.body : sent));
  } catch (cause) {
    throw new OutsideError(`${source} is not JSON`, { cause });
  }
}

/** A text has at least as many bytes as UTF-16 units. */
export const bytesOf = (sent: Sent | Uint8Array | string): number =>
  typeof sent === "string" ? sent.length : "body" in sent ? sent.body.byteLength : sent.byteLength;

/** Schemas of `table`, for the test of limits. */
export const TABLES = new WeakSet<z.ZodType>();

/** A record with a limit of entries. Keys are counted before the first value is checked. */
export function table<V extends z.ZodType>(value: V, { most, key = 100 }: { most: number; key?: number }) {
  const entries = z.record(z.string().max(key), value);
  TABLES.add(entries);
  return z
    .record(z.string(), z.unknown())
    .refine((record) => Object.keys(record).length <= most, { message: `has more than ${most} entries`, abort: true })
    .pipe(entries);
}

/** Schemas of `opaque`, for the test of limits. */
export const OPAQUE = new WeakMap<z.ZodType, string>();

/** A value of any form, whose reader checks it with another declared form or schema. `reader` names it. */
export function opaque(reader: string) {
  const schema = z.unknown();
  OPAQUE.set(schema, reader);
  return schema;
}
