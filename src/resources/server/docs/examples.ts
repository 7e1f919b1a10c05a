/**
 * Requests that work as they are, for the routes that people use first. They are in the order in which a reader tries
 * them: a later one uses the names of those before. test/process/docs_examples.test.ts runs the commands in this order.
 */
type Example = {
  /** Values in the path. Without one, the command has a variable such as $DATASET_ID. */
  path?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string>>;
  json?: unknown;
  /** Fields of a form. `file`: the lines of the file that the field with @ names. */
  form?: Readonly<Record<string, string>>;
  file?: string;
};

const IMAGE =
  "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAMAAABEpIrGAAAAA1BMVEV4oMjGIPJZAAAACXBIWXMAAAPoAAAD6AG1e1JrAAAAEklEQVQ4y2NgGAWjYBSMAuwAAAQgAAFWu83mAAAAAElFTkSuQmCC";

const REWARD = "def reward(completion):\n    return 1.0 if len(completion) < 20 else 0.0\n";

export const EXAMPLES: Readonly<Record<string, Example>> = {
  "POST /v1/datasets": {
    json: { name: "sums", format: "prompt" },
    form: { name: "more_sums", file: "@sums.jsonl" },
    file: '{"prompt": "What is 2 + 2?", "answer": 4}',
  },
  "POST /v1/datasets/{id}/rows": {
    json: {
      rows: [
        { prompt: "What is 5 + 5?", answer: 10 },
        { prompt: "What is 3 + 4?", answer: 7 },
      ],
    },
  },
  "GET /v1/datasets/{id}/rows": { query: { limit: "10" } },
  "POST /v1/datasets/{id}/snapshots": { json: { note: "before training" } },
  "POST /v1/reward_functions": { json: { name: "brevity", source: REWARD } },
  "POST /v1/reward_functions/run": {
    json: {
      reward_functions: [{ id: "numeric_answer" }, { id: "brevity", weight: 0.5 }],
      rows: [{ prompt: "What is 6 times 7?", completion: "It is 42.", answer: 42 }],
    },
  },
  "POST /v1/training_jobs": {
    json: {
      base_model: "verk-tiny",
      method: "grpo",
      dataset: "sums",
      reward_functions: [{ id: "numeric_answer" }],
      output_name: "sums",
      hyperparameters: { max_steps: 20, max_completion_length: 8 },
    },
  },
  "GET /v1/training_jobs/{id}": {},
  "GET /v1/training_jobs/{id}/events": { query: { limit: "10" } },
  "GET /v1/training_jobs/{id}/metrics": { query: { keys: "reward,loss" } },
  "GET /v1/training_jobs/{id}/samples": { query: { limit: "4" } },
  "GET /v1/training_jobs/{id}/logs": { query: { tail: "20" } },
  "POST /v1/deployments": { json: { model: "verk-tiny", name: "demo" } },
  "PATCH /v1/deployments/{id}": { json: { capture: "full" } },
  "GET /v1/models": {},
  "POST /v1/chat/completions": { json: { model: "demo", messages: [{ role: "user", content: "Who are you?" }] } },
  "GET /v1/traces": { query: { limit: "10" } },
  "POST /v1/evaluators": { json: { name: "has_answer", kind: "string_check", config: { operation: "contains" } } },
  "POST /v1/evaluators/{id}/run": {
    path: { id: "has_answer" },
    json: { rows: [{ input: "What is 6 times 7?", output: "It is 42.", reference: "42" }] },
  },
  "POST /v1/experiments": {
    json: { dataset: "$DATASET_ID", targets: [{ type: "deployment", deployment: "demo" }], evaluators: ["has_answer"] },
  },
  "POST /api/detect": { json: { models: ["detector_v0"], image: IMAGE } },
  "POST /v1/webhooks": {
    json: { url: "https://hooks.example.com/verk", event_types: ["job.completed", "job.failed"] },
  },
  "POST /v1/api_keys": { json: { name: "laptop", scopes: ["training", "inference"] } },
  "GET /v1/cost/summary": { query: { days: "7" } },
  "POST /v1/sessions": { json: { name: "try", timeout_seconds: 600 } },
};

type Media = { example?: unknown; "x-file"?: string };
type Parameter = { name: string; in: string; example?: string };
type Operation = { parameters?: Parameter[]; requestBody?: { content?: Record<string, Media> } };

/** Adds the examples to an OpenAPI document. */
export function withExamples<D extends Record<string, unknown>>(document: D): D {
  const { paths = {} } = document as { paths?: Record<string, Record<string, Operation>> };
  for (const [name, example] of Object.entries(EXAMPLES)) {
    const [method = "", path = ""] = name.split(" ");
    const operation = paths[path]?.[method.toLowerCase()];
    if (!operation) throw new Error(`${name} has an example but is no route`);
    addValues(name, operation, { ...example.path, ...example.query });
    addBody(name, operation, "application/json", example.json);
    addBody(name, operation, "multipart/form-data", example.form, example.file);
  }
  return document;
}

function addValues(name: string, { parameters = [] }: Operation, values: Readonly<Record<string, string>>) {
  for (const [key, value] of Object.entries(values)) {
    const parameter = parameters.find((each) => each.name === key);
    if (!parameter) throw new Error(`${name} has an example of ${key} but no such parameter`);
    parameter.example = value;
  }
}

function addBody(name: string, { requestBody }: Operation, type: string, example: unknown, file?: string) {
  if (example === undefined) return;
  const { content } = requestBody ?? {};
  if (!content) throw new Error(`${name} has an example but takes no body`);
  content[type] = { ...content[type], example, ...(file === undefined ? {} : { "x-file": file }) };
}
