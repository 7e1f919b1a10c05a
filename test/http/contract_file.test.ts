import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { testApp } from "../harness.ts";

const app = testApp();
afterAll(() => app.close().then(app.remove));

test("docs/openapi.json is the contract that is served, with every limit and default", async () => {
  const { body } = await app.call("GET", "/openapi.json", undefined, { key: null });
  expect(body).toEqual(await Bun.file(join(import.meta.dir, "../../docs/openapi.json")).json());
});
