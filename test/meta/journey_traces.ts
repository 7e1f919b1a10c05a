/** Steps of the journey: traces, their scores, conversations, and spans of another program. */
import { type TestApp, until } from "../harness.ts";
import { pretendServing } from "../pretend_replica.ts";
import type { Step } from "./journey.ts";

export const CONVERSATION = "journey-talk";
const SPAN = {
  traceId: "5b8efff798038103d269b633813fc60c",
  spanId: "eee19b7ec3c1b174",
  name: "chat gpt",
  startTimeUnixNano: "1790000000000000000",
  endTimeUnixNano: "1790000001000000000",
  attributes: [
    { key: "gen_ai.operation.name", value: { stringValue: "chat" } },
    { key: "gen_ai.request.model", value: { stringValue: "gpt" } },
  ],
};

/** A request to a deployment that captures everything. */
async function trace(app: TestApp): Promise<{ id: string }> {
  const known = (await app.call("GET", `/v1/traces?conversation_id=${CONVERSATION}`)).body.data[0];
  if (known) return { id: known.id };
  const id = await deploymentOf(app);
  const json = {
    model: "traced",
    messages: [{ role: "user", content: "hi" }],
    metadata: { conversation_id: CONVERSATION },
  };
  const { headers } = await app.call("POST", `/v1/deployments/${id}/chat/completions`, json);
  const traceId = headers.get("x-trace-id") ?? "";
  await until("its trace", async () => (await app.call("GET", `/v1/traces/${traceId}`)).status === 200);
  return { id: traceId };
}

/** A journey that deletes the trace makes another one with the same deployment. */
async function deploymentOf(app: TestApp): Promise<string> {
  const { data } = (await app.call("GET", "/v1/deployments?limit=100")).body;
  const traced = data.find(({ name }: { name: string }) => name === "traced");
  if (traced) return traced.id;
  const made = await app.call("POST", "/v1/deployments", { model: "journey/traced", name: "traced", capture: "full" });
  pretendServing(app, made.body.id);
  return made.body.id;
}

const conversation = async (app: TestApp) => {
  await trace(app);
  return { id: CONVERSATION };
};

export const TRACES: Step[] = [
  {
    operation: "POST /v1/otlp/v1/traces",
    json: { resourceSpans: [{ scopeSpans: [{ spans: [SPAN] }] }] },
    plain: true,
  },
  { operation: "POST /v1/traces", json: { resourceSpans: [{ scopeSpans: [{ spans: [SPAN] }] }] }, plain: true },
  { operation: "GET /v1/traces" },
  { operation: "GET /v1/traces/export", bytes: true },
  { operation: "GET /v1/traces/facets" },
  { operation: "GET /v1/traces/{id}", own: trace },
  { operation: "POST /v1/traces/{id}/scores", own: trace, json: { name: "quality", value: 0.5 } },
  { operation: "GET /v1/traces/conversations" },
  { operation: "GET /v1/traces/conversations/{id}", own: conversation },
  { operation: "POST /v1/traces/conversations/{id}/replay", own: conversation, json: {} },
  { operation: "DELETE /v1/traces/{id}", own: trace },
];
