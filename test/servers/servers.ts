import { describe, test } from "bun:test";

/**
 * Real servers for the tests, each started once per test process, on first use, on a free port of 127.0.0.1. They end
 * with the process, however it ends. scripts/servers installs them; one that cannot be had throws NotAvailable.
 */
export type Sql = {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
  /** With the credentials, without TLS. */
  url: string;
  /** PEM of the authority that signed its certificate (for localhost and 127.0.0.1); plain connections are taken too. */
  caFile: string;
};
export type S3Server = { url: string; region: string; accessKeyId: string; secretAccessKey: string };
/** `url` ends in the account: http://127.0.0.1:1234/devstoreaccount1 */
export type BlobServer = { url: string; account: string; key: string };
/** No credentials are checked. */
export type GoogleServer = { url: string; projectId: string };

export class NotAvailable extends Error {
  constructor(
    readonly server: string,
    readonly reason: string,
  ) {
    super(`${server} is not available: ${reason}`);
  }
}

const notYet = (server: string): Promise<never> => Promise.reject(new NotAvailable(server, "not written yet"));

export const postgres = (): Promise<Sql> => notYet("postgres");
export const mariadb = (): Promise<Sql> => notYet("mariadb");
export const minio = (): Promise<S3Server> => notYet("minio");
export const azurite = (): Promise<BlobServer> => notYet("azurite");
export const gcs = (): Promise<GoogleServer> => notYet("gcs");
export const bigqueryLocal = (): Promise<GoogleServer> => notYet("bigquery-local");

/** An official client library that judges what we speak, such as `await judge<typeof Sdk>("snowflake-sdk")`. */
export const judge = <T>(name: string): Promise<T> => notYet(name);

/** The tests of `define`, with the server; where it cannot be had, one skipped test that says why. */
export function describeWith<T>(name: string, start: () => Promise<T>, define: (server: T) => void) {
  describe(name, async () => {
    const server = await start().catch((error) => {
      if (!(error instanceof NotAvailable)) throw error;
      test.skip(error.message, () => {});
      return undefined;
    });
    if (server !== undefined) define(server);
  });
}
