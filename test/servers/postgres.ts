import { chmodSync, globSync } from "node:fs";
import { dirname, join } from "node:path";
import { SQL } from "bun";
import { platform } from "../../src/native/platform/index.ts";
import { copyCertificate } from "./certificate.ts";
import { INSTALLED, launch, mustFind, readable, runToEnd, scratch, secretFile, unprivileged } from "./process.ts";
import type { Sql } from "./servers.ts";

const ROOTS = ["/usr", join(INSTALLED, "postgres/usr")];
const PROGRAMS = "lib/postgresql/*/bin/postgres";

export async function startPostgres(): Promise<Sql> {
  const found = ROOTS.flatMap((root) => globSync(join(root, PROGRAMS)).sort().reverse());
  const program = mustFind("postgres", found);
  const dir = scratch("postgres");
  chmodSync(dir, 0o755); // all users may read the authority's file
  // Its own files are found from where the program lies, so the whole tree moves or nothing does.
  const tree = program.startsWith(INSTALLED) ? readable(join(INSTALLED, "postgres"), dir) : undefined;
  const bin = dirname(tree === undefined ? program : program.replace(join(INSTALLED, "postgres"), tree));
  const env = tree === undefined ? {} : { LD_LIBRARY_PATH: libraries(tree) };

  const login = { user: "verk", password: "pg s3cret", database: "postgres" };
  const cluster = join(dir, "cluster");
  const password = secretFile(join(dir, "password"), login.password);
  const auth = ["--auth=scram-sha-256", `--username=${login.user}`, `--pwfile=${password}`];
  const locale = ["--encoding=UTF8", "--locale=C"];
  runToEnd(unprivileged([join(bin, "initdb"), "-D", cluster, "--no-sync", "--no-instructions", ...auth, ...locale]), {
    env,
  });

  const { caFile, certFile, keyFile } = copyCertificate(dir);
  const settings = ["listen_addresses=127.0.0.1", "fsync=off", "ssl=on", `ssl_cert_file=${certFile}`];
  const flags = [...settings, `ssl_key_file=${keyFile}`, `unix_socket_directories=${dir}`, "max_connections=50"];
  const port = await launch({
    dir,
    env,
    signal: "SIGQUIT", // its quickest way down
    argv: (port) =>
      unprivileged([join(bin, "postgres"), "-D", cluster, "-p", `${port}`, ...flags.flatMap((flag) => ["-c", flag])]),
    ready: (port) => answers(urlOf({ ...login, port }, "postgres")),
  });
  return { host: "127.0.0.1", port, ...login, url: urlOf({ ...login, port }, "postgres"), caFile };
}

type Login = { user: string; password: string; database: string; port: number };

export const urlOf = ({ user, password, database, port }: Login, scheme: string) =>
  `${scheme}://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`;

export async function answers(url: string): Promise<boolean> {
  const sql = new SQL(url, { max: 1, connectionTimeout: 5 });
  try {
    await sql`SELECT 1`;
    return true;
  } finally {
    await sql.close();
  }
}

/** The library directories of a Debian package that was unpacked into `tree`. */
export const libraries = (tree: string) =>
  ["usr/lib", "lib"].map((path) => join(tree, path, platform.multiarch)).join(":");
