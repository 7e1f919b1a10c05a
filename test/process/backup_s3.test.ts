// tier: all (backups and stores of objects)
/** Backups in a bucket of a real MinIO, made and restored by the executable as an operator would. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { startBinary } from "../binary.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { describeWith, minio } from "../servers/servers.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

describeWith("backups in a bucket", minio, (s3) => {
  const passphrase = join(root, "passphrase");
  const bucket = `backups-${crypto.randomUUID()}`;
  const target = `s3://${bucket}/lab`;
  const env = {
    VERK_BACKUP__TARGET: target,
    VERK_BACKUP__S3_ENDPOINT: s3.url,
    VERK_BACKUP__S3_REGION: s3.region,
    VERK_BACKUP__S3_ACCESS_KEY_ID: s3.accessKeyId,
    VERK_BACKUP__S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
    VERK_BACKUP__PASSPHRASE_FILE: passphrase,
  };
  const backup = (args: string[], more: Record<string, string> = {}) =>
    runVerk(["backup", ...args], { cwd: root, env: { ...env, ...more } });

  async function openBucket() {
    writeFileSync(passphrase, "correct horse battery");
    const credentials = { accessKeyId: s3.accessKeyId, secretAccessKey: s3.secretAccessKey };
    const client = new S3Client({ endpoint: s3.url, region: s3.region, forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  }

  test("create, list, verify, prune, a kill, a restore, and the log of changes", async () => {
    await openBucket();
    const data = join(root, "data");
    mkdirSync(data);
    const scheduled = { VERK_BACKUP__SCHEDULE: "30 2 * * *", VERK_BACKUP__LOG_SECONDS: "1" };
    const server = await startBinary({ dir: data, env: { ...env, ...scheduled } });
    const key = await server.apiKey();
    const { id } = (await server.call("POST", "/v1/datasets", { name: "d", format: "completion" })).body;
    const append = async (completion: string) =>
      (await server.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt: "a", completion }] })).status;
    await append("x".repeat(100_000));
    await server.call("POST", "/v1/volumes", { name: "v" });
    const content = Buffer.from(crypto.getRandomValues(new Uint8Array(64 << 10)))
      .toString("hex")
      .repeat(32);
    await server.call("PUT", "/v1/volumes/v/files/f", content);
    await server.call("PUT", "/v1/secrets/TOKEN", { value: "sealed" });

    const create = ["create", "--data", data, "--json"];
    const first = (await backup(create)).json();
    const second = (await backup(create)).json();
    expect(second.stored_bytes).toBeLessThan(first.stored_bytes / 2);
    const listed = (await backup(["list", "--json"])).lines().map((each: { id: string }) => each.id);
    expect(listed).toEqual(expect.arrayContaining([first.id, second.id]));
    expect(await backup(["verify"])).toMatchObject({ code: 0, out: expect.stringContaining("is sound") });

    const killed = spawnVerk(["backup", ...create], {
      cwd: root,
      env: { ...env, VERK_FAILPOINT: "backup.before_manifest:1" },
    });
    await killed.exited;
    expect(killed.signalCode).toBe("SIGKILL");
    const kept = await backup([...create, "--keep", "1"]);
    expect([kept.code, kept.err]).toEqual([0, expect.stringContaining("removed")]);
    expect((await backup(["list", "--json"])).lines()).toHaveLength(1);

    const acknowledged = Date.now();
    expect(await append("the last row")).toBe(201);
    const states = async () => {
      const found = /log of changes goes from \S+ to (\S+):/.exec((await backup(["list"])).err)?.[1];
      return found !== undefined && Date.parse(found) > acknowledged + 50;
    };
    await until("a state with the last row", states, 60_000);
    await server.kill("SIGKILL");

    const restored = join(root, "restored");
    expect(await backup(["restore", "--at", "latest", "--to", restored])).toMatchObject({ code: 0 });
    const again = await startBinary({ dir: restored, key });
    const rows = await again.call("GET", `/v1/datasets/${id}/rows/export?format=jsonl`);
    expect(rows.text.trim().split("\n")).toHaveLength(2);
    expect((await again.call("GET", "/v1/volumes/v/files/f")).text === content).toBe(true);
    expect((await again.call("GET", "/v1/secrets")).body.data).toMatchObject([{ name: "TOKEN" }]);
    await again.kill();
  }, 120_000);

  test("wrong credentials, a bucket that does not exist and a closed port are one sentence each", async () => {
    const data = join(root, "data");
    for (const [more, words] of [
      [
        { VERK_BACKUP__S3_SECRET_ACCESS_KEY: "a-marked-wrong-secret" },
        "Check backup.s3_access_key_id and backup.s3_secret_access_key",
      ],
      [{ VERK_BACKUP__TARGET: "s3://there-is-no-such-bucket/x" }, "Make it, or correct backup.target"],
      [{ VERK_BACKUP__S3_ENDPOINT: "http://127.0.0.1:1" }, "Check backup.s3_endpoint"],
    ] as const) {
      const { code, err } = await backup(["create", "--data", data], more);
      expect([code, err]).toEqual([1, expect.stringContaining(words)]);
      expect(err.trim().split("\n")).toHaveLength(1);
      expect(err).not.toContain("a-marked-wrong-secret");
    }
  }, 60_000);
});
