import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import { open } from "../../src/workers/connector/mysql.ts";
import { describeWith, mariadb } from "../servers/servers.ts";
import { LIMITS, LOOPBACK, linesOf, nameless, openWith, refusal } from "./sql_kit.ts";

describeWith("mariadb with TLS", mariadb, (server) => {
  const ca_cert = readFileSync(server.caFile, "utf8");
  type Way = { host: string; sslmode?: string; ca?: boolean; operator?: boolean };
  const connect = ({ host, sslmode, ca = false, operator = false }: Way) =>
    linesOf(
      openWith(open, {
        source: {
          source_type: "mysql",
          db_connection: {
            host,
            port: server.port,
            database: server.database,
            user: server.user,
            ...(sslmode ? { sslmode } : {}),
          },
        },
        query:
          "SELECT variable_value <> '' AS encrypted FROM information_schema.session_status WHERE variable_name = 'SSL_VERSION'",
        credentials: { password: server.password, ...(ca ? { ca_cert } : {}) },
        dialer: nameless(createDialer({ ...LOOPBACK, ca_file: operator ? server.caFile : "" }, LIMITS)),
      }),
    );
  const ENCRYPTED = ['{"encrypted":1}'];
  const PLAIN = ['{"encrypted":0}'];

  // The certificate is for hooks.example and 127.0.0.1; every .example leads to 127.0.0.1.
  test.each([
    [{ host: "127.0.0.1", sslmode: "disable" }, PLAIN],
    [{ host: "127.0.0.1" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "prefer" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "require" }, ENCRYPTED],
    [{ host: "wrong.example", sslmode: "verify-ca", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", sslmode: "verify-full", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", sslmode: "verify-full", operator: true }, ENCRYPTED],
    [{ host: "127.0.0.1", sslmode: "verify-ca", ca: true }, ENCRYPTED],
    [{ host: "hooks.example", ca: true }, ENCRYPTED],
  ] as const)("%o is let through", async (way, expected) => {
    expect(await connect(way)).toEqual(expected as unknown as string[]);
  });

  test.each([
    [{ host: "wrong.example", sslmode: "verify-full", ca: true }, "does not match certificate's altnames"],
    [{ host: "wrong.example", sslmode: "verify-full", operator: true }, "does not match certificate's altnames"],
    [{ host: "wrong.example", ca: true }, "does not match certificate's altnames"], // an authority that was given is asked
    [{ host: "hooks.example", sslmode: "verify-full" }, "self signed certificate"],
    [{ host: "hooks.example", sslmode: "verify-ca" }, "self signed certificate"],
  ] as const)("%o is refused", async (way, text) => {
    const error = await refusal(() => connect(way), [server.password]);
    expect(error).toMatchObject({ code: "unreachable", param: "/db_connection" });
    expect(error.message).toContain(text);
  });

  test("a certificate is not compared with an address", async () => {
    const error = await refusal(() => connect({ host: "127.0.0.1", sslmode: "verify-full", ca: true }));
    expect(error).toMatchObject({ code: "invalid_source", param: "/db_connection/host" });
    expect(error.message).toContain("verify-ca");
  });
});
