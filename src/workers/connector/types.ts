/** One interface for every outside source of rows. */
import type { Credentials, Source } from "../../lib/source.ts";
import type { Dialer } from "./dialer.ts";

/** Where a reading stood: goes back into `rows()` after a restart. Holds no secret. */
export type Cursor = Record<string, string | number | null>;

/**
 * Rows as JSON texts, one object each, without line breaks: numbers that JavaScript cannot hold stay exact. `cursor`
 * is the place after the last of them; null where the source has no stable order and must be read from its start.
 */
export type Chunk = { lines: string[]; cursor: Cursor | null };

export type Reading = { signal: AbortSignal; resume?: Cursor | undefined };

export type Connector = {
  /** A request or two that prove: it is there, and these credentials may read it. */
  test: (signal: AbortSignal) => Promise<void>;
  columns: (signal: AbortSignal) => Promise<string[]>;
  /** Rows; null where only reading everything would tell. */
  count: (signal: AbortSignal) => Promise<number | null>;
  /** In pieces of some hundred rows, in constant memory. */
  rows: (reading: Reading) => AsyncIterable<Chunk>;
};

export type Limits = {
  connectMs: number;
  /** For one statement of a database. */
  statementMs: number;
  /** The longest row. */
  rowBytes: number;
};

export type Opening = {
  source: Source;
  credentials: Credentials;
  dialer: Dialer;
  limits: Limits;
  /** The operator's hub, without a trailing slash. */
  hubEndpoint: string;
};
/** Every module of a source exports one. It checks the fields it needs and dials nothing yet. */
export type Open = (opening: Opening) => Connector;

export const SOURCE_FAULTS = [
  "address_refused",
  "unreachable",
  "unauthorized",
  "not_found",
  "invalid_source", // what was written in the source description or the credentials cannot be used
  "invalid_rows", //   what came is no row
  "broken", //         it began well and was cut off
] as const;
export type SourceFault = (typeof SOURCE_FAULTS)[number];

/** For people: what happened and what to do. Never with a credential in it. */
export class SourceError extends Error {
  constructor(
    readonly code: SourceFault,
    message: string,
    /** JSON pointer into the source description: `/source_uri`, `/credentials/password`. */
    readonly param: string | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "SourceError";
  }
}
