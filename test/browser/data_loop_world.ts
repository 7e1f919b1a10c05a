/** A small world of traces, a queue, an experiment and a monitor. Every name and text is markup. */
import { until } from "../harness.ts";
import type { startDashboard } from "./kit.ts";

export const MARKUP = `<img src=x onerror="document.title='owned'">`;
export type Loop = Awaited<ReturnType<typeof fillLoop>>;
type Server = Awaited<ReturnType<typeof startDashboard>>["server"];

export async function fillLoop(server: Pick<Server, "call">) {
  const post = async <T = { id: string }>(path: string, body: object): Promise<T> => {
    const answer = await server.call("POST", path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
    return answer.body as T;
  };
  const deployment = { model: "verk-tiny", name: "demo", context_length: 256, capture: "full" };
  const { id: served } = await post("/v1/deployments", deployment); // starts meanwhile

  const queue = await post("/v1/annotation_queues", { name: MARKUP, mode: "pairwise", instructions: MARKUP });
  const item = (n: number) => ({ input: `${MARKUP} ${n}`, outputs: [`${MARKUP} one`, "two"] });
  await post(`/v1/annotation_queues/${queue.id}/items`, { items: [item(1), item(2)] });
  const labels = await post("/v1/annotation_queues", {
    name: "labels",
    mode: "single",
    labels: [
      { name: "tone", type: "choice", options: ["kind", "rude"] },
      { name: "stars", type: "scale", min: 1, max: 5 },
    ],
  });
  await post(`/v1/annotation_queues/${labels.id}/items`, { items: [{ input: MARKUP, outputs: [MARKUP] }] });

  const rows = [1, 2, 3, 4].map((n) => ({
    prompt: `${MARKUP} ${n}`,
    completion: `right ${n}`,
    good: `right ${n}`,
    bad: n === 4 ? "right 4" : `wrong ${n}`,
  }));
  const form = new FormData();
  form.set("name", MARKUP);
  form.set("file", new File([rows.map((row) => JSON.stringify(row)).join("\n")], "rows.jsonl"));
  const dataset = await post("/v1/datasets", form);
  await post("/v1/evaluators", { name: "exact", kind: "string_check", config: { operation: "equals" } });
  const recorded = (field: string) => ({ type: "outputs", field, name: field });
  const experiment = await post("/v1/experiments", {
    name: MARKUP,
    dataset: dataset.id,
    evaluators: ["exact"],
    baseline: "good",
    targets: [recorded("good"), recorded("bad")],
  });
  const thresholds = { alert: 150, warning: 200 };
  const monitor = await post("/v1/monitors", { name: MARKUP, metric: "balance", thresholds });

  await until("the deployment", async () => {
    const { body } = await server.call("GET", `/v1/deployments/${served}`);
    if (body.status === "failed") throw new Error(JSON.stringify(body.error));
    return body.status === "serving";
  });
  const chat = await server.call("POST", "/v1/chat/completions", {
    model: "demo",
    max_tokens: 8,
    metadata: { conversation_id: "talk", note: MARKUP },
    messages: [{ role: "user", content: MARKUP }],
  });
  const trace = chat.headers.get("x-trace-id") ?? "";
  await until("the trace", async () => (await server.call("GET", `/v1/traces/${trace}`)).status === 200);
  await until("the experiment", async () => {
    const { body } = await server.call("GET", `/v1/experiments/${experiment.id}`);
    if (body.status === "failed") throw new Error(body.error);
    return body.status === "completed";
  });
  const paths = [
    ...["/annotate", `/annotate/${queue.id}`, "/experiments", `/experiments/${experiment.id}`, "/experiments/new"],
    ...["/monitors", `/monitors/${monitor.id}`, "/monitors?new=1", `/traces/${trace}`, "/conversations/talk"],
  ];
  return { queue: queue.id, labels: labels.id, experiment: experiment.id, monitor: monitor.id, trace, paths };
}
