import { expect, test } from "bun:test";
import { open } from "../../src/workers/connector/postgres.ts";
import { modeFor, type Server } from "../../src/workers/connector/sql/server.ts";
import { describeWith, postgres } from "../servers/servers.ts";
import { sqlTlsTests } from "./sql_source_suite.ts";

describeWith("postgres with TLS", postgres, (server) => {
  const { connect } = sqlTlsTests(
    { type: "postgres", open, server },
    {
      query: "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
      encrypted: '{"ssl":true}',
      plain: '{"ssl":false}',
      otherName: "ERR_TLS_CERT_ALTNAME_INVALID",
      unknown: "UNABLE_TO_VERIFY",
    },
  );

  test("a certificate may be for an address", async () => {
    expect(await connect({ host: "127.0.0.1", sslmode: "verify-full", ca: true })).toEqual(['{"ssl":true}']);
  });
});

test("the address of the server decides the TLS mode if none is given", () => {
  const server = { sslmode: undefined, caCert: undefined } as Server;
  expect(modeFor(server, "10.1.2.3")).toBe("prefer");
  expect(modeFor(server, "127.0.0.1")).toBe("prefer");
  expect(modeFor(server, "fd00::1")).toBe("prefer");
  expect(modeFor(server, "8.8.8.8")).toBe("verify-full");
  expect(modeFor(server, "2001:4860:4860::8888")).toBe("verify-full");
  expect(modeFor({ ...server, sslmode: "require" }, "8.8.8.8")).toBe("require");
  expect(modeFor({ ...server, caCert: "PEM" }, "10.1.2.3")).toBe("verify-full");
});
