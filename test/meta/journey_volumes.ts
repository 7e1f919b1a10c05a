import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const volume = async (app: TestApp) => {
  const name = `n${crypto.randomUUID()}`;
  await app.call("POST", "/v1/volumes", { name });
  return { name };
};
const volumeFile = async (app: TestApp) => {
  const { name } = await volume(app);
  await app.call("PUT", `/v1/volumes/${name}/files/dir/a.txt`, undefined, { raw: "a" });
  return { name, path: "dir/a.txt" };
};
/** The parts of a signed address. */
const signedParts = (url: string) => {
  const [, name, , id = "", , number = ""] = new URL(url).pathname.split("/v1/")[1]?.split("/") ?? [];
  return { name: name ?? "", id, number, "?": new URL(url).search };
};
const upload = async (app: TestApp, parts?: number) => {
  const { name } = await volume(app);
  const { body } = await app.call("POST", `/v1/volumes/${name}/upload-url`, { path: "a.txt", parts });
  return { name, body };
};
const sentParts = async (app: TestApp) => {
  const { name, body } = await upload(app, 1);
  const { pathname, search } = new URL(body.parts[0].url);
  await app.call("PUT", pathname + search, undefined, { key: null, raw: "a" });
  return { name, id: body.id as string };
};
const download = async (app: TestApp) => {
  const { name, path } = await volumeFile(app);
  const { body } = await app.call("POST", `/v1/volumes/${name}/download-url`, { path });
  return { ...signedParts(body.url), path };
};

export const VOLUMES: Step[] = [
  { operation: "POST /v1/volumes", json: { name: "journey" } },
  { operation: "GET /v1/volumes" },
  { operation: "GET /v1/volumes/{name}", own: volume },
  { operation: "DELETE /v1/volumes/{name}", own: volume },
  { operation: "PUT /v1/volumes/{name}/files/{path}", own: volumeFile, body: "b" },
  { operation: "GET /v1/volumes/{name}/files", own: volumeFile },
  { operation: "GET /v1/volumes/{name}/files/{path}", own: volumeFile, bytes: true },
  { operation: "DELETE /v1/volumes/{name}/files/{path}", own: volumeFile },
  { operation: "POST /v1/volumes/{name}/upload-url", own: volume, json: { path: "a.txt" } },
  { operation: "POST /v1/volumes/{name}/download-url", own: volumeFile, json: { path: "dir/a.txt" } },
  {
    operation: "PUT /v1/volumes/{name}/uploads/{id}",
    own: async (app) => signedParts((await upload(app)).body.url),
    body: "a",
    shared: true,
  },
  {
    operation: "PUT /v1/volumes/{name}/uploads/{id}/parts/{number}",
    own: async (app) => signedParts((await upload(app, 1)).body.parts[0].url),
    body: "a",
    shared: true,
  },
  { operation: "POST /v1/volumes/{name}/uploads/{id}/complete", own: sentParts },
  { operation: "DELETE /v1/volumes/{name}/uploads/{id}", own: sentParts },
  { operation: "GET /v1/volumes/{name}/signed/{path}", own: download, bytes: true, shared: true },
];
