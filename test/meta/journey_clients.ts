import { newId } from "../../src/lib/ids.ts";
import { runBatches } from "../../src/resources/other_apis/batches/runner.ts";
import type { TestApp } from "../harness.ts";
import { insert } from "../insert_row.ts";
import { chatAnswer, pretendServing } from "../pretend_replica.ts";
import type { Step } from "./journey.ts";
import { published } from "./journey_models.ts";

type Own = (app: TestApp) => Promise<Record<string, string>>;
const MESSAGES = [{ role: "user", content: "hi" }];

/** A stored response. */
const response =
  (own: Own, fields: object = {}) =>
  async (app: TestApp) => {
    await own(app);
    const { body } = await app.call("POST", "/v1/responses", { model: "d", input: "hi", ...fields });
    return { id: body.id as string };
  };

const TALK = { items: [{ role: "user", content: "hi" }], name: "talk" };
const conversation = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/conversations", TALK);
  return { id: body.id as string };
};
const conversationItem = async (app: TestApp) => {
  const made = await conversation(app);
  const { body } = await app.call("GET", `/v1/conversations/${made.id}/items`);
  return { ...made, item: body.data[0].id as string };
};
/** A stored chat, as the row that a chat with store: true leaves. */
const stored = async (app: TestApp) => {
  const id = `chatcmpl-${crypto.randomUUID()}`;
  const message = { role: "assistant", content: "hello", refusal: null };
  const completion = {
    id,
    object: "chat.completion",
    created: 1,
    model: "d",
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    request_id: "r",
    tools: null,
    tool_choice: null,
    temperature: 1,
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    seed: null,
    response_format: null,
    input_user: null,
    service_tier: null,
  };
  const texts = { messages: JSON.stringify(MESSAGES), completion: JSON.stringify(completion) };
  insert(app, "client_completions", id, Date.now(), { model: "d", metadata: "{}", ...texts });
  return { id };
};

const upload = () => {
  const line = { custom_id: "a", method: "POST", url: "/v1/embeddings", body: { model: "d", input: "hi" } };
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new File([JSON.stringify(line)], "in.jsonl"));
  return form;
};
const file = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/files", undefined, { raw: upload() });
  return { id: body.id as string };
};
const FILE_UPLOAD = { filename: "in.txt", purpose: "user_data", bytes: 2, mime_type: "text/plain" };
const fileUpload = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/uploads", FILE_UPLOAD);
  return { id: body.id as string };
};
const chunk = () => {
  const form = new FormData();
  form.set("data", new File(["hi"], "blob"));
  return form;
};
/** The only part of the upload that was made last. */
let lastPart = "";
const sentUpload = async (app: TestApp) => {
  const made = await fileUpload(app);
  const { body } = await app.call("POST", `/v1/uploads/${made.id}/parts`, undefined, { raw: chunk() });
  lastPart = body.id;
  return made;
};
const tuning = async (app: TestApp) => {
  const form = upload();
  const messages = [...MESSAGES, { role: "assistant", content: "hello" }];
  form.set("purpose", "fine-tune");
  form.set("file", new File([JSON.stringify({ messages })], "train.jsonl"));
  const { body } = await app.call("POST", "/v1/files", undefined, { raw: form });
  return { model: "journey/tuned:Q8_0", training_file: body.id as string };
};
const tuned = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/fine_tuning/jobs", await tuning(app));
  return { id: body.id as string };
};
const paused = async (app: TestApp) => {
  const made = await tuned(app);
  await app.call("POST", `/v1/fine_tuning/jobs/${made.id}/pause`);
  return made;
};
const BATCH = { endpoint: "/v1/embeddings", completion_window: "24h" };
const batch = async (app: TestApp) => {
  const { id: input_file_id } = await file(app);
  const { body } = await app.call("POST", "/v1/batches", { ...BATCH, input_file_id });
  return { id: body.id as string };
};

/** A deployment that says yes to every question. */
const moderating = async (app: TestApp) => {
  const { status, body } = await app.call("POST", "/v1/deployments", { model: "journey/served", name: "moderator" });
  const yes = { token: "yes", logprob: 0, bytes: null };
  const logprobs = { content: [{ ...yes, top_logprobs: [yes] }], refusal: null };
  const whole = chatAnswer("yes");
  const answer = () => ({ ...whole, choices: whole.choices.map((choice) => ({ ...choice, logprobs })) });
  if (status === 201) pretendServing(app, body.id, { parallel: 4, answer });
  return {};
};
const STORE = { name: "journey", embedding_model: "d" };
const vectorStore = (own: Own) => async (app: TestApp) => {
  await own(app);
  const { body } = await app.call("POST", "/v1/vector_stores", STORE);
  return { id: body.id as string };
};
const storedFile = async (app: TestApp) => ({ file_id: (await file(app)).id });
const storedFiles = async (app: TestApp) => ({ file_ids: [(await file(app)).id] });
const vectorStoreFile = (own: Own) => async (app: TestApp) => {
  const made = await vectorStore(own)(app);
  const { body } = await app.call("POST", `/v1/vector_stores/${made.id}/files`, await storedFile(app));
  return { ...made, file: body.id as string };
};
const vectorStoreBatch = (own: Own) => async (app: TestApp) => {
  const made = await vectorStore(own)(app);
  const { body } = await app.call("POST", `/v1/vector_stores/${made.id}/file_batches`, await storedFiles(app));
  return { ...made, batch: body.id as string };
};

const PARAMS = { model: "d", max_tokens: 8, messages: MESSAGES };
const MESSAGE_BATCH = { requests: [{ custom_id: "a", params: PARAMS }] };
const messageBatch = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/messages/batches", MESSAGE_BATCH);
  return { id: body.id as string };
};
const endedMessageBatch = async (app: TestApp) => {
  const made = await messageBatch(app);
  await app.call("POST", `/v1/messages/batches/${made.id}/cancel`);
  await runBatches(app.ctx, new AbortController().signal);
  return made;
};

const CHECK = {
  type: "string_check",
  name: "equal",
  operation: "eq",
  input: "{{sample.output_text}}",
  reference: "{{item.answer}}",
};
const EVAL = { data_source_config: { type: "custom", item_schema: {} }, testing_criteria: [CHECK] };
const ENTRY = { item: { answer: "a" }, sample: { output_text: "a" } };
const RUN = { data_source: { type: "jsonl", source: { type: "file_content", content: [ENTRY] } } };
const GRADER = {
  type: "string_check",
  name: "a",
  operation: "eq",
  input: "{{sample.output_text}}",
  reference: "{{item.b}}",
};
const evaluation = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/evals", EVAL);
  return { id: body.id as string };
};
const evalRun = async (app: TestApp) => {
  const made = await evaluation(app);
  const { body } = await app.call("POST", `/v1/evals/${made.id}/runs`, RUN);
  return { ...made, run: body.id as string };
};
const endedRun = async (app: TestApp) => {
  const made = await evalRun(app);
  await app.call("POST", `/v1/evals/${made.id}/runs/${made.run}`);
  return made;
};
const outputItem = async (app: TestApp) => {
  const made = await evalRun(app);
  const item = newId("expi");
  insert(app, "experiment_items", item, Date.now(), { experiment_id: made.run, row_id: 1, input: '""' });
  return { ...made, item };
};

type Named = (app: TestApp) => Promise<{ id: string }>;
const CONTENT = { parts: [{ text: "hi" }] };

/** The deployment of the path, by its id: another workspace may have the same name. */
const modelSteps = (serving: Named): Step[] => {
  const own = async (app: TestApp) => ({ model: (await serving(app)).id });
  const at = "/v1beta/models/{model}";
  const json = { contents: [CONTENT] };
  return [
    { operation: "GET /v1beta/models", plain: true },
    { operation: `GET ${at}`, own, plain: true },
    { operation: `POST ${at}/generateContent`, own, json, plain: true },
    { operation: `POST ${at}/countTokens`, own, json, plain: true },
    { operation: `POST ${at}/embedContent`, own, json: { content: CONTENT }, plain: true },
    { operation: `POST ${at}/batchEmbedContents`, own, json: { requests: [{ content: CONTENT }] }, plain: true },
    { operation: `POST ${at}/streamGenerateContent`, own, json, plain: true },
    { operation: "POST /models/{model}/pipeline/feature-extraction", own, json: { inputs: "hi" }, plain: true },
  ];
};

/** The formats of other programs. `serving` makes the deployment d serve. */
export const clientSteps = (own: Own, serving: Named): Step[] => [
  ...modelSteps(serving),
  { operation: "POST /completion", own, json: { model: "d", prompt: "hi" }, plain: true },
  { operation: "POST /infill", own, json: { model: "d", input_prefix: "a", input_suffix: "b" }, plain: true },
  { operation: "POST /tokenize", own, json: { model: "d", content: "hi" }, plain: true },
  { operation: "POST /detokenize", own, json: { model: "d", tokens: [1] }, plain: true },
  { operation: "POST /apply-template", own, json: { model: "d", messages: MESSAGES }, plain: true },
  { operation: "POST /v1/chat/completions/input_tokens", own, json: { model: "d", messages: MESSAGES } },
  { operation: "GET /props", own: async (app) => ({ ...(await own(app)), "?": "?model=d" }), plain: true },
  { operation: "GET /slots", own: async (app) => ({ ...(await own(app)), "?": "?model=d" }), plain: true },
  { operation: "GET /lora-adapters", own: async (app) => ({ ...(await own(app)), "?": "?model=d" }), plain: true },
  {
    operation: "POST /v1/messages",
    own,
    json: { model: "d", max_tokens: 8, messages: [{ role: "user", content: "hi" }] },
    plain: true,
  },
  { operation: "POST /v1/messages/count_tokens", own, json: { model: "d", messages: MESSAGES }, plain: true },
  { operation: "POST /v1/messages/batches", json: MESSAGE_BATCH, plain: true },
  { operation: "GET /v1/messages/batches", plain: true },
  { operation: "GET /v1/messages/batches/{id}", own: messageBatch, plain: true },
  { operation: "POST /v1/messages/batches/{id}/cancel", own: messageBatch, plain: true },
  { operation: "GET /v1/messages/batches/{id}/results", own: endedMessageBatch, bytes: true },
  { operation: "DELETE /v1/messages/batches/{id}", own: endedMessageBatch, plain: true },
  { operation: "POST /v1/responses", own, json: { model: "d", input: "hi" } },
  { operation: "POST /v1/responses/input_tokens", own, json: { model: "d", input: "hi" } },
  { operation: "POST /v1/responses/compact", own, json: { model: "d", input: "hi" } },
  { operation: "GET /v1/responses/{id}", own: response(own) },
  { operation: "GET /v1/responses/{id}/input_items", own: response(own) },
  { operation: "POST /v1/responses/{id}/cancel", own: response(own, { background: true }) },
  { operation: "DELETE /v1/responses/{id}", own: response(own) },
  { operation: "POST /v1/conversations", json: TALK },
  { operation: "GET /v1/conversations" },
  { operation: "GET /v1/conversations/{id}", own: conversation },
  { operation: "POST /v1/conversations/{id}", own: conversation, json: { name: "renamed" } },
  { operation: "POST /v1/conversations/{id}/items", own: conversation, json: { items: TALK.items } },
  { operation: "GET /v1/conversations/{id}/items", own: conversation },
  { operation: "GET /v1/conversations/{id}/items/{item}", own: conversationItem, plain: true },
  { operation: "DELETE /v1/conversations/{id}/items/{item}", own: conversationItem },
  { operation: "DELETE /v1/conversations/{id}", own: conversation },
  { operation: "GET /v1/chat/completions" },
  { operation: "GET /v1/chat/completions/{id}", own: stored },
  { operation: "POST /v1/chat/completions/{id}", own: stored, json: { metadata: { a: "b" } } },
  { operation: "GET /v1/chat/completions/{id}/messages", own: stored },
  { operation: "DELETE /v1/chat/completions/{id}", own: stored },
  { operation: "POST /v1/files", body: upload() },
  { operation: "GET /v1/files" },
  { operation: "GET /v1/files/{id}", own: file },
  { operation: "GET /v1/files/{id}/content", own: file, bytes: true },
  { operation: "DELETE /v1/files/{id}", own: file },
  { operation: "POST /v1/uploads", json: FILE_UPLOAD },
  { operation: "POST /v1/uploads/{id}/parts", own: fileUpload, body: chunk() },
  { operation: "POST /v1/uploads/{id}/complete", own: sentUpload, make: async () => ({ part_ids: [lastPart] }) },
  { operation: "POST /v1/uploads/{id}/cancel", own: sentUpload },
  { operation: "POST /v1/batches", make: async (app) => ({ ...BATCH, input_file_id: (await file(app)).id }) },
  { operation: "GET /v1/batches" },
  { operation: "GET /v1/batches/{id}", own: batch },
  { operation: "POST /v1/batches/{id}/cancel", own: batch },
  { operation: "POST /v1/fine_tuning/jobs", make: tuning },
  { operation: "GET /v1/fine_tuning/jobs" },
  { operation: "GET /v1/fine_tuning/jobs/{id}", own: tuned },
  { operation: "GET /v1/fine_tuning/jobs/{id}/events", own: tuned },
  { operation: "GET /v1/fine_tuning/jobs/{id}/checkpoints", own: tuned },
  { operation: "POST /v1/fine_tuning/jobs/{id}/pause", own: tuned },
  { operation: "POST /v1/fine_tuning/jobs/{id}/resume", own: paused },
  { operation: "POST /v1/fine_tuning/jobs/{id}/cancel", own: tuned },
  {
    operation: "POST /v1/fine_tuning/alpha/graders/run",
    json: { grader: GRADER, model_sample: "a", item: { b: "a" } },
    plain: true,
  },
  { operation: "POST /v1/fine_tuning/alpha/graders/validate", json: { grader: GRADER }, plain: true },
  { operation: "POST /v1/evals", json: EVAL },
  { operation: "GET /v1/evals" },
  { operation: "GET /v1/evals/{id}", own: evaluation },
  { operation: "POST /v1/evals/{id}", own: evaluation, json: { name: "renamed" } },
  { operation: "POST /v1/evals/{id}/runs", own: evaluation, json: RUN },
  { operation: "GET /v1/evals/{id}/runs", own: evaluation },
  { operation: "GET /v1/evals/{id}/runs/{run}", own: evalRun },
  { operation: "GET /v1/evals/{id}/runs/{run}/output_items", own: evalRun },
  { operation: "GET /v1/evals/{id}/runs/{run}/output_items/{item}", own: outputItem },
  { operation: "POST /v1/evals/{id}/runs/{run}", own: evalRun },
  { operation: "DELETE /v1/evals/{id}/runs/{run}", own: endedRun },
  { operation: "DELETE /v1/evals/{id}", own: evaluation },
  { operation: "POST /v1/vector_stores", own, json: STORE },
  { operation: "GET /v1/vector_stores" },
  { operation: "GET /v1/vector_stores/{id}", own: vectorStore(own) },
  { operation: "POST /v1/vector_stores/{id}", own: vectorStore(own), json: { name: "renamed" } },
  { operation: "POST /v1/vector_stores/{id}/search", own: vectorStore(own), json: { query: "hi" } },
  { operation: "POST /v1/vector_stores/{id}/files", own: vectorStore(own), make: storedFile },
  { operation: "GET /v1/vector_stores/{id}/files", own: vectorStoreFile(own) },
  { operation: "GET /v1/vector_stores/{id}/files/{file}", own: vectorStoreFile(own) },
  { operation: "POST /v1/vector_stores/{id}/files/{file}", own: vectorStoreFile(own), json: { attributes: { a: 1 } } },
  { operation: "GET /v1/vector_stores/{id}/files/{file}/content", own: vectorStoreFile(own) },
  { operation: "DELETE /v1/vector_stores/{id}/files/{file}", own: vectorStoreFile(own) },
  { operation: "POST /v1/vector_stores/{id}/file_batches", own: vectorStore(own), make: storedFiles },
  { operation: "GET /v1/vector_stores/{id}/file_batches/{batch}", own: vectorStoreBatch(own) },
  { operation: "GET /v1/vector_stores/{id}/file_batches/{batch}/files", own: vectorStoreBatch(own) },
  { operation: "POST /v1/vector_stores/{id}/file_batches/{batch}/cancel", own: vectorStoreBatch(own) },
  { operation: "DELETE /v1/vector_stores/{id}", own: vectorStore(own) },
  { operation: "POST /api/chat", own, json: { model: "d", messages: MESSAGES, stream: false }, plain: true },
  { operation: "POST /api/generate", own, json: { model: "d", prompt: "hi", stream: false }, plain: true },
  { operation: "POST /api/embed", own, json: { model: "d", input: "hi" }, plain: true },
  { operation: "POST /api/embeddings", own, json: { model: "d", prompt: "hi" }, plain: true },
  { operation: "GET /api/tags", plain: true },
  { operation: "GET /api/v0/models" },
  { operation: "POST /api/show", own, json: { model: "d" }, plain: true },
  { operation: "GET /api/ps", plain: true },
  { operation: "GET /api/version", plain: true },
  {
    operation: "POST /api/create",
    own,
    json: { model: "poet", from: "d", system: "Rhyme.", stream: false },
    plain: true,
  },
  { operation: "POST /api/copy", own, json: { source: "d", destination: "second" }, plain: true },
  { operation: "POST /api/pull", json: { model: "second", stream: false }, plain: true },
  { operation: "POST /api/push", own: published, json: { model: "journey/published", stream: false }, plain: true },
  { operation: "DELETE /api/delete", json: { model: "second" }, plain: true },
  { operation: "POST /v1/moderations", own: moderating, json: { model: "moderator", input: "hi" }, plain: true },
  { operation: "POST /v1/rerank", own, json: { model: "d", query: "q", documents: ["a"] } },
];
