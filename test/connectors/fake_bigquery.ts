/**
 * BigQuery's REST API as Google documents it: checked tokens, pages, slow jobs that can be cancelled. It understands no
 * SQL: a test sets the result of a query. Google's own client library has verified it.
 */
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";

export type Cell = { v: unknown };
export type FakeTable = {
  fields: object[];
  total: number;
  row: (index: number) => Cell[];
  statementType?: string;
  /** Number of requests that are answered as unfinished. */
  slow?: number;
  /** Every page names this as the next one. */
  next?: string;
};
type Refused = { status: number; reason: string; message: string };
type Job = { table: FakeTable; waits: number; cancelled: boolean };

export const PROJECT = "fake-project";
const { publicKey, privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

const refuse = (status: number, reason: string, message: string) =>
  Response.json({ error: { code: status, message, errors: [{ message, domain: "global", reason }] } }, { status });

export function fakeBigquery() {
  const answers = new Map<string, FakeTable | Refused>();
  const jobs = new Map<string, Job>();
  const seen: { method: string; path: string; body: unknown }[] = [];
  const tokens = new Set<string>();
  let busy = 0;

  const server: Bun.Server<undefined> = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    routes: {
      "/token": { POST: async (request) => exchange(await request.formData(), `${server.url.origin}/token`, tokens) },
    },
    async fetch(request) {
      const url = new URL(request.url);
      const body = request.method === "POST" ? await request.json().catch(() => ({})) : undefined;
      seen.push({ method: request.method, path: url.pathname + url.search, body });
      if (!tokens.has(request.headers.get("authorization")?.replace("Bearer ", "") ?? ""))
        return refuse(401, "authError", "Request had invalid authentication credentials.");
      if (busy > 0 && request.method === "GET") {
        busy--;
        return refuse(503, "backendError", "Try again");
      }
      const [, rest = ""] = /^\/bigquery\/v2\/projects\/fake-project\/(.*)$/.exec(url.pathname) ?? [];
      if (request.method === "POST" && rest === "jobs") return plan(body.configuration.query.query);
      if (request.method === "POST" && rest === "queries") return begin(body);
      const [, kind, id = "", action] = /^(queries|jobs)\/([^/]+)(?:\/(cancel))?$/.exec(rest) ?? [];
      const job = jobs.get(id);
      if (!job) return refuse(404, "notFound", `Not found: ${url.pathname}`);
      if (kind === "jobs" && action === "cancel") {
        job.cancelled = true;
        return Response.json({ kind: "bigquery#jobCancelResponse", job: {} });
      }
      return page(id, job, url.searchParams);
    },
  });

  function find(query: string): FakeTable | Response {
    const inner = /^SELECT COUNT\(\*\) AS n FROM \(([\s\S]*)\n\)$/.exec(query)?.[1];
    const found = answers.get(inner ?? query);
    if (!found) return refuse(400, "invalidQuery", `Syntax error: Unexpected ${query}`);
    if ("status" in found) return refuse(found.status, found.reason, found.message);
    if (inner === undefined) return found;
    return { fields: [{ name: "n", type: "INTEGER" }], total: 1, row: () => [{ v: String(found.total) }] };
  }

  function plan(query: string): Response {
    const table = find(query);
    if (table instanceof Response) return table;
    const { fields, statementType = "SELECT" } = table;
    const statistics = { totalBytesProcessed: "0", query: { statementType, schema: { fields } } };
    return Response.json({ kind: "bigquery#job", status: { state: "DONE" }, statistics });
  }

  function begin(body: { query: string; maxResults?: number; location?: string }): Response {
    const table = find(body.query);
    if (table instanceof Response) return table;
    const id = `job_${crypto.randomUUID()}`;
    const job = { table, waits: table.slow ?? 0, cancelled: false };
    jobs.set(id, job);
    const max = String(body.maxResults ?? 1000);
    return page(id, job, new URLSearchParams({ maxResults: max }));
  }

  function page(id: string, job: Job, query: URLSearchParams): Response {
    const jobReference = { projectId: PROJECT, jobId: id, location: "EU" };
    if (job.cancelled) return refuse(499, "stopped", "Job execution was cancelled: User requested cancellation");
    if (job.waits > 0) {
      job.waits--;
      return Response.json({ kind: "bigquery#queryResponse", jobReference, jobComplete: false });
    }
    const { table } = job;
    const from = Number(query.get("pageToken") ?? 0);
    const to = Math.min(table.total, from + Number(query.get("maxResults") ?? 10_000));
    const next = table.next ?? (to < table.total ? String(to) : undefined);
    const more = next === undefined ? "" : `,"pageToken":"${next}"`;
    const head = `{"kind":"bigquery#getQueryResultsResponse","schema":${JSON.stringify({ fields: table.fields })},"jobReference":${JSON.stringify(jobReference)},"totalRows":"${table.total}"${more},"jobComplete":true`;
    if (to === from) return json(`${head}}`);
    const rows = Array.from({ length: to - from }, (_, i) => JSON.stringify({ f: table.row(from + i) }));
    return json(`${head},"rows":[${rows.join(",")}]}`);
  }

  return {
    url: server.url.origin,
    port: server.port!,
    answers,
    jobs,
    seen,
    /** The key file of its one service account. */
    account: {
      type: "service_account",
      project_id: PROJECT,
      private_key_id: "key-1",
      private_key: privateKey,
      client_email: "robot@fake-project.iam.gserviceaccount.com",
      token_uri: `${server.url.origin}/token`,
    },
    /** Accepts this token from now on. */
    accept: (token: string) => void tokens.add(token),
    /** Answers this many requests with 503. */
    stumble: (times: number) => {
      busy = times;
    },
    [Symbol.dispose]: () => void server.stop(true),
  };
}

const json = (text: string) => new Response(text, { headers: { "content-type": "application/json; charset=UTF-8" } });

/** RFC 7523, as Google's token service checks it. */
function exchange(form: FormData, audience: string, tokens: Set<string>): Response {
  const [header = "", claims = "", signature = ""] = String(form.get("assertion")).split(".");
  const key = createPublicKey(publicKey);
  const genuine = verify("RSA-SHA256", Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, "base64url"));
  const { alg, kid } = genuine ? JSON.parse(Buffer.from(header, "base64url").toString()) : {};
  const { iss, aud, scope, iat, exp } = genuine ? JSON.parse(Buffer.from(claims, "base64url").toString()) : {};
  const now = Date.now() / 1000;
  const right =
    form.get("grant_type") === "urn:ietf:params:oauth:grant-type:jwt-bearer" &&
    alg === "RS256" &&
    kid === "key-1" &&
    iss === "robot@fake-project.iam.gserviceaccount.com" &&
    aud === audience &&
    scope === "https://www.googleapis.com/auth/bigquery" &&
    iat <= now + 1 &&
    exp > now &&
    exp - iat <= 3600;
  if (!right) return Response.json({ error: "invalid_grant", error_description: "Invalid JWT" }, { status: 400 });
  const access_token = `ya29.${crypto.randomUUID()}`;
  tokens.add(access_token);
  return Response.json({ access_token, expires_in: 3599, token_type: "Bearer" });
}
