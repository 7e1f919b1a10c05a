import { and, eq, isNull } from "drizzle-orm";
import { write } from "../../src/platform/db/db.ts";
import * as models from "../../src/resources/serving/models/service.ts";
import * as pushes from "../../src/resources/training/hub_pushes/rows.ts";
import { hubPushes } from "../../src/resources/training/hub_pushes/table.ts";
import { type TestApp, tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import type { Step } from "./journey.ts";

const GGUF = Bun.file(makeModel(tempDir(), { arch: "llama", type: "F16" }));
const idOf = async (app: TestApp, path: string, json: unknown) => {
  const { body } = await app.call("POST", path, json);
  return { id: body.id as string };
};
const unique = () => `n${crypto.randomUUID()}`;

const model = (app: TestApp) => idOf(app, "/v1/models/pull", { name: `journey/${unique()}` });
/** A model that failed and then arrived after all: what the loops would record. */
const fetchedModel = async (app: TestApp) => {
  const made = await model(app);
  const now = app.ctx.clock.now();
  write(app.ctx.db, (tx) => {
    models.refuse(tx, made.id, "the line was cut", now);
    models.accept(
      tx,
      made.id,
      { path: "models/none.gguf", sizeBytes: 1, sha256: null, fileMtimeMs: 0, shape: SHAPE },
      now,
    );
  });
  return made;
};
const ones = { layers: 1, embedding_length: 1, heads: 1, kv_heads: 1, key_length: 1, value_length: 1, vocab_size: 1 };
const SHAPE = {
  ...ones,
  architecture: "llama",
  parameters: 1,
  context_length: 1,
  quantization: "F16",
  weight_bytes: 1,
  name: null,
  has_chat_template: false,
  type: "model" as const,
};

const newModel = (app: TestApp) => idOf(app, "/v1/models", { name: unique() });
const modelAddress = async (app: TestApp) => {
  const { id } = await newModel(app);
  const { body } = await app.call("POST", `/v1/models/${id}/presigned-upload`, { files: [{ path: "m.gguf" }] });
  const { pathname, search } = new URL(body.files[0].url);
  return { id, upload: pathname.split("/").at(-1) ?? "", "?": search };
};
const sentModel = async (app: TestApp) => {
  const { id, upload, "?": query } = await modelAddress(app);
  await app.call("PUT", `/v1/models/${id}/uploads/${upload}${query}`, undefined, { raw: GGUF });
  return { id };
};
export const readyModel = async (app: TestApp) => {
  const { id } = await sentModel(app);
  await app.call("POST", `/v1/models/${id}/complete`);
  return { id };
};

const fileAddress = async (app: TestApp) => {
  const { id } = await readyModel(app);
  const { body } = await app.call("GET", `/v1/models/${id}/download`);
  return { id, "?": new URL(body.url).search };
};

/** A token is what a push needs before the hub is asked. */
const pushable = async (app: TestApp) => {
  await app.call("PUT", "/v1/secrets/HUB_TOKEN", { value: "v" });
  return await readyModel(app);
};
export const pushed = async (app: TestApp) => {
  const { id } = await pushable(app);
  return await idOf(app, `/v1/models/${id}/push`, { repo: "journey/model" });
};

const PUBLISHED = "journey/published";
/** A deployment whose name is a repository. A push of it completes at once. */
export const published = async (app: TestApp) => {
  const { id } = await pushable(app);
  await app.call("POST", "/api/create", { model: PUBLISHED, from: id, stream: false });
  const isOpen = and(eq(hubPushes.repo, PUBLISHED), isNull(hubPushes.completedAt));
  const completes = () => {
    const row = app.ctx.db.select().from(hubPushes).where(isOpen).get();
    if (row) pushes.begin(app.ctx, row.id, 1);
    if (row) pushes.complete(app.ctx, row, { url: `https://hub/${PUBLISHED}`, commitId: "0" });
    return row;
  };
  until("a push of the journey", completes).catch(() => {}); // another workspace makes none
  return {};
};

export const MODELS: Step[] = [
  { operation: "POST /v1/models/pull", json: { name: "journey/model" } },
  { operation: "POST /v1/models/scan", as: "admin" },
  { operation: "GET /v1/models" },
  { operation: "GET /v1/models/{id}", own: model },
  { operation: "POST /v1/models", json: { name: "journey" } },
  { operation: "POST /v1/models/{id}/presigned-upload", own: newModel, json: { files: [{ path: "m.gguf" }] } },
  { operation: "PUT /v1/models/{id}/uploads/{upload}", own: modelAddress, body: "m", shared: true },
  { operation: "POST /v1/models/{id}/complete", own: sentModel },
  {
    operation: "POST /v1/models/{id}/template",
    own: readyModel,
    json: { conversations: [{ messages: [{ role: "user", content: "hello" }] }] },
  },
  { operation: "PATCH /v1/models/{id}", own: newModel, json: { name: unique() } },
  { operation: "POST /v1/models/{id}/quantize", own: readyModel, json: { quantization: "Q8_0" } },
  { operation: "GET /v1/models/{id}/capabilities", own: readyModel },
  { operation: "GET /v1/models/{id}/dependents", own: newModel },
  { operation: "GET /v1/models/{id}/download", own: readyModel },
  { operation: "GET /v1/models/{id}/file", own: fileAddress, shared: true, bytes: true },
  { operation: "POST /v1/models/{id}/push", own: pushable, json: { repo: "journey/model" } },
  { operation: "GET /v1/hub_pushes" },
  { operation: "GET /v1/hub_pushes/{id}", own: pushed },
  { operation: "POST /v1/hub_pushes/{id}/cancel", own: pushed },
  { operation: "DELETE /v1/models/{id}", own: fetchedModel },
];
