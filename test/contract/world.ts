/** Things that the calls name, and for each operation with a body one that the server takes. */
import { newId } from "../../src/lib/ids.ts";
import type { startBinary } from "../binary.ts";

export type Server = Awaited<ReturnType<typeof startBinary>>;
export type World = { ids: Record<string, string>; bodies: Record<string, unknown> };

const CHAT = { model: "none", messages: [{ role: "user", content: "hi" }] };
const CONTENT = { parts: [{ text: "hi" }] };
const JOB = { base_model: "verk-tiny", method: "sft", dataset: newId("ds") };
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const NOWHERE = "https://127.0.0.1:8443/x"; // the configuration of this run allows it, and nothing listens there
const SCORES = "export const reward = ({ completions }) => completions.map(() => 1);";
const CHECK = { kind: "code", config: { source: SCORES, language: "javascript" } };
const EVAL = {
  data_source_config: { type: "custom", item_schema: {} },
  testing_criteria: [{ type: "string_check", name: "c", operation: "eq", input: "a", reference: "a" }],
};
const BALANCE = { metric: "balance", thresholds: { alert: 1 } };

/**
 * Bodies of operations that would start a process name something that is not there: a wrong field is still answered
 * first, and a right one is a 404.
 */
const BODIES: Record<string, unknown> = {
  "POST /api/detect": { image: PIXEL, model: "none" },
  "POST /api/detect/batch": { images: [{ id: "a", image: PIXEL }], models: ["none"] },
  "POST /api/detect/url": { url: "https://localhost/x.png" },
  "POST /api/detect/{id}/feedback": { label: "ai" },
  "POST /setup": { token: "x" },
  "PATCH /v1/account": {},
  "POST /v1/agents": { name: "a", deployment: newId("dep") },
  "POST /v1/api_keys": { name: "k" },
  "POST /v1/chat/completions": CHAT,
  "POST /completion": { model: "none", prompt: "hi" },
  "POST /infill": { model: "none", input_prefix: "a", input_suffix: "b" },
  "POST /tokenize": { model: "none", content: "hi" },
  "POST /detokenize": { model: "none", tokens: [1] },
  "POST /apply-template": CHAT,
  "POST /v1/chat/completions/input_tokens": CHAT,
  "POST /v1/messages": { ...CHAT, max_tokens: 1 },
  "POST /v1/messages/count_tokens": CHAT,
  "POST /v1beta/models/{model}/generateContent": { contents: [CONTENT] },
  "POST /v1beta/models/{model}/streamGenerateContent": { contents: [CONTENT] },
  "POST /v1beta/models/{model}/countTokens": { contents: [CONTENT] },
  "POST /v1beta/models/{model}/embedContent": { content: CONTENT },
  "POST /v1beta/models/{model}/batchEmbedContents": { requests: [{ content: CONTENT }] },
  "POST /models/{model}/pipeline/feature-extraction": { inputs: "hi" },
  "POST /v1/responses": { model: "none", input: "hi" },
  "POST /v1/responses/input_tokens": { model: "none", input: "hi" },
  "POST /v1/batches": { input_file_id: "none", endpoint: "/v1/embeddings", completion_window: "24h" },
  "POST /v1/uploads": { filename: "a", purpose: "batch", bytes: 1, mime_type: "text/plain" },
  "POST /v1/uploads/{id}/complete": { part_ids: ["none"] },
  "POST /v1/evals": EVAL,
  "POST /v1/evals/{id}/runs": { data_source: { type: "jsonl", source: { type: "file_id", id: "none" } } },
  "POST /v1/fine_tuning/jobs": { model: "none", training_file: "none" },
  "POST /api/chat": CHAT,
  "POST /api/generate": { model: "none", prompt: "hi" },
  "POST /api/embed": { model: "none", input: "hi" },
  "POST /api/embeddings": { model: "none", prompt: "hi" },
  "POST /api/show": { model: "none" },
  "POST /api/pull": { model: "none" },
  "POST /api/create": { model: "other", from: "none" },
  "POST /api/push": { model: "none/model" },
  "POST /api/copy": { source: "none", destination: "other" },
  "DELETE /api/delete": { model: "none" },
  "POST /v1/rerank": { model: "none", query: "q", documents: ["a"] },
  "POST /v1/completions": { model: "none", prompt: "hi" },
  "PUT /v1/config": {},
  "POST /v1/datasets": { name: "d", format: "prompt" },
  "POST /v1/datasets/connect": { source_type: "s3", source_uri: "s3://bucket/rows.jsonl", name: "c" },
  "POST /v1/datasets/connect/validate": { source_type: "hf", hub_dataset: "none/none" },
  "POST /v1/annotation_queues": { name: "q", mode: "single" },
  "PATCH /v1/annotation_queues/{id}": {},
  "POST /v1/annotation_queues/{id}/items": { items: [{ input: "i", outputs: ["o"] }] },
  "POST /v1/annotation_queues/{id}/items/{item}/annotations": { correction: "c" },
  "POST /v1/annotation_queues/{id}/items/{item}/skip": {},
  "POST /v1/annotation_queues/{id}/next": {},
  "PATCH /v1/datasets/{id}": {},
  "POST /v1/datasets/{id}/preview": { model: "verk-tiny", limit: 1 },
  "POST /v1/datasets/{id}/resolutions": {},
  "POST /v1/datasets/{id}/rows": { rows: [{ prompt: "p" }] },
  "POST /v1/datasets/{id}/snapshots": {},
  "POST /v1/deployments": { model: newId("mdl"), name: "d" },
  "POST /v1/logins": { email: "ada@example.com", password: "four rivers of glass" },
  "PATCH /v1/users/{id}": {},
  "POST /v1/api_keys/{id}/rotate": {},
  "POST /v1/invitations": { email: "ada@example.com" },
  "POST /v1/logins/invitations": { token: "none", password: "four rivers of glass" },
  "POST /v1/me/password": { password: "four rivers of glass", new_password: "five rivers of glass" },
  "POST /v1/me/second_factor": { password: "four rivers of glass" },
  "POST /v1/me/second_factor/confirm": { code: "123456" },
  "POST /v1/me/second_factor/remove": { password: "four rivers of glass", code: "123456" },
  "PATCH /v1/deployments/{id}": {},
  "POST /v1/deployments/{id}/chat/completions": CHAT,
  "POST /v1/deployments/{id}/completions": { model: "none", prompt: "hi" },
  "POST /v1/deployments/{id}/embeddings": { model: "none", input: "hi" },
  "POST /v1/detect": { image: PIXEL, model: "none" },
  "POST /v1/rollouts": { model: "none" },
  "POST /v1/rollouts/dataset": { name: "r", rollouts: [newId("rol")] },
  "POST /v1/rollouts/{id}/finish": { reward: 1 },
  "POST /v1/embeddings": { model: "none", input: "hi" },
  "POST /v1/evaluators": { name: "e", ...CHECK },
  "POST /v1/evaluators/{id}/run": { rows: [{ output: "four" }] },
  "POST /v1/models": { name: "m" },
  "POST /v1/models/pull": { name: "verk-tiny" },
  "POST /v1/models/{id}/complete": {},
  "POST /v1/models/{id}/push": { repo: "team/m" },
  "POST /v1/models/{id}/quantize": { quantization: "Q4_K_M" },
  "POST /v1/models/{id}/template": { conversations: [{ messages: [{ role: "user", content: "hello" }] }] },
  "POST /v1/models/{id}/presigned-upload": { files: [{ path: "x.gguf" }] },
  "POST /v1/monitors": { name: "m", ...BALANCE },
  "POST /v1/monitors/preview": BALANCE,
  "PATCH /v1/monitors/{id}": {},
  "POST /v1/monitors/{id}/mute": { seconds: 60 },
  "POST /v1/otlp/v1/traces": { resourceSpans: [] },
  "POST /v1/traces": { resourceSpans: [] },
  "POST /v1/reward_functions": { name: "r", source: SCORES, language: "javascript" },
  "POST /v1/reward_functions/run": {
    rows: [{ prompt: "p", completion: "c" }],
    reward_functions: [{ id: newId("rf") }],
  },
  "POST /v1/reward_functions/{id}/run": { rows: [{ prompt: "p", completion: "c" }] },
  "PUT /v1/secrets/{name}": { value: "v" },
  "POST /v1/vector_stores": { name: "v", embedding_model: "none" },
  "POST /v1/vector_stores/{id}/search": { query: "q" },
  "POST /v1/vector_stores/{id}/files": { file_id: "none" },
  "POST /v1/vector_stores/{id}/file_batches": { file_ids: ["none"] },
  "POST /v1/moderations": { model: "none", input: "hi" },
  "POST /v1/containers": { name: "c", file_ids: ["none"] },
  "POST /v1/sessions": { volumes: [{ name: "none", mount_path: "/workspace/v" }] },
  "POST /v1/sessions/{id}/exec": { command: ["true"] },
  "PUT /v1/settings/integrations/tracker": { type: "mlflow", base_url: NOWHERE },
  "POST /v1/traces/{id}/scores": { name: "quality", value: 0.5 },
  "POST /v1/training_jobs": JOB,
  "POST /v1/training_jobs/validate": JOB,
  "POST /v1/volumes": { name: "v" },
  "POST /v1/volumes/{name}/download-url": { path: "a.txt" },
  "POST /v1/volumes/{name}/upload-url": { path: "b.txt" },
  "POST /v1/webhooks": { url: NOWHERE, event_types: ["job.failed"] }, // thousands that want every event would slow each call
  "PATCH /v1/webhooks/{id}": {},
  "POST /v1/webhooks/{id}/recover": { since: "2026-01-01T00:00:00.000Z" },
  "POST /v1/webhooks/{id}/rotate_secret": {},
  "POST /v1/workspaces": { name: "w" },
  "PATCH /v1/workspaces/{id}": {},
};

/** Names that may exist only once get a number. */
export const renamed = (operation: string, body: unknown, number: number): unknown =>
  operation.startsWith("POST") && typeof (body as { name?: unknown })?.name === "string"
    ? { ...(body as object), name: `${(body as { name: string }).name}${number}` }
    : body;

export async function openWorld(server: Server): Promise<World> {
  const post = async (path: string, body: unknown, method = "POST") => {
    const answer = await server.call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`);
    return answer.body as { id: string };
  };
  const account = (await server.call("GET", "/v1/account")).body as { payment_customer_id: string };
  const dataset = (await post("/v1/datasets", { name: "base", format: "prompt" })).id;
  await post(`/v1/datasets/${dataset}/rows`, { rows: [{ prompt: "a" }, { prompt: "b" }] });
  await post(`/v1/datasets/${dataset}/snapshots`, {});
  await post("/v1/volumes", { name: "base" });
  await post("/v1/volumes/base/files/a.txt", "text", "PUT");
  await post("/v1/secrets/BASE", { value: "v" }, "PUT");
  const evaluator = (await post("/v1/evaluators", { name: "base", ...CHECK })).id;
  const experiment = { dataset, targets: [{ type: "outputs", field: "prompt" }], evaluators: [evaluator] };
  const artifact = newId("art");
  const ids: Record<string, string> = {
    datasets: dataset,
    annotation_queues: (await post("/v1/annotation_queues", { name: "base", mode: "single" })).id,
    evaluators: evaluator,
    evals: (await post("/v1/evals", EVAL)).id,
    experiments: (await post("/v1/experiments", experiment)).id,
    monitors: (await post("/v1/monitors", { name: "base", ...BALANCE })).id,
    webhooks: (await post("/v1/webhooks", { url: NOWHERE })).id,
    api_keys: newId("key"),
    models: (await post("/v1/models", { name: "base" })).id,
    reward_functions: (await post("/v1/reward_functions", { name: "base", source: SCORES, language: "javascript" })).id,
    workspaces: (await post("/v1/workspaces", { name: "base" })).id,
    volumes: "base",
    secrets: "BASE",
    code_artifacts: artifact,
    regions: "local",
    customer: account.payment_customer_id,
  };
  const bodies = {
    ...BODIES,
    "POST /v1/experiments": experiment,
    "POST /v1/billing/check_balance": { payment_customer_id: ids["customer"], estimated_cost_usd: 1 },
    "POST /v1/billing/grants": { payment_customer_id: ids["customer"], amount_usd: 1 },
    "POST /v1/regions": { name: "r", kind: "ssh", address: "node.example.com", user: "verk", ssh_key_id: newId("ssh") },
    "POST /v1/regions/checks": { kind: "ssh", address: "127.0.0.1", port: 9, user: "verk", ssh_key_id: newId("ssh") },
    "POST /v1/ssh_keys": { name: "k", public_key: "ssh-ed25519 AAAA", private_key: "x" },
  };
  return { ids, bodies };
}
