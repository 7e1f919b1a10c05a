/** Request bodies that work as they stand, for the routes that people use first. */
type Example = { json?: unknown; form?: Record<string, string> };

/** An id in the form of a real one. Replace it with the id of your own dataset. */
export const DATASET_ID = "ds_01m7fxkzpq86kvjr5hr1qsnmh7";

export const EXAMPLES: Readonly<Record<string, Example>> = {
  "POST /v1/datasets": {
    json: { name: "feedback", format: "preference" },
    form: { name: "sums", file: "@sums.jsonl" },
  },
  "POST /v1/datasets/{id}/rows": { json: { rows: [{ prompt: "What is 5 + 5?", answer: 10 }] } },
  "POST /v1/training_jobs": {
    json: {
      base_model: "verk-tiny",
      method: "grpo",
      dataset: DATASET_ID,
      reward_functions: [{ id: "numeric_answer" }],
      output_name: "sums",
      hyperparameters: { max_steps: 20, max_completion_length: 8 },
    },
  },
  "POST /v1/deployments": { json: { model: "verk-tiny", name: "demo" } },
  "POST /v1/chat/completions": { json: { model: "demo", messages: [{ role: "user", content: "Who are you?" }] } },
  "POST /v1/reward_functions/run": {
    json: {
      reward_functions: [{ id: "numeric_answer" }],
      rows: [{ prompt: "What is 6 times 7?", completion: "It is 42.", answer: 42 }],
    },
  },
  "POST /v1/sessions": { json: { name: "try", timeout_seconds: 600 } },
  "POST /v1/webhooks": {
    json: { url: "https://hooks.example.com/verk", event_types: ["job.completed", "job.failed"] },
  },
  "POST /v1/api_keys": { json: { name: "laptop", scopes: ["training", "inference"] } },
  "POST /api/detect": {
    json: {
      models: ["detector_v0"],
      image:
        "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAMAAABEpIrGAAAAA1BMVEV4oMjGIPJZAAAACXBIWXMAAAPoAAAD6AG1e1JrAAAAEklEQVQ4y2NgGAWjYBSMAuwAAAQgAAFWu83mAAAAAElFTkSuQmCC",
    },
  },
};

type Content = Record<string, { example?: unknown }>;
type Document = { paths?: Record<string, Record<string, { requestBody?: { content?: Content } }>> };

/** Adds the examples to an OpenAPI document. */
export function withExamples<D extends Record<string, unknown>>(document: D): D {
  const { paths = {} } = document as Document;
  for (const [operation, { json, form }] of Object.entries(EXAMPLES)) {
    const [method = "", path = ""] = operation.split(" ");
    const content = paths[path]?.[method.toLowerCase()]?.requestBody?.content;
    if (!content) throw new Error(`${operation} has an example but takes no body`);
    for (const [type, example] of [
      ["application/json", json],
      ["multipart/form-data", form],
    ] as const)
      if (example !== undefined) content[type] = { ...content[type], example };
  }
  return document;
}
