import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { Credentials, Source } from "../../../lib/source.ts";
import { createDialer } from "../dialer.ts";
import { SourceError } from "../types.ts";
import { readServer } from "./server.ts";

const limits = { connectMs: 1000, statementMs: 1000, rowBytes: 1000 };
const dialer = createDialer({ allow_private: false, allow: [], ca_file: "" }, limits);
const read = (db_connection: NonNullable<Source["db_connection"]>, credentials: Credentials = {}) =>
  readServer(
    { source: { source_type: "postgres", db_connection }, credentials, dialer, limits, hubEndpoint: "" },
    { schemes: ["postgres", "postgresql"], port: 5432, fields: ["schema"] },
  );

test("an address and an object give the same settings", () => {
  const wanted = {
    host: "db.lab",
    port: 5433,
    user: "ann",
    password: "p",
    database: "my db",
    sslmode: "require" as const,
  };
  const expected = { ...wanted, schema: "s", caCert: undefined };
  expect(read("postgresql://ann@db.lab:5433/my%20db?sslmode=require&schema=s", { password: "p" })).toEqual(expected);
  const { password, ...rest } = wanted;
  expect(read({ ...rest, schema: "s" }, { password })).toEqual(expected);
  expect(read({ host: "::1", port: "5433", database: "d" }, { username: "bob" })).toMatchObject({
    host: "::1",
    port: 5433,
    user: "bob",
  });
  expect(read("postgres://ann@[::1]/d")).toMatchObject({ host: "::1", port: 5432 });
});

test("the account in the credentials wins over the one in the address", () => {
  expect(read("postgres://ann@db.lab/d", { user: "bob", password: "x" })).toMatchObject({ user: "bob", password: "x" });
});

const PEM = readFileSync(`${import.meta.dir}/../../../../test/fixtures/tls/ca.pem`, "utf8");
test("an authority is accepted as PEM", () => expect(read("postgres://a@h/d", { ca_cert: PEM }).caCert).toBe(PEM));

const REFUSED: readonly [string, NonNullable<Source["db_connection"]>, Credentials, string, string][] = [
  ["another scheme", "mysql://a@h/d", {}, "/db_connection", "postgres://"],
  ["a scheme of another program", "unix:///var/run/x", {}, "/db_connection", "postgres://"],
  ["an unknown parameter", "postgres://a@h/d?options=-c%20log", {}, "/db_connection", "options"],
  ["a certificate of this machine", "postgres://a@h/d?sslrootcert=/etc/x", {}, "/db_connection", "sslrootcert"],
  ["a socket as a parameter", "postgres://a@h/d?host=/var/run", {}, "/db_connection", "host"],
  ["a socket as the host", "postgres://a@%2Fvar%2Frun%2Fpg/d", {}, "/db_connection/host", "sockets"],
  ["no host, which means a socket", "postgres:///d?sslmode=disable", {}, "/db_connection/host", "host is missing"],
  ["a socket in an object", { host: "/var/run/pg", user: "a" }, {}, "/db_connection/host", "sockets"],
  ["an unknown field", { host: "h", user: "a", path: "/x" }, {}, "/db_connection/path", "path"],
  ["a mode that is none", "postgres://a@h/d?sslmode=maybe", {}, "/db_connection/sslmode", "verify-full"],
  ["a port that is none", { host: "h", user: "a", port: 70_000 }, {}, "/db_connection/port", "65535"],
  ["a broken escape", "postgres://a%ZZ@h/d", {}, "/db_connection", "%25"],
  ["no user", "postgres://h/d", { password: "x" }, "/db_connection/user", "user is missing"],
  ["an unknown credential", "postgres://a@h/d", { passwort: "geheim-geheim" }, "/credentials/passwort", "passwort"],
  ["a password that is no text", "postgres://a@h/d", { password: { x: 1 } }, "/credentials/password", "password"],
  ["an authority that is none", "postgres://a@h/d", { ca_cert: "geheim-geheim" }, "/credentials/ca_cert", "PEM"],
];
test.each(REFUSED)("%s is refused", (_name, connection, credentials, param, text) => {
  const error = (() => {
    try {
      return read(connection, credentials);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(SourceError);
  expect(error).toMatchObject({ code: "invalid_source", param });
  expect((error as Error).message).toContain(text);
  expect(Bun.inspect(error)).not.toContain("geheim");
});
