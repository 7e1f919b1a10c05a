/** For the tests of databases: opens connectors as the worker does, and checks that errors contain no secret. */
import { expect } from "bun:test";
import type { Credentials, Source } from "../../src/lib/source.ts";
import { createDialer, type Dialer } from "../../src/workers/connector/dialer.ts";
import type { Connector, Limits, Open } from "../../src/workers/connector/types.ts";
import { SourceError } from "../../src/workers/connector/types.ts";

export const LIMITS: Limits = { connectMs: 60_000, statementMs: 60_000, rowBytes: 4_000_000 };
export const LOOPBACK = { allow_private: false, allow: ["127.0.0.1/32"], ca_file: "" };
export const NOTHING_ALLOWED = { allow_private: false, allow: [], ca_file: "" };

/** Every name resolves to this machine: there is no name server in the tests. */
export const nameless = (dialer: Dialer): Dialer => ({
  ...dialer,
  resolve: (host, signal) => dialer.resolve(host.endsWith(".example") ? "127.0.0.1" : host, signal),
});

export type QueryOptions = {
  source: Omit<Source, "db_query">;
  query: string;
  credentials?: Credentials;
  limits?: Partial<Limits>;
  dialer?: Dialer;
};

export const openWith = (open: Open, { source, query, credentials = {}, limits, dialer }: QueryOptions): Connector =>
  open({
    source: { ...source, db_query: query },
    credentials,
    dialer: dialer ?? nameless(createDialer(LOOPBACK, LIMITS)),
    limits: { ...LIMITS, ...limits },
    hubEndpoint: "",
  });

export const quiet = () => new AbortController().signal;

export async function linesOf(connector: Connector, signal = quiet()): Promise<string[]> {
  const all: string[] = [];
  for await (const { lines } of connector.rows({ signal })) all.push(...lines);
  return all;
}

export const rowsOf = async (connector: Connector) => (await linesOf(connector)).map((line) => JSON.parse(line));

/** Returns the error. It contains none of `secrets`, at any depth. */
export async function refusal(work: () => unknown, secrets: readonly string[] = []): Promise<SourceError> {
  const error = await (async () => work())().then(
    () => new Error("nothing was refused"),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof SourceError)) throw error;
  for (let each: unknown = error; each !== undefined; each = (each as Error).cause)
    for (const secret of secrets) {
      expect(Bun.inspect(each, { depth: 20 })).not.toContain(secret);
      expect(JSON.stringify(Object.getOwnPropertyDescriptors(each))).not.toContain(secret);
      expect(String((each as Error).stack)).not.toContain(secret);
    }
  return error;
}

export type Reading = { rows: number; ms: number; growthBytes: number };

/** Reads in a separate process, so that its memory is only the reading's. */
export async function readAside(source: Source, credentials: Credentials): Promise<Reading> {
  const child = Bun.spawn([process.execPath, `${import.meta.dir}/read_aside.ts`], {
    stdin: new Blob([JSON.stringify({ source, credentials, network: LOOPBACK })]),
    stdout: "pipe",
    stderr: "inherit",
  });
  const said = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`the reading failed: ${said}`);
  return JSON.parse(said) as Reading;
}
