import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { copyCertificate } from "./certificate.ts";
import { answers, libraries, urlOf } from "./postgres.ts";
import { give, INSTALLED, launch, mustFind, readable, runToEnd, scratch, unprivileged } from "./process.ts";
import type { Sql } from "./servers.ts";

const UNPACKED = join(INSTALLED, "mariadb");
const SYSTEM_TABLES = ["mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"];

export async function startMariadb(): Promise<Sql> {
  const program = mustFind("mariadb", ["/usr/sbin/mariadbd", join(UNPACKED, "usr/sbin/mariadbd")]);
  const dir = scratch("mariadb");
  chmodSync(dir, 0o755); // all users may read the authority's file
  const unpacked = program.startsWith(UNPACKED);
  const root = unpacked ? readable(UNPACKED, dir) : "/";
  const env = unpacked ? { LD_LIBRARY_PATH: libraries(root) } : {};
  const share = join(root, "usr/share/mysql");
  const datadir = join(dir, "tables");
  mkdirSync(datadir);
  give(datadir);
  const paths = [`--datadir=${datadir}`, `--lc-messages-dir=${share}`, `--character-sets-dir=${share}/charsets`];
  const small = ["--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"];
  const daemon = [join(root, "usr/sbin/mariadbd"), "--no-defaults", ...paths, ...small];

  const login = { user: "verk", password: "my s3cret", database: "verk" };
  runToEnd(unprivileged([...daemon, "--bootstrap"]), { stdin: firstStatements(share, login), env });

  const { caFile, certFile, keyFile } = copyCertificate(dir);
  const tls = [`--ssl-ca=${caFile}`, `--ssl-cert=${certFile}`, `--ssl-key=${keyFile}`];
  const port = await launch({
    dir,
    env,
    signal: "SIGKILL", // an orderly stop flushes what is about to be removed
    argv: (port) =>
      unprivileged([
        ...daemon,
        ...tls,
        `--port=${port}`,
        "--bind-address=127.0.0.1",
        `--socket=${join(dir, "socket")}`,
      ]),
    ready: (port) => answers(urlOf({ ...login, port }, "mysql")),
  });
  return { host: "127.0.0.1", port, ...login, url: urlOf({ ...login, port }, "mysql"), caFile };
}

/** The statements of mariadb-install-db, one per line. That script itself needs programs of the client's package. */
function firstStatements(share: string, login: { user: string; password: string; database: string }): Uint8Array {
  const tables = SYSTEM_TABLES.map((name) => readFileSync(join(share, name), "utf8"));
  const account = [
    `CREATE DATABASE ${login.database};`,
    "FLUSH PRIVILEGES;",
    `CREATE USER ${login.user} IDENTIFIED BY '${login.password}';`,
    `GRANT ALL ON *.* TO ${login.user} WITH GRANT OPTION;`,
  ];
  return new TextEncoder().encode(["CREATE DATABASE mysql;", "USE mysql;", ...tables, ...account, ""].join("\n"));
}
