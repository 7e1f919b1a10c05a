import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { open } from "../../src/workers/connector/postgres.ts";
import { modeFor, type Server } from "../../src/workers/connector/sql/server.ts";
import { describeWith, postgres } from "../servers/servers.ts";
import { LIMITS, LOOPBACK, linesOf, nameless, openWith, refusal } from "./sql_kit.ts";

describeWith("postgres with TLS", postgres, (server) => {
  const ca_cert = readFileSync(server.caFile, "utf8");
  type Way = { host: string; sslmode?: string; ca?: boolean; operator?: boolean };
  const connect = ({ host, sslmode, ca = false, operator = false }: Way) =>
    linesOf(
      openWith(open, {
        source: {
          source_type: "postgres",
          db_connection: {
            host,
            port: server.port,
            database: server.database,
            user: server.user,
            ...(sslmode ? { sslmode } : {}),
          },
        },
        query: "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        credentials: { password: server.password, ...(ca ? { ca_cert } : {}) },
        dialer: nameless(createDialer({ ...LOOPBACK, ca_file: operator ? server.caFile : "" }, LIMITS)),
      }),
    );
  const ENCRYPTED = ['{"ssl":true}'];
  const PLAIN = ['{"ssl":false}'];

  // The certificate is for hooks.example and 127.0.0.1; every .example leads to 127.0.0.1.
  test.each([
    [{ host: "127.0.0.1", sslmode: "disable" }, PLAIN],
    [{ host: "127.0.0.1" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "prefer" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "require" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "verify-ca", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", sslmode: "verify-full", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", sslmode: "verify-full", operator: true }, ENCRYPTED],
    [{ host: "127.0.0.1", sslmode: "verify-full", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", ca: true }, ENCRYPTED],
  ] as const)("%o is let through", async (way, expected) => {
    expect(await connect(way)).toEqual(expected as unknown as string[]);
  });

  test.each([
    [{ host: "wrong.example", sslmode: "verify-full", ca: true }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    [{ host: "wrong.example", sslmode: "verify-full", operator: true }, "ERR_TLS_CERT_ALTNAME_INVALID"],
    [{ host: "wrong.example", ca: true }, "ERR_TLS_CERT_ALTNAME_INVALID"], // an authority that was given is asked
    [{ host: "hooks.example", sslmode: "verify-full" }, "UNABLE_TO_VERIFY"],
    [{ host: "hooks.example", sslmode: "verify-ca" }, "UNABLE_TO_VERIFY"],
  ] as const)("%o is refused", async (way, text) => {
    const error = await refusal(() => connect(way), [server.password]);
    expect(error).toMatchObject({ code: "unreachable", param: "/db_connection" });
    expect(error.message).toContain(text);
  });
});

test("what was not said is decided by where the server is", () => {
  const server = { sslmode: undefined, caCert: undefined } as Server;
  expect(modeFor(server, "10.1.2.3")).toBe("prefer");
  expect(modeFor(server, "127.0.0.1")).toBe("prefer");
  expect(modeFor(server, "fd00::1")).toBe("prefer");
  expect(modeFor(server, "8.8.8.8")).toBe("verify-full");
  expect(modeFor(server, "2001:4860:4860::8888")).toBe("verify-full");
  expect(modeFor({ ...server, sslmode: "require" }, "8.8.8.8")).toBe("require");
  expect(modeFor({ ...server, caCert: "PEM" }, "10.1.2.3")).toBe("verify-full");
});
