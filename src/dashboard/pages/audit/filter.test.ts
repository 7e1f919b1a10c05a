import { expect, test } from "bun:test";
import { csvOf, matches } from "./filter.ts";

const entry = {
  object: "audit_log.entry" as const,
  id: "aud_1",
  created_at: "2026-01-01T00:00:00.000Z",
  key: { id: "key_1", name: '=HYPERLINK("x")' },
  user: { id: "usr_1", email: "ada@example.com", name: "Ada" },
  method: "POST",
  route: "/v1/volumes",
  resource_ids: { created: "vol_1" },
  address: null,
  status: 201,
  request_id: "req-7",
};

test("entries are filtered by any field and by their result", () => {
  expect(matches(entry, { text: "VOL_1", result: "" })).toBe(true);
  expect(matches(entry, { text: "hyperlink", result: "ok" })).toBe(true);
  expect(matches(entry, { text: "ada@", result: "" })).toBe(true);
  expect(matches(entry, { text: "", result: "refused" })).toBe(false);
  expect(matches(entry, { text: "secrets", result: "" })).toBe(false);
});

test("the export quotes every cell and defuses formulas", () => {
  const [, line] = csvOf([entry]).split("\r\n");
  expect(line).toStartWith(
    `"2026-01-01T00:00:00.000Z","'=HYPERLINK(""x"")","ada@example.com","POST","/v1/volumes","{""created"":""vol_1""}"`,
  );
});
