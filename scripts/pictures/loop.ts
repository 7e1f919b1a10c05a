/** The parts of the world that people and clients make: keys, requests, labels, monitors. */
import { until } from "../../test/harness.ts";
import type { Server } from "./world.ts";

// biome-ignore lint/suspicious/noExplicitAny: the answers of many routes
export type Post = (path: string, body?: unknown, method?: string) => Promise<any>;

export async function people(post: Post) {
  const keys = [
    { name: "web app", scopes: ["inference"], monthly_budget_usd: 50 },
    { name: "nightly training", scopes: ["training"] },
    { name: "grafana", scopes: ["read"] },
  ];
  for (const key of keys) await post("/v1/api_keys", key);
  await post("/v1/workspaces", { name: "Research" });
}

export const agents = (post: Post) =>
  post("/v1/agents", { name: "tutor", deployment: "sums", system_prompt: "Answer with the number only." });

const QUESTIONS = [
  ["What is 47 + 8?", "And 56 + 7?", "What is 12 + 9?"],
  ["Who are you?", "What is 90 + 4?"],
  ["Tell me a story about a fox.", "How does it end?"],
  ["What is 33 + 6?", "What is 71 + 9?", "What is 28 + 3?", "Thank you."],
  ["Name a river.", "Is it long?"],
];

/** Chats of several people with both deployments, a failed request, and scores. Returns the trace of a chat. */
export async function conversations(server: Server, post: Post): Promise<string> {
  let kept = "";
  for (const [i, talk] of QUESTIONS.entries())
    for (const model of ["base", "sums"]) {
      const messages: { role: string; content: string }[] = [];
      for (const content of talk) {
        messages.push({ role: "user", content });
        const body = {
          model,
          messages,
          max_tokens: 24,
          temperature: 0.2,
          metadata: { conversation_id: `${model}-${i + 1}`, user: ["ada", "grace", "linus"][i % 3] },
        };
        const answer = await server.call("POST", "/v1/chat/completions", body);
        messages.push({ role: "assistant", content: answer.body.choices?.[0]?.message?.content ?? "" });
        const trace = answer.headers.get("x-trace-id") ?? "";
        if (model === "sums") kept ||= trace;
        await until("the trace", async () => (await server.call("GET", `/v1/traces/${trace}`)).status === 200);
        const value = model === "sums" ? 0.8 + (i % 3) / 10 : 0.3 + (i % 4) / 10;
        await post(`/v1/traces/${trace}/scores`, { name: "helpful", value });
      }
    }
  await post(`/v1/traces/${kept}/scores`, { name: "tone", value: "kind", comment: "Short and friendly." });
  await server.call("POST", "/v1/chat/completions", {
    model: "sums",
    messages: [{ role: "user", content: "long ".repeat(40_000) }],
    metadata: { user: "linus" },
  });
  return kept;
}

/** Two rollouts of one task by an agent with a tool: one ends well, one does not. */
export async function rollouts(post: Post): Promise<{ rollout: string; otherRollout: string }> {
  const tools = [
    { type: "function", function: { name: "add", description: "Adds two numbers", parameters: { type: "object" } } },
  ];
  const work = async (reward: number, question: string) => {
    const opened = await post("/v1/rollouts", {
      model: "sums",
      sampling: { temperature: 0.8, seed: 7 + reward, max_completion_tokens: 24 },
      metadata: { task: "Two sums, one after the other" },
    });
    const ask = async (messages: readonly object[]) => {
      const answer = await fetch(`${opened.base_url}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "sums", messages, tools }),
      });
      return ((await answer.json()) as { choices: { message: object }[] }).choices[0]?.message ?? {};
    };
    const first = { role: "user", content: "What is 47 + 8?" };
    const said = await ask([first]);
    await ask([first, said, { role: "user", content: question }]);
    await ask([{ role: "user", content: "Say in one word: are you sure?" }]);
    await post(`/v1/rollouts/${opened.id}/finish`, { reward, metrics: { right: reward, steps: 3 } });
    return opened.id as string;
  };
  const rollout = await work(1, "And 12 + 9?");
  const otherRollout = await work(0, "And 33 + 6?");
  await post("/v1/rollouts", { model: "sums", metadata: { task: "Still open" } });
  return { rollout, otherRollout };
}

const PAIRS = [
  ["A customer asks where the parcel is.", "It left our warehouse this morning.", "I do not know, look it up."],
  ["How do I reset my password?", "Open Settings, then Security.", "You should have written it down."],
  ["Can I pay by invoice?", "Yes, choose Invoice at the checkout.", "Maybe."],
  ["The app crashes on start.", "Please send us the log from Help.", "It works here."],
  ["Do you ship to Norway?", "Yes, it takes three days.", "Norway is far away."],
] as const;

export async function annotations(post: Post): Promise<{ queue: string; labels: string }> {
  const pairs = await post("/v1/datasets", { name: "support-pairs", format: "preference" });
  const queue = await post("/v1/annotation_queues", {
    name: "Support answers",
    mode: "pairwise",
    dataset_id: pairs.id,
    annotators_per_item: 2,
    instructions: "Choose the answer that helps the customer more. Tone matters less than facts.",
  });
  const items = PAIRS.map(([input, ...outputs]) => ({ input, outputs }));
  await post(`/v1/annotation_queues/${queue.id}/items`, { items });
  for (const [annotator, many] of [
    ["ada", 4],
    ["grace", 3],
  ] as const)
    for (let i = 0; i < many; i++) {
      const { item } = await post(`/v1/annotation_queues/${queue.id}/next`, { annotator });
      const preferred = annotator === "grace" && i === 1 ? "second" : "first";
      await post(`/v1/annotation_queues/${queue.id}/items/${item.id}/annotations`, { annotator, preferred });
    }
  const labels = await post("/v1/annotation_queues", {
    name: "Tone of the bot",
    mode: "single",
    instructions: "Read the answer as the customer would.",
    labels: [
      { name: "tone", type: "choice", options: ["kind", "neutral", "rude"] },
      { name: "stars", type: "scale", min: 1, max: 5 },
      { name: "note", type: "text", required: false },
    ],
  });
  const singles = PAIRS.map(([input, output]) => ({ input, outputs: [output] }));
  await post(`/v1/annotation_queues/${labels.id}/items`, { items: singles });
  return { queue: queue.id, labels: labels.id };
}

export async function monitors(post: Post, deployment: string): Promise<string> {
  const slow = { name: "Slow answers", metric: "latency_p95", deployment_id: deployment };
  const first = await post("/v1/monitors", { ...slow, thresholds: { warning: 20, alert: 400 } });
  await post("/v1/monitors", { name: "Helpful", metric: "score_mean", score: "helpful", thresholds: { alert: 0.6 } });
  await post("/v1/monitors", { name: "Errors", metric: "error_rate", thresholds: { warning: 0.02, alert: 0.2 } });
  await post("/v1/monitors", { name: "Disk", metric: "disk_free", thresholds: { alert: 1_000_000_000 } });
  return first.id;
}
