/** One interface for every outside source of rows. */
import type { Credentials, Source } from "../../lib/source.ts";
import type { Dialer } from "./dialer.ts";

/** The position of a reading, passed to `rows()` after a restart. It holds no secret. */
export type Cursor = Record<string, string | number | null>;

/**
 * Rows as JSON texts, one object each, without line breaks: numbers that JavaScript cannot hold stay exact. `cursor` is
 * the position after the last row. Null: the source has no stable order and must be read from its start.
 */
export type Chunk = { lines: string[]; cursor: Cursor | null };

export type Reading = { signal: AbortSignal; resume?: Cursor | undefined };

export type Connector = {
  /** Proves with a request or two that the source exists and that these credentials may read it. */
  test: (signal: AbortSignal) => Promise<void>;
  columns: (signal: AbortSignal) => Promise<string[]>;
  /** Number of rows; null if only reading everything would tell. */
  count: (signal: AbortSignal) => Promise<number | null>;
  /** Yields pieces of some hundred rows, in constant memory. */
  rows: (reading: Reading) => AsyncIterable<Chunk>;
};

export type Limits = {
  connectMs: number;
  /** Limit of one database statement. */
  statementMs: number;
  /** Maximum length of a row. */
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
/** Every source module exports one. It checks the fields it needs and does not connect yet. */
export type Open = (opening: Opening) => Connector;

const SOURCE_FAULTS = [
  "address_refused",
  "unreachable",
  "unauthorized",
  "not_found",
  "invalid_source", // a field of the source description or the credentials is unusable
  "invalid_rows", // the data is not a row
  "broken", // it began well and was interrupted
  "too_slow", // it sends less than the least rate
] as const;
export type SourceFault = (typeof SOURCE_FAULTS)[number];

/** The message tells users what happened and how to fix it. It never contains a credential. */
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
