/**
 * The table of body limits. A body is judged by its size and by the number of its values before anything of it is
 * parsed, so that no request keeps the server's one thread busy. `http.max_body_bytes` may lower a size, never raise it.
 */

import type { Ctx } from "../../context.ts";
import { KIB, MIB } from "../../lib/units.ts";

/**
 * `maxValues`: see createJsonScan. A body of this many bad values takes some tens of milliseconds to refuse. `maxFields`: of
 * one object, which takes several times as long to check as a list; 1,000 if not given.
 */
export type BodyLimits = { maxBytes: number; maxValues: number; maxFields?: number };

const CONFIGURED = Number.POSITIVE_INFINITY; // http.max_body_bytes alone counts

const LIMITS = {
  /** Routes that name no other: names, settings, metadata. */
  small: { maxBytes: 256 * KIB, maxValues: 4_000 },
  /** Code of up to 1 MiB, as JSON text, with a description of a job around it. */
  code: { maxBytes: 4 * MIB, maxValues: 10_000 },
  /** A command with its standard input. */
  exec: { maxBytes: CONFIGURED, maxValues: 4_000 },
  /** Messages, tools and JSON schemas. */
  chat: { maxBytes: CONFIGURED, maxValues: 40_000, maxFields: 10_000 },
  /** Many requests for messages. */
  requests: { maxBytes: CONFIGURED, maxValues: 400_000, maxFields: 10_000 },
  /** Texts or tokens: one value each. */
  tokens: { maxBytes: CONFIGURED, maxValues: 400_000, maxFields: 10_000 },
  /** Spans of other programs, in batches. */
  spans: { maxBytes: CONFIGURED, maxValues: 200_000, maxFields: 10_000 },
  /** Rows for reward functions. */
  rewards: { maxBytes: CONFIGURED, maxValues: 200_000, maxFields: 10_000 },
} satisfies Record<string, BodyLimits>;
export type BodyKind = keyof typeof LIMITS;

export function bodyLimits({ config }: Pick<Ctx, "config">, kind: BodyKind): BodyLimits {
  const { maxBytes, ...counts }: BodyLimits = LIMITS[kind];
  return { maxBytes: Math.min(maxBytes, config.http.max_body_bytes), ...counts };
}
