/**
 * Snowflake's SQL REST API as documented: checked key-pair tokens, statements that keep running, compressed partitions,
 * cancelling. It understands no SQL: a test sets the result of a statement. Snowflake has no client library for this
 * API, so only the token has been verified with theirs.
 */
import { createHash, createPublicKey, generateKeyPairSync, verify } from "node:crypto";

export type FakeResult = {
  rowType: { name: string; type: string; scale?: number; precision?: number; nullable?: boolean }[];
  total: number;
  row: (index: number) => (string | null)[];
  partitionRows?: number;
  /** Number of requests that are answered as still running. */
  slow?: number;
  /** Number of rows that the last partition lacks. */
  lost?: number;
};
type Refused = { status: number; code: string; sqlState?: string; message: string };
type Statement = { result: FakeResult | Refused; waits: number; cancelled: boolean; sql: string };

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const PRIVATE_KEY = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
export const LOCKED_KEY = privateKey.export({
  type: "pkcs8",
  format: "pem",
  cipher: "aes-256-cbc",
  passphrase: "open sesame",
}) as string;
const DER = createPublicKey(publicKey.export({ type: "spki", format: "pem" })).export({ type: "spki", format: "der" });
export const FINGERPRINT = `SHA256:${createHash("sha256").update(DER).digest("base64")}`;
export const PAT = "pat-m4rked-token-of-somebody";
const SUBJECT = "MYORG-MYACCOUNT.ANN";

export function fakeSnowflake() {
  const answers = new Map<string, FakeResult | Refused>();
  const statements = new Map<string, Statement>();
  const seen: { method: string; path: string; body?: Record<string, unknown> }[] = [];

  const server: Bun.Server<undefined> = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    async fetch(request) {
      const { pathname, search, searchParams } = new URL(request.url);
      const body = request.method === "POST" ? await request.json().catch(() => ({})) : undefined;
      seen.push({ method: request.method, path: pathname + search, ...(body ? { body } : {}) });
      if (!request.headers.get("user-agent")) return refuse({ status: 400, code: "391902", message: "User-Agent" });
      if (!authorized(request.headers))
        return refuse({ status: 401, code: "390144", message: "JWT token is invalid. [some-id]" });
      if (request.method === "POST" && pathname === "/api/v2/statements") return begin(body, searchParams);
      const [, handle = "", action] = /^\/api\/v2\/statements\/([^/]+)(?:\/(cancel))?$/.exec(pathname) ?? [];
      const statement = statements.get(handle);
      if (!statement) return refuse({ status: 404, code: "390142", message: "Statement not found" });
      if (action !== "cancel") return show(handle, statement, searchParams.get("partition"));
      if (request.method !== "POST") return new Response(null, { status: 405 });
      statement.cancelled = true;
      return Response.json({ statementHandle: handle, message: "successfully canceled" });
    },
  });

  function begin(body: { statement: string; parameters?: Record<string, string> }, query: URLSearchParams): Response {
    const handle = crypto.randomUUID();
    const result = find(body.statement);
    const waits = "total" in result ? (result.slow ?? 0) : 0;
    statements.set(handle, { result, waits, cancelled: false, sql: body.statement });
    if (query.get("async") === "true") return running(handle);
    return show(handle, statements.get(handle)!, null);
  }

  function find(sql: string): FakeResult | Refused {
    const described = /^SELECT \* FROM \(([\s\S]*)\n\) LIMIT 0$/.exec(sql)?.[1];
    const counted = /^SELECT COUNT\(\*\) AS N FROM \(([\s\S]*)\n\)$/.exec(sql)?.[1];
    const found = answers.get(described ?? counted ?? sql);
    if (!found || !("total" in found))
      return found ?? { status: 422, code: "001003", sqlState: "42000", message: `SQL compilation error: ${sql}` };
    if (described !== undefined) return { ...found, total: 0, slow: 0, lost: 0 };
    if (counted === undefined) return found;
    return { rowType: [{ name: "N", type: "fixed", scale: 0 }], total: 1, row: () => [String(found.total)] };
  }

  function show(handle: string, { result, cancelled, ...statement }: Statement, partition: string | null): Response {
    const here = statements.get(handle)!;
    if (cancelled) return refuse({ status: 422, code: "000604", sqlState: "57014", message: "SQL execution canceled" });
    if (statement.waits > 0) {
      here.waits--;
      return running(handle);
    }
    if (!("total" in result)) return refuse(result, handle);
    const size = result.partitionRows ?? 10_000;
    const rowsIn = (index: number) => Math.max(0, Math.min(size, result.total - index * size));
    const index = Number(partition ?? 0);
    const lost = rowsIn(index + 1) === 0 ? (result.lost ?? 0) : 0;
    const rows = Array.from({ length: rowsIn(index) - lost }, (_, i) => result.row(index * size + i));
    if (index > 0) return packed({ data: rows });
    const partitionInfo = Array.from({ length: Math.max(1, Math.ceil(result.total / size)) }, (_, i) => ({
      rowCount: rowsIn(i),
      uncompressedSize: 1,
    }));
    const resultSetMetaData = { numRows: result.total, format: "jsonv2", rowType: result.rowType, partitionInfo };
    return Response.json({
      resultSetMetaData,
      data: rows,
      code: "090001",
      statementStatusUrl: `/api/v2/statements/${handle}?requestId=x`,
      sqlState: "00000",
      statementHandle: handle,
      message: "Statement executed successfully.",
    });
  }

  return {
    url: server.url.origin,
    port: server.port!,
    answers,
    statements,
    seen,
    [Symbol.dispose]: () => void server.stop(true),
  };
}

const running = (handle: string) =>
  Response.json(
    {
      code: "333334",
      message: "Asynchronous execution in progress.",
      statementHandle: handle,
      statementStatusUrl: `/api/v2/statements/${handle}`,
    },
    { status: 202 },
  );

function refuse({ status, code, sqlState, message }: Refused, handle?: string): Response {
  return Response.json({ code, sqlState, message, statementHandle: handle }, { status });
}

const packed = (body: object) =>
  new Response(Bun.gzipSync(JSON.stringify(body)), {
    headers: { "content-type": "application/json", "content-encoding": "gzip" },
  });

function authorized(headers: Headers): boolean {
  const token = headers.get("authorization")?.replace(/^Bearer /, "") ?? "";
  if (token === PAT) return true;
  if (headers.get("x-snowflake-authorization-token-type") !== "KEYPAIR_JWT") return false;
  const [header = "", claims = "", signature = ""] = token.split(".");
  const bytes = Buffer.from(`${header}.${claims}`);
  if (!verify("RSA-SHA256", bytes, publicKey, Buffer.from(signature, "base64url"))) return false;
  const { iss, sub, iat, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
  const now = Date.now() / 1000;
  const right = sub === SUBJECT && iss === `${SUBJECT}.${FINGERPRINT}`;
  return right && iat <= now + 1 && exp > now && exp - iat <= 3600;
}
