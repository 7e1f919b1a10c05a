/**
 * Memory of the server under mixed calls: chats, streams that clients leave, traces, scores, rows, keys, secrets, files,
 * annotations, lists and scrapes. `SOAK_SECONDS` sets another length.
 */
import { readFileSync } from "node:fs";
import { makeKey, type Row, remove, startVerk, tempDir } from "./tools.ts";

const CLIENTS = 6;
const AIM_MB = 250;

/** Resident memory of a process, in MB. */
const residentMb = (pid: number) =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

type Call = (method: string, path: string, body?: object) => Promise<{ id?: string; data?: { id: string }[] }>;
type World = { call: Call; url: string; key: string; queue: string; dataset: string };

/** One round of one client. */
async function round({ call, url, key, queue, dataset }: World, n: number) {
  const chat = { model: "soak", max_tokens: 8, messages: [{ role: "user", content: `Tell me about ${n}` }] };
  await call("POST", "/v1/chat/completions", chat);
  const client = new AbortController();
  const streamed = fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ ...chat, max_tokens: 64, stream: true }),
    signal: client.signal,
  });
  await streamed.then((answer) => answer.body?.getReader().read());
  client.abort();
  const traces = await call("GET", "/v1/traces?limit=20");
  const [trace] = traces.data ?? [];
  if (trace) {
    await call("GET", `/v1/traces/${trace.id}`);
    await call("POST", `/v1/traces/${trace.id}/scores`, { name: "soak", value: n % 5 });
  }
  const rows = Array.from({ length: 20 }, (_, i) => ({ prompt: `${n} ${i} ${"x".repeat(200)}`, completion: "y" }));
  await call("POST", `/v1/datasets/${dataset}/rows`, { rows });
  await call("GET", `/v1/datasets/${dataset}/rows?limit=50`);
  const made = await call("POST", "/v1/api_keys", { name: `soak-${n}` });
  await call("DELETE", `/v1/api_keys/${made.id}`);
  await call("PUT", `/v1/secrets/SOAK_${n % 50}`, { value: `value ${n}` });
  await call("POST", `/v1/annotation_queues/${queue}/items`, { items: [{ input: `${n}`, outputs: ["a", "b"] }] });
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new File(["{}\n".repeat(2_000)], "soak.jsonl"));
  const file = await call("POST", "/v1/files", form);
  await call("DELETE", `/v1/files/${file.id}`);
  for (const path of ["/v1/events?limit=50", "/v1/training_jobs", "/v1/deployments", "/v1/models", "/v1/metrics"])
    await call("GET", path);
}

export async function run({ quick = false } = {}): Promise<Row[]> {
  const seconds = Number(process.env["SOAK_SECONDS"] ?? (quick ? 5 : 600));
  const dir = tempDir();
  const verk = await startVerk(dir);
  try {
    const key = await makeKey(dir);
    const failures = new Map<string, number>();
    let calls = 0;
    const call: Call = async (method, path, body) => {
      const isForm = body instanceof FormData;
      const headers = { authorization: `Bearer ${key}`, ...(isForm ? {} : { "content-type": "application/json" }) };
      const sent = body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) };
      const answer = await fetch(verk.url + path, { method, headers, ...sent });
      calls++;
      if (!answer.ok) {
        const name = `${method} ${path.replace(/[a-z]+_\w{20,}|SOAK_\d+/, "ID")} ${answer.status}`;
        failures.set(name, (failures.get(name) ?? 0) + 1);
      }
      const text = await answer.text();
      return text.startsWith("{") ? JSON.parse(text) : {};
    };
    const { id } = await call("POST", "/v1/deployments", { name: "soak", model: "verk-tiny", min_replicas: 1 });
    const { id: queue = "" } = await call("POST", "/v1/annotation_queues", { name: "soak", mode: "pairwise" });
    const { id: dataset = "" } = await call("POST", "/v1/datasets", { name: "soak", format: "completion" });
    while (((await call("GET", `/v1/deployments/${id}`)) as { status?: string }).status !== "serving")
      await Bun.sleep(50);
    const begun = performance.now();
    const isOver = () => performance.now() - begun > seconds * 1000;
    const resident: number[] = [residentMb(verk.pid)];
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = client; !isOver(); n += CLIENTS) await round({ call, url: verk.url, key, queue, dataset }, n);
    });
    const marks = quick ? 2 : 10;
    for (let i = 1; i <= marks; i++) {
      await Bun.sleep((seconds * 1000) / marks);
      resident.push(residentMb(verk.pid));
    }
    await Promise.all(clients);
    await Bun.sleep(quick ? 1_000 : 20_000);
    const rest = residentMb(verk.pid);
    for (const [name, count] of failures) console.error(`soak: ${count} × ${name}`);
    const curve = resident.map((mb) => mb.toFixed(0)).join(" ");
    const most = Math.max(...resident);
    const what = `resident memory over ${seconds} s of ${calls} mixed calls, MB: ${curve}; 20 s later ${rest.toFixed(0)}`;
    return [{ bench: "soak", what, value: `${most.toFixed(0)} MB`, target: `≤ ${AIM_MB} MB`, ok: most <= AIM_MB }];
  } finally {
    await verk.stop();
    remove(dir);
  }
}
