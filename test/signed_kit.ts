/** A volume `lab` and the requests that tests of signed addresses send to it. */
import { expect } from "bun:test";
import { looseKeys } from "../src/resources/data/loose_keys/table.ts";
import { sweep } from "../src/resources/data/volumes/sweep.ts";
import { manyApps, type Options, type TestApp } from "./harness.ts";

export const { open, closeAll } = manyApps();

export const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
export async function volume(options: Options = {}) {
  const app = open(options);
  await app.call("POST", "/v1/volumes", { name: "lab" });
  return app;
}
export const ask = async (app: TestApp, json: object) =>
  (await app.call("POST", "/v1/volumes/lab/upload-url", { path: "a.bin", ...json })).body;
export const local = (url: string) => url.replace("http://localhost", "");
/** Sends without a key: the address alone is the permission. */
export const send = (app: TestApp, url: string, raw: BodyInit, headers: Record<string, string> = {}) =>
  app.call("PUT", local(url), undefined, { key: null, raw, headers });
export const fetchFile = (app: TestApp, path = "a.bin") => app.call("GET", `/v1/volumes/lab/files/${path}`);
export const stored = async (app: TestApp) => {
  await sweep(app.ctx);
  expect(app.ctx.db.select().from(looseKeys).all()).toEqual([]);
  return (await app.ctx.storage.list("")).items.map((item) => item.sha256).sort();
};
/** A body of one byte that ends when `finish` is called. */
export function slowBody() {
  const over = Promise.withResolvers<void>();
  const body = new ReadableStream({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode("x"));
      await over.promise;
      controller.close();
    },
  });
  return { body, finish: () => over.resolve() };
}
export const refused = (code: string, status: number) => ({ status, body: { error: { code } } });
