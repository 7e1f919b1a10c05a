import { expect, test } from "bun:test";
import { open } from "../../src/workers/connector/mysql.ts";
import { describeWith, mariadb } from "../servers/servers.ts";
import { refusal } from "./sql_kit.ts";
import { sqlTlsTests } from "./sql_source_suite.ts";

describeWith("mariadb with TLS", mariadb, (server) => {
  const { connect } = sqlTlsTests(
    { type: "mysql", open, server },
    {
      query:
        "SELECT variable_value <> '' AS encrypted FROM information_schema.session_status WHERE variable_name = 'SSL_VERSION'",
      encrypted: '{"encrypted":1}',
      plain: '{"encrypted":0}',
      otherName: "does not match certificate's altnames",
      unknown: "self signed certificate",
    },
  );

  test("a certificate is not compared with an address", async () => {
    const error = await refusal(() => connect({ host: "127.0.0.1", sslmode: "verify-full", ca: true }));
    expect(error).toMatchObject({ code: "invalid_source", param: "/db_connection/host" });
    expect(error.message).toContain("verify-ca");
  });
});
