// tier: all (whole paths on the executable)
/**
 * Credentials that a caller gives for a source are stored nowhere: in no file of the data directory, in no line of the
 * log, in no answer. Each source is tested, validated, connected and read, with right and with wrong credentials.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { rmSync } from "node:fs";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { startBinary } from "../binary.ts";
import { startFakeHf } from "../connectors/fake_hf.ts";
import { until } from "../harness.ts";
import { allowLongTurns } from "../long_turns.ts";
import { azurite, bigqueryLocal, describeWith, gcs, judge, mariadb, minio, postgres } from "../servers/servers.ts";
import { whereFound } from "./secrets_search.ts";

allowLongTurns("it ends thirty workers, and on a busy machine the kernel takes long to release one (wait4)");

const TOKEN = "hf_MarkedTokenOfTheHub123456";
const hub = startFakeHf({ "lab/rows": { token: TOKEN, files: { "train.jsonl": '{"prompt":"a"}\n{"prompt":"b"}\n' } } });
/** Answers every request with 401 and repeats the whole request, which is the worst that a server can do. */
const fakeTeller = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const told = { url: request.url, headers: Object.fromEntries(request.headers), body: await request.text() };
    return Response.json(
      { code: "390144", message: JSON.stringify(told), error: { message: JSON.stringify(told) } },
      { status: 401 },
    );
  },
});

let server: Awaited<ReturnType<typeof startBinary>>;
const answers: string[] = [];
beforeAll(async () => {
  server = await startBinary({
    env: { VERK_NETWORK__ALLOW: "127.0.0.1,localhost", VERK_HUB__ENDPOINT: hub.url, VERK_LOG__LEVEL: "debug" },
  });
});
afterAll(async () => {
  hub[Symbol.dispose]();
  await fakeTeller.stop(true);
  await server.kill("SIGKILL");
  rmSync(server.dir, { recursive: true, force: true });
});

async function call(method: string, path: string, json?: unknown) {
  const answer = await server.call(method, path, json);
  answers.push(answer.text);
  return answer;
}

type Case = { source: object; credentials: object; wrong: object; secrets: string[]; rows: number | undefined };

/** Everything one can do with a source; `rows` undefined: there is no server that would take the credentials. */
async function use({ source, credentials, wrong, rows }: Case) {
  const connected = await call("POST", "/v1/datasets/connect", { name: "c", ...source, credentials });
  expect(connected.status).toBe(rows === undefined ? 400 : 201);
  const seen = await call("POST", "/v1/datasets/connect/validate", { ...source, credentials });
  expect(seen).toMatchObject({ status: 200, body: { valid: rows !== undefined, num_rows: rows ?? 0 } });
  const refused = await call("POST", "/v1/datasets/connect/validate", { ...source, credentials: wrong });
  expect(refused).toMatchObject({ status: 200, body: { valid: false } });
  expect((await call("POST", "/v1/datasets/connect", { name: "c", ...source, credentials: wrong })).status).toBe(400);
  if (rows === undefined) return;
  for (const [given, status] of [
    [wrong, "failed"],
    [credentials, "completed"],
  ] as const) {
    const { body } = await call("POST", `/v1/datasets/${connected.body.id}/resolutions`, { credentials: given });
    const ended = await until("the reading to end", async () => {
      const { body: now } = await call("GET", `/v1/datasets/${connected.body.id}/resolutions/${body.id}`);
      return now.finished_at === null ? undefined : now;
    });
    expect(ended).toMatchObject({ status, ...(status === "completed" ? { rows } : {}) });
  }
  await call("GET", `/v1/datasets/${connected.body.id}`);
  await call("GET", "/v1/events?limit=100");
}

const found = (secrets: readonly string[]) =>
  whereFound(secrets, [server.dir], { "the log": server.stderr(), "an answer": answers.join("\n") });

const leavesNothing = (name: string, prepare: () => Promise<Case> | Case) =>
  test(`${name}: the credentials are stored nowhere afterwards`, async () => {
    const given = await prepare();
    await use(given);
    expect(given.secrets.every((secret) => secret.length > 5)).toBe(true);
    expect(found(given.secrets)).toEqual([]);
  }, 60_000);

test("the search would find the credentials", async () => {
  await call("POST", "/v1/datasets", { name: "marker-in-the-open", format: "prompt" });
  expect(found(["marker-in-the-open"]).length).toBeGreaterThan(1);
});

describeWith("s3", minio, (s3) => {
  leavesNothing("s3", async () => {
    const keys = { accessKeyId: s3.accessKeyId, secretAccessKey: s3.secretAccessKey };
    const client = new S3Client({ endpoint: s3.url, region: s3.region, forcePathStyle: true, credentials: keys });
    const bucket = `b${crypto.randomUUID()}`;
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
    await new Bun.S3Client({ ...keys, endpoint: s3.url, region: s3.region, bucket }).write(
      "a.jsonl",
      '{"prompt":"a"}\n',
    );
    const credentials = { access_key_id: s3.accessKeyId, secret_access_key: s3.secretAccessKey, region: s3.region };
    return {
      source: { source_type: "s3", source_uri: `s3://${bucket}/a.jsonl?endpoint=${s3.url}` },
      credentials,
      wrong: { ...credentials, secret_access_key: "marked-wrong-secret-s3" },
      secrets: [s3.secretAccessKey, "marked-wrong-secret-s3"],
      rows: 1,
    };
  });
});

describeWith("az", azurite, (blobs) => {
  leavesNothing("az", async () => {
    const { StorageSharedKeyCredential, BlobServiceClient } = await judge("@azure/storage-blob");
    const service = new BlobServiceClient(blobs.url, new StorageSharedKeyCredential(blobs.account, blobs.key));
    const container = service.getContainerClient(`c${crypto.randomUUID()}`);
    await container.create();
    await container.getBlockBlobClient("a.jsonl").upload('{"prompt":"a"}\n', 15);
    const wrong = Buffer.from("marked-wrong-secret-of-azure-blobs").toString("base64");
    return {
      source: {
        source_type: "az",
        source_uri: `az://${blobs.account}/${container.containerName}/a.jsonl?endpoint=${blobs.url}`,
      },
      credentials: { account_name: blobs.account, account_key: blobs.key },
      wrong: { account_name: blobs.account, account_key: wrong },
      secrets: [blobs.key, wrong],
      rows: 1,
    };
  });
});

describeWith("gs", gcs, (google) => {
  leavesNothing("gs", async () => {
    const { Storage } = await judge("@google-cloud/storage");
    const storage = new Storage({ apiEndpoint: google.url, projectId: google.projectId });
    await storage.bucket("verk-leaks").file("a.jsonl").save('{"prompt":"a"}\n', { resumable: false });
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
    const account = {
      type: "service_account",
      client_email: "reader@lab.iam.example",
      private_key: pem,
      token_uri: `http://127.0.0.1:${fakeTeller.port}/token`,
    };
    return {
      source: { source_type: "gs", source_uri: `gs://verk-leaks/a.jsonl?endpoint=${google.url}` },
      credentials: { access_token: "marked-access-token-gs" },
      wrong: { service_account: account },
      secrets: ["marked-access-token-gs", pem, pem.split("\n")[5] ?? ""],
      rows: 1,
    };
  });
});

describe("hf", () => {
  leavesNothing("hf", () => ({
    source: { source_type: "hf", hub_dataset: "lab/rows", hub_config: { split: "train", token: TOKEN } },
    credentials: { token: TOKEN },
    wrong: { token: "hf_MarkedWrongTokenOfTheHub" },
    secrets: [TOKEN, "hf_MarkedWrongTokenOfTheHub"],
    rows: 2,
  }));
});

for (const [type, start] of [
  ["postgres", postgres],
  ["mysql", mariadb],
] as const)
  describeWith(type, start, (db) => {
    leavesNothing(type, () => ({
      source: {
        source_type: type,
        db_connection: `${type}://${db.user}:marked-password-in-the-url@${db.host}:${db.port}/${db.database}`,
        db_query: "SELECT 'a' AS prompt",
      },
      credentials: { password: db.password },
      wrong: { password: "marked-wrong-password-sql" },
      secrets: [db.password, "marked-wrong-password-sql", "marked-password-in-the-url"],
      rows: 1,
    }));
  });

describeWith("bigquery", bigqueryLocal, (google) => {
  leavesNothing("bigquery", () => ({
    source: {
      source_type: "bigquery",
      db_connection: { project_id: google.projectId, endpoint: google.url },
      db_query: "SELECT 'a' AS prompt",
    },
    credentials: { access_token: "marked-access-token-bigquery" },
    wrong: {
      service_account: {
        type: "service_account",
        client_email: "reader@lab.iam.example",
        private_key: "-----BEGIN PRIVATE KEY-----\nmarkedbrokenkeymaterial\n-----END PRIVATE KEY-----\n",
        token_uri: `http://127.0.0.1:${fakeTeller.port}/token`,
      },
    },
    secrets: ["marked-access-token-bigquery", "markedbrokenkeymaterial"],
    rows: 1,
  }));
});

describe("snowflake", () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  leavesNothing("snowflake, whose server repeats all it was told", () => ({
    source: {
      source_type: "snowflake",
      db_connection: {
        account: "org-lab",
        user: "reader",
        warehouse: "w",
        endpoint: `http://127.0.0.1:${fakeTeller.port}`,
      },
      db_query: "SELECT 'a' AS prompt",
    },
    credentials: { private_key: pem },
    wrong: { token: "marked-programmatic-token" },
    secrets: ["marked-programmatic-token", pem, pem.split("\n")[5] ?? ""],
    rows: undefined,
  }));
});
