import { expect, test } from "bun:test";
import type { Operation } from "./contract.ts";
import { createdBy, curlOf, missingIn, pretty, variableOf } from "./example.ts";

const operation = (more: Partial<Operation>): Operation => ({
  id: "x",
  method: "get",
  path: "/v1/datasets/{id}",
  tag: "Datasets",
  summary: "",
  description: undefined,
  auth: "authorization",
  parameters: [{ name: "id", in: "path", schema: {} }],
  body: undefined,
  upload: undefined,
  answers: [],
  ...more,
});

test("a value of a path has the name of its resource, the same in every route", () => {
  expect(variableOf("/v1/datasets/{id}/rows", "id")).toBe("$DATASET_ID");
  expect(variableOf("/v1/datasets/{id}/snapshots/{snapshot}", "snapshot")).toBe("$SNAPSHOT_ID");
  expect(variableOf("/v1/secrets/{name}", "name")).toBe("$SECRET_NAME");
  expect(variableOf("/v1/webhooks/{id}/deliveries/{delivery}/resend", "delivery")).toBe("$DELIVERY_ID");
  expect(createdBy(operation({ method: "post", path: "/v1/datasets" }))).toBe("$DATASET_ID");
  expect(createdBy(operation({}))).toBeUndefined();
});

test("a shell expands the variables of a command, and nothing else", () => {
  const post = operation({ method: "post" });
  const command = curlOf(post, "http://x", {}, `{"job": "$JOB_ID", "text": "it's $5"}`);
  expect(command).toBe(`curl -X POST "http://x/v1/datasets/$DATASET_ID" \\
  -H "Authorization: Bearer $VERK_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"job": "'$JOB_ID'", "text": "it'\\''s $5"}'`);
  expect(missingIn(command)).toEqual(["$DATASET_ID", "$JOB_ID"]);
  expect(curlOf(operation({}), "http://x", { id: "a b$" }, undefined)).toContain("'http://x/v1/datasets/a%20b%24'");
});

test("JSON that fits on a line stays on one", () => {
  expect(pretty({ a: [1, { b: null }] })).toBe('{"a": [1, {"b": null}]}');
  expect(pretty({ name: "x".repeat(30), list: ["y".repeat(30)] })).toBe(
    `{\n  "name": "${"x".repeat(30)}",\n  "list": ["${"y".repeat(30)}"]\n}`,
  );
  expect([pretty({}), pretty([])]).toEqual(["{}", "[]"]);
});
