import { expect, test } from "bun:test";
import { routeNames } from "./route_names.ts";

const nameOf = routeNames([
  { method: "POST", path: "/v1/jobs" },
  { method: "POST", path: "/v1/jobs/:id/cancel" },
  { method: "POST", path: "/v1/jobs/:id" },
  { method: "POST", path: "/v1/jobs/validate" },
  { method: "PUT", path: "/v1/volumes/:name/files/*" },
]);

test.each([
  ["POST", "/v1/jobs", "/v1/jobs", {}],
  ["POST", "/v1/jobs/job_1/cancel", "/v1/jobs/{id}/cancel", { id: "job_1" }],
  ["POST", "/v1/jobs/validate", "/v1/jobs/validate", {}],
  ["POST", "/v1/jobs/job_1", "/v1/jobs/{id}", { id: "job_1" }],
  ["PUT", "/v1/volumes/v/files/a%20b/c.txt", "/v1/volumes/{name}/files/{path}", { name: "v", path: "a b/c.txt" }],
  ["PUT", "/v1/volumes/v/files/cut%2", "/v1/volumes/{name}/files/{path}", { name: "v", path: "cut%2" }],
])("%s %s is %s", (method, path, route, params) => {
  expect(nameOf(method, path)).toEqual({ route, params });
});

test("another method or a path of none is unknown", () => {
  expect(nameOf("DELETE", "/v1/jobs")).toBeUndefined();
  expect(nameOf("POST", "/v1/jobs/")).toBeUndefined();
});
