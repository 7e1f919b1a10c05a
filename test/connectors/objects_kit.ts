import { expect } from "bun:test";
import type { Credentials, Source } from "../../src/lib/source.ts";
import { createDialer, type Dialer } from "../../src/workers/connector/dialer.ts";
import type { Chunk, Connector, Cursor, Open } from "../../src/workers/connector/types.ts";
import { sweep } from "../sweep.ts";

export type Opened = { open: Open; source: Source; credentials: Credentials };
type Options = {
  allow?: readonly string[];
  rowBytes?: number;
  hubEndpoint?: string;
  idleMs?: number;
  /** Alters requests on their way. */
  through?: (dialer: Dialer) => Dialer;
};

/** Opens a source as the worker does, on a machine whose operator allows loopback. */
export function openSource({ open, source, credentials }: Opened, options: Options = {}): Connector {
  const {
    allow = ["127.0.0.1", "localhost"],
    rowBytes = 1_000_000,
    hubEndpoint = "",
    idleMs = 60_000,
    through,
  } = options;
  const dialer = createDialer({ allow_private: false, allow, ca_file: "" }, { connectMs: 60_000, idleMs });
  const limits = { connectMs: 60_000, statementMs: 60_000, rowBytes };
  return open({ source, credentials, dialer: through?.(dialer) ?? dialer, limits, hubEndpoint });
}

export const calm = () => new AbortController().signal;

export async function readRows(
  connector: Connector,
  { signal = calm(), resume }: { signal?: AbortSignal; resume?: Cursor } = {},
) {
  const lines: string[] = [];
  for await (const chunk of connector.rows({ signal, resume })) lines.push(...chunk.lines);
  return lines;
}

export async function chunksOf(connector: Connector): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of connector.rows({ signal: calm() })) chunks.push(chunk);
  return chunks;
}

/** Checks that no error contains a secret, at any depth. */
export function expectSilence(error: unknown, secrets: readonly string[]) {
  const seen: string[] = [];
  for (let at = error; at instanceof Error; at = at.cause)
    seen.push(at.message, at.stack ?? "", Bun.inspect(at), JSON.stringify({ ...at }), String(at));
  const told = seen.join("\n");
  for (const secret of secrets)
    for (const form of [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")])
      expect([form, told.includes(form)]).toEqual([form, false]);
}

export const numbered = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => `{"id":${from + i},"text":"row ${from + i} of many"}`);

export const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

/** In a quick run the rows are 25 MB together, more than FLAT_BYTES: a reader that keeps them fails. */
export const LARGE_ROWS = sweep({ quick: 100_000, full: 1_000_000 });
const FLAT_BYTES = 20e6;
const PADDING = "x".repeat(200);
export const largeText = (i: number) => `row ${i} of many ${PADDING}`;
export const largeTexts = () => Array.from({ length: LARGE_ROWS }, (_, i) => largeText(i));
export const largeFile = () => `{"text":"${largeTexts().join('"}\n{"text":"')}"}\n`;

const READER = new URL("./read_large.ts", import.meta.url).pathname;

type Large = { source: Source; credentials: Credentials; hubEndpoint?: string };
type Reading = { rows: number; growthBytes: number; last: string };

/** Reads everything in a separate process and reports how much its memory grew after the first rows. */
export async function readLarge(task: Large): Promise<Reading> {
  const child = Bun.spawn([process.execPath, READER], { stdin: Buffer.from(JSON.stringify(task)), stdout: "pipe" });
  const said = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`the reader failed: ${said}`);
  return JSON.parse(said);
}

export function expectFlat({ rows, last, growthBytes }: Reading) {
  expect({ rows, text: JSON.parse(last).text }).toEqual({ rows: LARGE_ROWS, text: largeText(LARGE_ROWS - 1) });
  expect(growthBytes).toBeLessThan(FLAT_BYTES);
}
