/** One tenant's calls to the server, without retries: a refusal is an answer like any other. */
import { rmSync } from "node:fs";

export type Tenant = { url: string; key: string };
export type Answer = { status: number; body: Record<string, unknown> };

export async function call(
  { url, key }: Tenant,
  method: string,
  path: string,
  body?: unknown,
  ms = 600_000,
): Promise<Answer> {
  const isJson = body !== undefined && !(body instanceof FormData) && !(body instanceof Uint8Array);
  const headers = new Headers(
    path.startsWith("/api/detect") ? { "x-api-key": key } : { authorization: `Bearer ${key}` },
  );
  if (isJson) headers.set("content-type", "application/json");
  const sent = body === undefined ? null : isJson ? JSON.stringify(body) : (body as FormData);
  const response = await fetch(url + path, { method, headers, body: sent, signal: AbortSignal.timeout(ms) });
  const text = await response.text();
  try {
    return { status: response.status, body: JSON.parse(text) as Record<string, unknown> };
  } catch {
    return { status: response.status, body: { text: text.slice(0, 200) } };
  }
}

/** A creation that must succeed. */
export async function create(tenant: Tenant, path: string, body: unknown): Promise<string> {
  const { status, body: made } = await call(tenant, "POST", path, body);
  const id = made["id"];
  if (status > 299 || typeof id !== "string")
    throw new Error(`POST ${path}: ${status} ${JSON.stringify(made).slice(0, 300)}`);
  return id;
}

/** Waits until the thing has one of the statuses, and returns it. */
export async function ended(tenant: Tenant, path: string, statuses: readonly string[], ms = 600_000) {
  const end = performance.now() + ms;
  for (;;) {
    const { body } = await call(tenant, "GET", path);
    if (statuses.includes(String(body["status"]))) return body;
    if (performance.now() > end) throw new Error(`${path} is still ${body["status"]}`);
    await Bun.sleep(100);
  }
}

/** A dataset of recorded outputs. */
export async function dataset(tenant: Tenant, name: string, rows: number): Promise<string> {
  const id = await create(tenant, "/v1/datasets", { name, format: "prompt" });
  for (let from = 0; from < rows; from += 1_000) {
    const some = Array.from({ length: Math.min(1_000, rows - from) }, (_, i) => ({
      prompt: `q${from + i}`,
      answer: "a",
      o1: "a",
    }));
    const { status, body } = await call(tenant, "POST", `/v1/datasets/${id}/rows`, { rows: some });
    if (status > 299) throw new Error(`append: ${status} ${JSON.stringify(body)}`);
  }
  return id;
}

/** A file of code for a custom job. */
export async function artifact(tenant: Tenant, script: string): Promise<string> {
  const dir = `/tmp/hostile-${crypto.randomUUID()}`;
  await Bun.write(`${dir}/run.sh`, script);
  const tar = Bun.spawnSync(["tar", "-czf", "-", "-C", dir, "run.sh"]).stdout;
  rmSync(dir, { recursive: true });
  const form = new FormData();
  form.set("file", new File([new Uint8Array(tar)], "code.tar.gz"));
  const { status, body } = await call(tenant, "POST", "/v1/code_artifacts", form);
  if (status > 299) throw new Error(`artifact: ${status} ${JSON.stringify(body)}`);
  return String(body["id"]);
}

export const customJob = (artifactId: string, name: string) => ({
  method: "custom",
  code_artifact_id: artifactId,
  command: "sh run.sh",
  output_name: name,
});
