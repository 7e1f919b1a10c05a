import { expect, test } from "bun:test";
import { open } from "../../src/workers/connector/mysql.ts";
import { behaviours, startFakeMysql } from "./fake_mysql.ts";
import { linesOf, openWith, refusal } from "./sql_kit.ts";

const reading = (port: number) =>
  linesOf(
    openWith(open, {
      source: { source_type: "mysql", db_connection: `mysql://u@127.0.0.1:${port}/d?sslmode=disable` },
      query: "SELECT 1 AS a",
      credentials: { password: "x" },
      limits: { connectMs: 500, statementMs: 500, rowBytes: 1_000_000 },
    }),
  );

test("a read fails when the server is silent after the login", async () => {
  using server = await startFakeMysql(behaviours.silent);
  expect(await refusal(() => reading(server.port))).toMatchObject({
    code: "broken",
    message: "No answer within 1000 ms",
  });
});

test("a row without end does not fill the memory", async () => {
  using server = await startFakeMysql(behaviours.endless);
  const error = await refusal(() => reading(server.port));
  expect(error).toMatchObject({ code: "invalid_rows", message: expect.stringContaining("longer than 1000000 bytes") });
  expect(server.sentBytes()).toBeLessThan(1e9); // two checks of a tenth of a second
}, 120_000);

test("a server that asks for a file gets none", async () => {
  using server = await startFakeMysql(behaviours.nosy);
  await refusal(() => reading(server.port));
  expect(server.heard()).not.toContain("root:");
});
