/** A workspace in which every text that a user can store is markup. */
import { deflateSync } from "node:zlib";
import { until } from "../harness.ts";
import { sshKeypair } from "../ssh_keypair.ts";
import type { startDashboard } from "./kit.ts";

type Call = Awaited<ReturnType<typeof startDashboard>>["server"]["call"];
export type Ids = Awaited<ReturnType<typeof fillWorld>>;

/** Markup for a name of the kind `of`. Some names may have no slash and no @. */
export const name = (of: string) => `${of}"'><img src=x onerror=hit(1)><svg onload=hit(2)>`;

/** The same with everything that ends an element, a script, an attribute or a template. */
export const text = (of: string) =>
  `${name(of)}</script><script>hit(3)</script></textarea></title><a href=javascript:hit(4)>{{7*7}}\${7*7}<%=7*7%>`;

const SMALL = { num_generations: 4, per_device_train_batch_size: 8, max_completion_length: 6, max_steps: 2 };
const REWARD = `# ${text("reward code")}
def reward(completions, **kwargs):
    print(${JSON.stringify(text("printed line"))})
    if "broken" in str(kwargs.get("mood")):
        raise ValueError(${JSON.stringify(text("reward error"))})
    return [float(len(text)) for text in completions]
`;
const FAILING = `def reward(completions, **kwargs):
    raise ValueError(${JSON.stringify(text("run error"))})
`;

export async function fillWorld(call: Call, receiver: string) {
  const post = async <T = { id: string }>(path: string, body: unknown = {}, method = "POST"): Promise<T> => {
    const answer = await call(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.body as T;
  };
  const get = async (path: string) => (await call("GET", path)).body;
  const metadata = { [name("key").slice(0, 60)]: text("metadata") };

  await post("/v1/account", { name: name("own workspace") }, "PATCH");
  await post("/v1/workspaces", { name: name("workspace") });
  await post("/v1/api_keys", { name: name("key name"), metadata });
  await call("DELETE", `/v1/api_keys/${encodeURIComponent(name("audited id"))}`);
  const account = await get("/v1/account");
  const customer = account.payment_customer_id;
  await post("/v1/billing/grants", { payment_customer_id: customer, amount_usd: 1, description: name("grant") });
  const model = await post("/v1/models", { name: name("model"), metadata });
  const pair = await sshKeypair();
  const key = await post("/v1/ssh_keys", { name: name("ssh key"), ...pair });
  await post("/v1/regions", {
    name: name("region"),
    kind: "ssh",
    address: "127.0.0.1",
    port: 1,
    user: "node",
    ssh_key_id: key.id,
    host_key: pair.public_key.split(" ").slice(0, 2).join(" "),
  });

  const deployment = await post("/v1/deployments", {
    model: "verk-tiny",
    name: name("deployment"),
    context_length: 512,
    capture: "full",
    metadata,
  });
  const form = new FormData();
  form.set("name", name("dataset"));
  form.set("metadata", JSON.stringify(metadata));
  const rows = [1, 2, 3, 4].map((n) => ({
    prompt: `${text("prompt")} ${n}`,
    [name("column")]: text("cell"),
    completion: text("completion"),
    good: text("completion"),
    bad: text("answer"),
    mood: n === 1 ? "broken" : "",
  }));
  form.set("file", new File([rows.map((row) => JSON.stringify(row)).join("\n")], `${name("file")}.jsonl`));
  const dataset = await post("/v1/datasets", form);
  const older = await post(`/v1/datasets/${dataset.id}/snapshots`, { note: text("snapshot note") });
  await post(`/v1/datasets/${dataset.id}/rows`, { rows: [{ prompt: text("later prompt"), completion: "x" }] });
  const newer = await post(`/v1/datasets/${dataset.id}/snapshots`);

  const description = text("description");
  const reward = await post("/v1/reward_functions", { name: name("reward"), description, metadata, source: REWARD });
  const source = `def reward(completions, **kwargs):\n    raise ValueError(${JSON.stringify(text("evaluator error"))})\n`;
  const evaluator = await post("/v1/evaluators", {
    name: name("evaluator"),
    description,
    metadata,
    kind: "code",
    config: { source },
  });
  await post("/v1/evaluators", { name: "exact", kind: "string_check", config: { operation: "equals" } });

  const job = (output: string, reward_source: string) => ({
    base_model: "verk-tiny",
    method: "grpo",
    output_name: name(output),
    dataset: dataset.id,
    reward_source,
    hyperparameters: SMALL,
    lora: { r: 4 },
    metadata,
    seed: 1,
  });
  const run = await post("/v1/training_jobs", job("run", REWARD));
  const failed = await post("/v1/training_jobs", job("failed run", FAILING));

  const recorded = (field: string) => ({ type: "outputs", field, name: name(`target ${field}`) });
  const experiment = await post("/v1/experiments", {
    name: name("experiment"),
    dataset: dataset.id,
    evaluators: [evaluator.id, "exact"],
    metadata,
    targets: [recorded("good"), recorded("bad")],
  });
  const monitor = await post("/v1/monitors", {
    name: name("monitor"),
    metric: "balance",
    thresholds: { alert: 1e6 },
    metadata,
  });
  const { queue, item } = await fillQueue(post, metadata);
  const endpoint = await post("/v1/webhooks", {
    url: `${receiver}/${encodeURIComponent(name("hook"))}`,
    description: text("about the hook"),
    metadata,
  });
  await post(`/v1/webhooks/${endpoint.id}/test`);
  await post("/v1/agents", { name: name("agent"), description, deployment: deployment.id, system_prompt: description });

  const detection = await post("/api/detect", { image: pictureOf(name("software")).toString("base64") });
  await post(`/api/detect/${detection.id}/feedback`, { label: "ai", comment: text("feedback") });

  const ended = async (path: string, statuses: string[]) =>
    await until(path, async () => statuses.includes((await get(path)).status), 90_000);
  await ended(`/v1/deployments/${deployment.id}`, ["serving"]);
  const trace = await fillTrace(call, post);
  const rollout = await fillRollout(call, post);
  await ended(`/v1/training_jobs/${run.id}`, ["completed", "failed"]);
  await ended(`/v1/training_jobs/${failed.id}`, ["completed", "failed"]);
  await ended(`/v1/experiments/${experiment.id}`, ["completed", "failed"]);
  await until(
    "the delivery",
    async () => (await get(`/v1/webhooks/${endpoint.id}/deliveries`)).data[0]?.attempts.length,
  );
  const delivery = (await get(`/v1/webhooks/${endpoint.id}/deliveries`)).data[0].id as string;
  const ids = {
    older,
    newer,
    run,
    failed,
    dataset,
    reward,
    evaluator,
    experiment,
    monitor,
    queue,
    endpoint,
    detection,
    deployment,
    model,
  };
  return { ...idsOf(ids), item, trace, rollout, delivery };
}

const idsOf = <K extends string>(things: Record<K, { id: string }>): Record<K, string> =>
  Object.fromEntries(Object.entries<{ id: string }>(things).map(([key, { id }]) => [key, id])) as Record<K, string>;

type Post = <T = { id: string }>(path: string, body?: unknown, method?: string) => Promise<T>;

async function fillQueue(post: Post, metadata: Record<string, string>) {
  const queue = await post("/v1/annotation_queues", {
    name: name("queue"),
    mode: "single",
    instructions: text("instructions"),
    metadata,
    labels: [
      {
        name: name("label").slice(0, 64),
        type: "choice",
        options: [name("option"), "none"],
        description: text("hint"),
      },
    ],
  });
  const one = {
    input: text("item input"),
    outputs: [text("item output")],
    reference: text("item reference"),
    metadata,
  };
  const path = `/v1/annotation_queues/${queue.id}`;
  await post(`${path}/items`, { items: [one, one] });
  const { item } = await post<{ item: { id: string } }>(`${path}/next`, { annotator: name("annotator") });
  await post(`${path}/items/${item.id}/annotations`, {
    annotator: name("annotator"),
    labels: { [name("label").slice(0, 64)]: name("option") },
    correction: text("correction"),
    comment: text("comment"),
  });
  return { queue, item: item.id };
}

async function fillTrace(call: Call, post: Post): Promise<string> {
  const { headers } = await call("POST", "/v1/chat/completions", {
    model: name("deployment"),
    max_tokens: 4,
    user: name("user"),
    metadata: {
      conversation_id: "talk",
      tags: name("tag").slice(0, 64),
      [name("note").slice(0, 60)]: text("trace metadata"),
    },
    messages: [
      { role: "system", content: text("system prompt") },
      { role: "user", content: text("chat message") },
    ],
  });
  const trace = headers.get("x-trace-id") ?? "";
  await until("the trace", async () => (await call("GET", `/v1/traces/${trace}`)).status === 200);
  const score = { name: name("score"), value: text("score value"), comment: text("score comment") };
  await post(`/v1/traces/${trace}/scores`, score);
  return trace;
}

/** One turn of an agent, with a tool and a reward. */
async function fillRollout(call: Call, post: Post): Promise<string> {
  const metadata = { task: name("rollout task"), [name("rollout note").slice(0, 60)]: text("rollout metadata") };
  const opened = await post<{ id: string; base_url: string; api_key: string }>("/v1/rollouts", {
    model: name("deployment"),
    metadata,
  });
  const tools = [{ type: "function", function: { name: "look", description: text("tool") } }];
  const messages = [{ role: "user", content: text("rollout message") }];
  const answer = await fetch(`${opened.base_url}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "any", max_tokens: 4, messages, tools }),
  });
  if (!answer.ok) throw new Error(`the call of the rollout: ${await answer.text()}`);
  await post(`/v1/rollouts/${opened.id}/finish`, { reward: 1, metrics: { [name("metric").slice(0, 90)]: 1 } });
  await until("the turn", async () => (await call("GET", `/v1/rollouts/${opened.id}`)).body.turns === 1);
  return opened.id;
}

/** A PNG of 64 × 64 pixels whose text `Software` is the given one. */
function pictureOf(software: string): Buffer {
  const size = 64;
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(Bun.hash.crc32(body));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.from([0, 0, 0, size, 0, 0, 0, size, 8, 2, 0, 0, 0]);
  const pixels = Buffer.concat(
    Array.from({ length: size }, (_, y) =>
      Buffer.from([0, ...Array.from({ length: size * 3 }, (_, x) => (x * y) % 256)]),
    ),
  );
  const written = Buffer.concat([Buffer.from("Software\0"), Buffer.from(software)]);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const parts = [
    chunk("IHDR", head),
    chunk("tEXt", written),
    chunk("IDAT", deflateSync(pixels)),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([signature, ...parts]);
}
