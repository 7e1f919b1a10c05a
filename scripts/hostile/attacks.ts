/**
 * The worst that one tenant can do with one kind of work, in a loop until the process is ended:
 * `bun scripts/hostile/attacks.ts KIND URL KEY OUTSIDE`. OUTSIDE is the address of `outside.ts`. A refusal is expected. A
 * kind that does nothing but fail ends with an error, so that a quiet attack is noticed.
 */
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { artifact, call, create, customJob, dataset, type Tenant } from "./client.ts";

type Attack = (tenant: Tenant, outside: string) => Promise<(() => Promise<unknown>)[]>;
const named = (what: string) => `${what}-${crypto.randomUUID().slice(0, 8)}`;
const many = (count: number, work: () => Promise<unknown>) => Array.from({ length: count }, () => work);

const experiments: Attack = async (tenant) => {
  const rows = await dataset(tenant, "bomb", 30_000);
  const evaluators: string[] = [];
  for (let i = 0; i < 16; i++)
    evaluators.push(
      await create(tenant, "/v1/evaluators", {
        name: `check-${i}`,
        kind: "string_check",
        config: { operation: "equals" },
      }),
    );
  const targets = [{ type: "outputs", field: "o1" }];
  const start = () =>
    call(tenant, "POST", "/v1/experiments", { dataset: rows, targets, evaluators, reference_field: "answer" });
  return [...many(4, start), () => call(tenant, "GET", "/v1/experiments?limit=100")];
};

/** Jobs that print many metrics, and readers of them. */
const metrics: Attack = async (tenant) => {
  const script = `i=0; while [ $i -lt 4000 ]; do i=$((i+1)); awk -v s=$i 'BEGIN{printf "{\\"step\\":%d",s; for(k=0;k<400;k++) printf ",\\"k%d\\":%d.5",k,k; print "}"}'; done`;
  const code = await artifact(tenant, script);
  const job = await create(tenant, "/v1/training_jobs", customJob(code, named("metrics")));
  const read = (query: string) => () => call(tenant, "GET", `/v1/training_jobs/${job}/metrics${query}`);
  const again = () => call(tenant, "POST", "/v1/training_jobs", customJob(code, named("metrics")));
  return [read(""), read("?max_points=10"), read("?format=csv"), read("?max_points=100000"), again];
};

/** Sources that drip, and archives that grow. */
const sources: Attack = async (tenant, outside) => {
  const credentials = { access_key_id: "a", secret_access_key: "b" };
  const source_uri = `s3://slow/rows.jsonl?endpoint=${outside}`;
  const connected = await create(tenant, "/v1/datasets/connect", {
    name: "slow",
    source_type: "s3",
    source_uri,
    credentials,
  });
  const bomb = gzipSync(`${JSON.stringify({ prompt: "x" })}\n`.repeat(3_000_000));
  const upload = async () => {
    const form = new FormData();
    form.set("name", named("bomb"));
    form.set("file", new File([bomb], "rows.jsonl.gz"));
    const { body } = await call(tenant, "POST", "/v1/datasets", form);
    if (typeof body["id"] === "string") await call(tenant, "DELETE", `/v1/datasets/${body["id"]}`);
  };
  const read = () => call(tenant, "POST", `/v1/datasets/${connected}/resolutions`, { credentials });
  const check = () =>
    call(tenant, "POST", "/v1/datasets/connect/validate", { source_type: "s3", source_uri, credentials });
  return [...many(8, upload), ...many(5, read), ...many(5, check)];
};

const storage: Attack = async (tenant) => {
  const sparse = await artifact(tenant, "mkdir -p output; for i in $(seq 16); do truncate -s 60M output/f$i; done");
  await call(tenant, "POST", "/v1/volumes", { name: "fill" });
  const bytes = new Uint8Array(32_000_000).fill(7);
  const put = async () => {
    bytes[0] = Math.floor(performance.now());
    await call(tenant, "PUT", `/v1/volumes/fill/files/f-${Math.floor(performance.now()) % 50}`, bytes);
  };
  return [
    ...many(3, put),
    ...many(2, () => call(tenant, "POST", "/v1/training_jobs", customJob(sparse, named("sparse")))),
  ];
};

/** Bodies that are dear to check, connections that say nothing, spans by the thousand. */
const bodies: Attack = async (tenant) => {
  // as many fields as an object and a body may have
  const fields = Object.fromEntries(Array.from({ length: 990 }, (_, i) => [`${"n".repeat(56)}${i}`.slice(-64), 1]));
  const unknown = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`field${i}`, fields]));
  const validate = () =>
    call(tenant, "POST", "/v1/training_jobs/validate", {
      base_model: "verk-tiny",
      method: "sft",
      hyperparameters: fields,
      lora: fields,
      ...unknown,
    });
  const deep = () =>
    call(tenant, "POST", "/v1/chat/completions", {
      model: "x",
      messages: Array(20_000).fill({ role: "user", content: "x" }),
    });
  const { hostname, port } = new URL(tenant.url);
  const silent = async () => {
    const open = Array.from({ length: 300 }, () => connect(Number(port), hostname).on("error", () => {}));
    for (const socket of open.slice(0, 50))
      socket.write(
        `POST /v1/datasets HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tenant.key}\r\ncontent-length: 100000\r\n\r\n{`,
      );
    await Bun.sleep(5_000);
    for (const socket of open) socket.destroy();
  };
  const span = (i: number) => ({
    traceId: (i + Date.now()).toString(16).padStart(32, "0"),
    spanId: i.toString(16).padStart(16, "1"),
    name: `span ${i}`,
    startTimeUnixNano: `${Date.now()}000000`,
    endTimeUnixNano: `${Date.now()}000000`,
    attributes: [{ key: "gen_ai.prompt", value: { stringValue: "x sk-ant-0123456789 ".repeat(200) } }],
  });
  const spans = () =>
    call(tenant, "POST", "/v1/otlp/v1/traces", {
      resourceSpans: [{ scopeSpans: [{ spans: Array.from({ length: 500 }, (_, i) => span(i)) }] }],
    });
  const search = () => call(tenant, "GET", "/v1/traces?limit=100&text=ant");
  const exported = () => call(tenant, "GET", "/v1/traces/export");
  return [...many(12, validate), deep, silent, spans, search, exported];
};

const computing: Attack = async (tenant) => {
  const session = await create(tenant, "/v1/sessions", {});
  const spin = () =>
    call(tenant, "POST", `/v1/sessions/${session}/exec`, {
      command: "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait",
      timeout_seconds: 20,
    });
  const bomb = () =>
    call(tenant, "POST", `/v1/sessions/${session}/exec`, {
      command: "f() { f | f & }; f; sleep 10",
      timeout_seconds: 20,
    });
  const reward = () =>
    call(tenant, "POST", "/v1/reward_functions/run", {
      source: "def reward(completion, **kw):\n    while True: pass\n",
      rows: [{ prompt: "a", completion: "b" }],
    });
  const spinning = await artifact(tenant, "for i in 1 2 3 4; do (while :; do :; done) & done; sleep 10; kill 0");
  const job = () => call(tenant, "POST", "/v1/training_jobs", customJob(spinning, named("spin")));
  return [...many(8, spin), bomb, ...many(6, reward), job];
};

const chats: Attack = async (tenant) => {
  await create(tenant, "/v1/deployments", { model: "verk-tiny", name: "flood" });
  const messages = [{ role: "user", content: "count to a hundred ".repeat(10) }];
  const chat = () =>
    call(tenant, "POST", "/v1/chat/completions", { model: "flood", messages, max_tokens: 400, stream: true });
  const lines = Array.from({ length: 2_000 }, (_, i) =>
    JSON.stringify({
      custom_id: `r${i}`,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: "flood", messages, max_tokens: 50 },
    }),
  );
  const batch = async () => {
    const form = new FormData();
    form.set("purpose", "batch");
    form.set("file", new File([lines.join("\n")], "batch.jsonl"));
    const { body } = await call(tenant, "POST", "/v1/files", form);
    await call(tenant, "POST", "/v1/batches", {
      input_file_id: body["id"],
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    });
    await Bun.sleep(5_000);
  };
  const background = () =>
    call(tenant, "POST", "/v1/responses", { model: "flood", input: "count", background: true, max_output_tokens: 400 });
  return [...many(32, chat), batch, background];
};

/** Detections, and webhooks to a receiver that never answers. */
const detections: Attack = async (tenant, outside) => {
  const image = Buffer.from(
    await Bun.file(new URL("../../docs/pictures/home.png", import.meta.url)).arrayBuffer(),
  ).toString("base64");
  for (let i = 0; i < 20; i++) await call(tenant, "POST", "/v1/webhooks", { url: `${outside}/hang/${i}` });
  const rows = await create(tenant, "/v1/datasets", { name: "events", format: "prompt" });
  const detect = () => call(tenant, "POST", "/api/detect", { image });
  const batch = async () => {
    await call(tenant, "POST", "/api/detect/batch", {
      images: Array.from({ length: 50 }, (_, i) => ({ id: `i${i}`, image })),
    });
    await Bun.sleep(1_000);
  };
  const event = () => call(tenant, "POST", `/v1/datasets/${rows}/rows`, { rows: [{ prompt: "x" }] });
  const signIn = () => call(tenant, "POST", "/v1/logins", { email: "a@lab.test", password: "wrong wrong wrong" });
  return [...many(8, detect), batch, ...many(4, event), ...many(4, signIn)];
};

export const ATTACKS: Record<string, Attack> = {
  experiments,
  metrics,
  sources,
  storage,
  bodies,
  computing,
  chats,
  detections,
};

if (import.meta.main) {
  const [kind = "", url = "", key = "", outside = ""] = process.argv.slice(2);
  const attack = ATTACKS[kind];
  if (!attack) throw new Error(`no attack ${kind}`);
  await Bun.write("/proc/self/autogroup", "19").catch(() => {}); // the kernel may not share between sessions
  const works = await attack({ url, key }, outside);
  console.log("ready");
  await Promise.all(
    works.map(async (work) => {
      for (;;) {
        await work().catch(() => Bun.sleep(1_000)); // the server closed the connection
        await Bun.sleep(1);
      }
    }),
  );
}
