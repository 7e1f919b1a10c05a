/** Reads the rows of one BigQuery query, page by page, over its REST API. docs/connectors.md lists the types. */
import { z } from "zod";
import { PIECE_ROWS } from "./formats/file.ts";
import { googleToken, readServiceAccount } from "./google_token.ts";
import { bigqueryFault } from "./sql/bigquery/fault.ts";
import { Field, rowCast } from "./sql/bigquery/values.ts";
import { type Hide, hiding, onlyKnown, textIn } from "./sql/fault.ts";
import { checked, distinct } from "./sql/lines.ts";
import { oneStatement } from "./sql/statement.ts";
import { ask, askMembers, cancel, endpointIn, pause, type Warehouse } from "./sql/warehouse.ts";
import { type Chunk, type Open, type Opening, SourceError } from "./types.ts";

const PUBLIC = "https://bigquery.googleapis.com";
const SCOPE = "https://www.googleapis.com/auth/bigquery";
const CONNECTION = "/db_connection";
const CONNECTION_FIELDS = ["project_id", "dataset", "location", "maximum_bytes_billed", "endpoint"];
/** Rows of one page; BigQuery itself sends no more than about 10 MB. */
const PAGE_ROWS = 10_000;
/** The wait until the job has a name. */
const START_MS = 500;
/** BigQuery may hold a request this long for rows that are not ready. */
const WAIT_MS = 10_000;
const BETWEEN_MS = 100;
const STOP_MS = 900;
const FORMAT = { useInt64Timestamp: true };

type Job = { warehouse: Warehouse; project: string; query: string; settings: object; hide: Hide };

export const open: Open = (opening) => {
  const job = jobFor(opening);
  return {
    test: async (signal) => void (await describe(job, signal)),
    columns: async (signal) => (await describe(job, signal)).map(({ name }) => name),
    count: async (signal) => {
      await describe(job, signal);
      const counting = { ...job, query: `SELECT COUNT(*) AS n FROM (${job.query}\n)` };
      const [first] = await Array.fromAsync(read(counting, [{ name: "n", type: "INTEGER" }], signal));
      return Number(JSON.parse(first?.lines[0] ?? '{"n":0}').n);
    },
    rows: ({ signal }) => readDescribed(job, signal),
  };
};

function jobFor({ source, credentials, dialer, limits }: Opening): Job {
  const { db_connection: connection } = source;
  if (typeof connection !== "object" || connection === null)
    throw new SourceError("invalid_source", 'db_connection must be an object such as {"project_id": "…"}', CONNECTION);
  onlyKnown(connection, CONNECTION_FIELDS, CONNECTION);
  const hide = hiding(credentials);
  const { authorize, ownProject } = authorizing({ source, credentials, dialer, limits });
  const project = textIn(connection, "project_id", CONNECTION) ?? ownProject;
  if (project === undefined)
    throw new SourceError("invalid_source", "project_id is missing in db_connection", `${CONNECTION}/project_id`);
  const dataset = textIn(connection, "dataset", CONNECTION);
  const location = textIn(connection, "location", CONNECTION);
  const bytes = connection["maximum_bytes_billed"];
  return {
    project,
    query: oneStatement(source.db_query ?? "", "bigquery"),
    settings: {
      useLegacySql: false,
      ...(dataset === undefined ? {} : { defaultDataset: { projectId: project, datasetId: dataset } }),
      ...(location === undefined ? {} : { location }),
      ...(bytes === undefined ? {} : { maximumBytesBilled: String(bytes) }),
    },
    hide,
    warehouse: {
      name: "BigQuery",
      endpoint: endpointIn(textIn(connection, "endpoint", CONNECTION), PUBLIC),
      authorize,
      refusal: (status, body) => bigqueryFault(status, body, hide),
      dialer,
      limits,
    },
  };
}

function authorizing({ credentials, dialer }: Pick<Opening, "source" | "credentials" | "dialer" | "limits">) {
  const token = textIn(credentials, "access_token", "/credentials");
  if (token !== undefined)
    return { authorize: async () => ({ authorization: `Bearer ${token}` }), ownProject: undefined };
  const key = credentials["service_account"] ?? (credentials["private_key"] === undefined ? undefined : credentials);
  if (key === undefined || key === null)
    throw new SourceError(
      "invalid_source",
      "credentials must contain service_account (the key file) or access_token",
      "/credentials",
    );
  const account = readServiceAccount(key);
  const tokens = googleToken(account, SCOPE, dialer);
  return {
    authorize: async (signal: AbortSignal) => ({ authorization: `Bearer ${await tokens(signal)}` }),
    ownProject: account.project_id,
  };
}

const at = ({ project }: Job, rest: string) => `/bigquery/v2/projects/${encodeURIComponent(project)}/${rest}`;

const Planned = z.object({
  statistics: z.object({
    query: z.object({ statementType: z.string().optional(), schema: z.object({ fields: z.array(Field) }).optional() }),
  }),
});

/** A dry run costs nothing and reports the kind of statement. Only SELECT may pass. */
async function describe(job: Job, signal: AbortSignal): Promise<Field[]> {
  const { location, ...settings } = job.settings as { location?: string };
  const body = {
    ...(location === undefined ? {} : { jobReference: { projectId: job.project, location } }),
    configuration: { dryRun: true, query: { query: job.query, ...settings } },
  };
  const { body: said } = await ask(job.warehouse, { path: at(job, "jobs"), body, signal });
  const planned = Planned.safeParse(said);
  if (!planned.success) throw new SourceError("broken", "BigQuery did not describe the result of db_query");
  const { statementType = "SELECT", schema } = planned.data.statistics.query;
  if (statementType !== "SELECT")
    throw new SourceError(
      "invalid_source",
      `db_query must be a SELECT statement, but it is ${statementType}`,
      "/db_query",
    );
  const fields = schema?.fields ?? [];
  distinct(fields.map(({ name }) => name));
  return fields;
}

async function* readDescribed(job: Job, signal: AbortSignal): AsyncIterable<Chunk> {
  yield* read(job, await describe(job, signal), signal);
}

const Page = z.object({
  jobComplete: z.boolean(),
  jobReference: z.object({ jobId: z.string(), location: z.string().optional() }).optional(),
  totalRows: z.coerce.number().optional(),
  pageToken: z.string().optional(),
});
type Started = { jobId: string; location?: string | undefined };

async function* read(job: Job, fields: Field[], signal: AbortSignal): AsyncGenerator<Chunk> {
  const write = rowCast(fields);
  const { limits } = job.warehouse;
  const deadline = Date.now() + limits.statementMs;
  const started = await start(job, signal);
  let isRunning = true;
  let rows = 0;
  try {
    for (let token: string | undefined = ""; token !== undefined; ) {
      const pages = askMembers(job.warehouse, { path: results(job, started, token), signal }, "rows");
      let next = await pages.next();
      for (; !next.done; next = await pages.next())
        yield* pieces(next.value.map((text) => checked(write(text), ++rows, limits.rowBytes)));
      const { jobComplete, pageToken, totalRows } = pageOf(next.value.body);
      if (!jobComplete && Date.now() > deadline) throw tooSlow(limits.statementMs);
      if (!jobComplete) {
        await pause(BETWEEN_MS, signal); // in addition to the server's own wait
        continue;
      }
      isRunning = false;
      const isLast = !pageToken;
      if (totalRows !== undefined && (rows > totalRows || (isLast && rows < totalRows)))
        throw new SourceError("broken", `BigQuery sent ${rows} of ${totalRows} rows. Try again`);
      if (!isLast && pageToken === token)
        throw new SourceError("broken", "BigQuery returned the same page token twice. Try again");
      token = isLast ? undefined : pageToken;
    }
  } finally {
    if (isRunning) await cancel(job.warehouse, cancelling(job, started));
  }
}

/**
 * Starts the job with a request of its own, without rows, that answers soon. Until then the job has no name, so an
 * abort meanwhile waits for the name and then cancels the job.
 */
async function start(job: Job, signal: AbortSignal): Promise<Started> {
  const { limits } = job.warehouse;
  const body = {
    query: job.query,
    ...job.settings,
    maxResults: 0,
    timeoutMs: START_MS,
    jobTimeoutMs: String(limits.statementMs),
    formatOptions: FORMAT,
  };
  const late = new AbortController();
  const stop = () => void setTimeout(() => late.abort(signal.reason), STOP_MS);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const answers = askMembers(job.warehouse, { path: at(job, "queries"), body, signal: late.signal }, "rows");
    let next = await answers.next();
    while (!next.done) next = await answers.next();
    const { jobReference } = pageOf(next.value.body);
    if (jobReference === undefined) throw new SourceError("broken", "BigQuery did not name the job that it started");
    if (signal.aborted) await cancel(job.warehouse, cancelling(job, jobReference));
    signal.throwIfAborted();
    return jobReference;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function pageOf(body: unknown) {
  const page = Page.safeParse(body);
  if (page.success) return page.data;
  throw new SourceError("broken", "BigQuery's answer is not a page of a result");
}

function results(job: Job, { jobId, location }: Started, pageToken: string): string {
  const query = new URLSearchParams({
    maxResults: String(PAGE_ROWS),
    timeoutMs: String(Math.min(WAIT_MS, Math.floor(job.warehouse.limits.connectMs / 2))),
    "formatOptions.useInt64Timestamp": String(FORMAT.useInt64Timestamp),
    ...(pageToken === "" ? {} : { pageToken }),
    ...(location === undefined ? {} : { location }),
  });
  return at(job, `queries/${encodeURIComponent(jobId)}?${query}`);
}

function cancelling(job: Job, { jobId, location }: Started): string {
  const query = location === undefined ? "" : `?${new URLSearchParams({ location })}`;
  return at(job, `jobs/${encodeURIComponent(jobId)}/cancel${query}`);
}

const tooSlow = (ms: number) =>
  new SourceError(
    "broken",
    `The statement took longer than ${ms} ms (connectors.statement_timeout_ms) and was stopped`,
    "/db_query",
  );

function* pieces(lines: string[]): Generator<Chunk> {
  for (let from = 0; from < lines.length; from += PIECE_ROWS)
    yield { lines: lines.slice(from, from + PIECE_ROWS), cursor: null };
}
