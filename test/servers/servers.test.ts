// tier: all (many seconds)
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { S3Client, SQL } from "bun";
import { until } from "../harness.ts";
import { cuttingProxy } from "./proxy.ts";
import { azurite, bigqueryLocal, describeWith, gcs, judge, mariadb, minio, NotAvailable, postgres } from "./servers.ts";

async function query(url: string, tls: false | { ca?: string; rejectUnauthorized: boolean } = false) {
  const sql = new SQL(url, { max: 1, tls });
  try {
    const [row] = await sql.unsafe("SELECT 1 AS one");
    return row.one;
  } finally {
    await sql.close();
  }
}

for (const [name, start] of [
  ["postgres", postgres],
  ["mariadb", mariadb],
] as const)
  describeWith(name, start, (server) => {
    test("accepts the password with TLS and without, and no other password", async () => {
      expect(await query(server.url)).toBe(1);
      const ca = readFileSync(server.caFile, "utf8");
      expect(await query(server.url, { ca, rejectUnauthorized: true })).toBe(1);
      await expect(query(server.url, { rejectUnauthorized: true })).rejects.toThrow();
      await expect(query(server.url.replace("s3cret", "wrong"))).rejects.toThrow();
    });

    test("is cut off by the proxy in the middle of an answer", async () => {
      using proxy = cuttingProxy(server.port);
      proxy.cutAfter(100_000);
      const sql = new SQL(server.url.replace(`:${server.port}/`, `:${proxy.port}/`), { max: 1 });
      const big = `SELECT ${"repeat('x', 100000), ".repeat(9)} repeat('x', 100000)`;
      expect(await sql.unsafe(big).catch((error: Error) => error)).toBeInstanceOf(Error);
      expect((await sql.unsafe("SELECT 1 AS one"))[0].one).toBe(1);
      expect(proxy.bytes).toBeGreaterThan(100_000);
      await sql.close();
    });
  });

describeWith("minio", minio, (server) => {
  test("checks signatures", async () => {
    const options = { endpoint: server.url, region: server.region, bucket: "none", accessKeyId: server.accessKeyId };
    const right = new S3Client({ ...options, secretAccessKey: server.secretAccessKey });
    await expect(right.list()).rejects.toMatchObject({ code: "NoSuchBucket" });
    const wrong = new S3Client({ ...options, secretAccessKey: "wrong" });
    await expect(wrong.list()).rejects.toMatchObject({ code: "SignatureDoesNotMatch" });
  });
});

describeWith("azurite", azurite, (server) => {
  test("checks signatures", async () => {
    expect((await fetch(`${server.url}?comp=list`)).status).toBe(403);
    const { BlobServiceClient, StorageSharedKeyCredential } = await judge("@azure/storage-blob");
    const client = (key: string) =>
      new BlobServiceClient(server.url, new StorageSharedKeyCredential(server.account, key));
    expect((await client(server.key).createContainer("some")).containerClient.containerName).toBe("some");
    await expect(client(btoa("wrong")).createContainer("other")).rejects.toThrow();
  });
});

describeWith("gcs", gcs, (server) => {
  test("gives an object back to Google's own client", async () => {
    const { Storage } = await judge("@google-cloud/storage");
    const storage = new Storage({ apiEndpoint: server.url, projectId: server.projectId });
    await storage.bucket("some").file("a/b.txt").save("hello");
    const [content] = await storage.bucket("some").file("a/b.txt").download();
    expect(content.toString()).toBe("hello");
  });
});

describeWith("bigquery-local", bigqueryLocal, (server) => {
  test("answers a query of Google's own client", async () => {
    const { BigQuery } = await judge("@google-cloud/bigquery");
    const client = new BigQuery({ apiEndpoint: server.url, projectId: server.projectId });
    const [rows] = await client.query("SELECT 1 AS one, NUMERIC '1.10' AS price");
    expect(rows).toHaveLength(1);
    expect(rows[0].one).toBe(1);
  });
});

test("a missing server is named with the reason", async () => {
  await expect(judge("@verk/no-such-package")).rejects.toBeInstanceOf(NotAvailable);
});

test("a server ends with the test process, even after a kill, and its files are removed too", async () => {
  const script = `
    import { scratch, launch } from ${JSON.stringify(join(import.meta.dir, "process.ts"))};
    const dir = scratch("sleeper");
    await launch({ dir, argv: () => ["sleep", "1000"], ready: () => Bun.file(dir + "/pid").exists() });
    console.log(dir, await Bun.file(dir + "/pid").text());
    setInterval(() => {}, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  const { value } = await child.stdout.getReader().read();
  const [dir = "", pid = ""] = new TextDecoder().decode(value).trim().split(" ");
  const running = () => readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n";
  await until("the server to run", running).finally(() => child.kill("SIGKILL"));
  await until("the server to end", () => !existsSync(`/proc/${pid}`));
  await until("its files to go", () => !existsSync(dir));
});

test("the proxy passes a large answer whole, and holds little of it", async () => {
  const size = 50_000_000;
  using server = Bun.serve({ port: 0, fetch: () => new Response(new Uint8Array(size)) });
  using proxy = cuttingProxy(server.port!);
  const answer = await fetch(`http://127.0.0.1:${proxy.port}/`);
  expect((await answer.arrayBuffer()).byteLength).toBe(size);
  expect(proxy.bytes).toBeGreaterThan(size);
  proxy.cut({ refuse: true });
  const socket = connect(proxy.port, "127.0.0.1");
  await new Promise((done) => socket.on("close", done));
});
