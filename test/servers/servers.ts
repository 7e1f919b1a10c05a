import { describe, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { IS_FULL } from "../sweep.ts";
import { startBigqueryLocal, startGcs } from "./google.ts";
import { startMariadb } from "./mariadb.ts";
import { startAzurite, startMinio } from "./objects.ts";
import { startPostgres } from "./postgres.ts";
import { INSTALLED, mustFind, NotAvailable, once, packages } from "./process.ts";
import { startSlurm } from "./slurm.ts";
import { startSshd } from "./sshd.ts";

export { NotAvailable };

/**
 * Real servers for the tests, each started once per test process, on first use, on a free port of 127.0.0.1. They end
 * with the process, however it ends. One MinIO serves all processes of a run. scripts/servers installs them; one that cannot be had throws NotAvailable.
 */
export type Sql = {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
  /** With the credentials, without TLS. */
  url: string;
  /** PEM of the authority that signed its certificate (for 127.0.0.1); plain connections are taken too. */
  caFile: string;
};
export type S3Server = { url: string; region: string; accessKeyId: string; secretAccessKey: string };
/** `url` ends in the account: http://127.0.0.1:1234/devstoreaccount1 */
export type BlobServer = { url: string; account: string; key: string };
/** No credentials are checked. */
export type GoogleServer = { url: string; projectId: string };

export const postgres = once(startPostgres);
export const mariadb = once(startMariadb);
export const sshd = once(() => startSshd());
export const slurm = once(startSlurm);
/** The login node of that cluster. */
export const slurmLogin = once(async () => {
  const cluster = await slurm();
  return { cluster, login: await startSshd({ path: cluster.bin }) };
});
/** scripts/test shares one MinIO between its processes: an emulated one takes a third of a core even at rest. */
const shared = process.env["VERK_TEST_MINIO"];
export const minio = once(async () => (shared ? (JSON.parse(shared) as S3Server) : startMinio()));
/** For long suites. An emulated MinIO takes several times as long, so only `./scripts/test --full` runs them there. */
export const nativeMinio = once(async () => {
  if (process.arch !== "x64" && !IS_FULL) throw new NotAvailable("native minio", "./scripts/test --full emulates it");
  return await minio();
});
export const azurite = once(startAzurite);
export const gcs = once(startGcs);
export const bigqueryLocal = once(startBigqueryLocal);

// biome-ignore lint/suspicious/noExplicitAny: the libraries are not installed where the compiler looks
type Library = any;

/** An official client library that judges what we speak: `const { Storage } = await judge("@google-cloud/storage")`. */
export async function judge<T = Library>(name: string): Promise<T> {
  mustFind(name, [packages(name)]);
  process.env["METADATA_SERVER_DETECTION"] = "none"; // Google's would look for a cloud around them
  return (await import(Bun.resolveSync(name, INSTALLED))) as T;
}

/**
 * The tests of `define`, with the server (or the library: `() => judge("…")`). Where it cannot be had, one skipped test
 * says why, and so does the summary of scripts/test.
 */
export function describeWith<T>(name: string, start: () => Promise<T>, define: (server: T) => void) {
  describe(name, async () => {
    const server = await start().catch((error: unknown) => {
      if (error instanceof NotAvailable) notTested(error);
      else
        test("the server starts", () => {
          throw error;
        });
    });
    if (server) define(server);
  });
}

function notTested({ server, reason, message }: NotAvailable) {
  test.skip(message, () => {});
  const summary = process.env["VERK_TEST_SUMMARY"];
  if (summary !== undefined) appendFileSync(summary, `${server} (${reason})\n`);
}
