/** The part of the walk that keeps rows: push, append, snapshot, pull, and again after a kill. */
import type { Client } from "../client.ts";
import type { Append, Dataset, Snapshot } from "../datasets/find.ts";
import { formOf } from "../transfer/form.ts";

export type Kept = { id: string; snapshot: Snapshot };

const ROWS = 1000;
const rowOf = (n: number, answer = n * n) => `${JSON.stringify({ prompt: `What is ${n} times ${n}?`, answer })}\n`;
const FILE = Array.from({ length: ROWS }, (_, i) => rowOf(i, i === 12 ? 145 : i * i)).join(""); // 12 × 12 is put right later

async function upload(client: Client) {
  const bytes = new TextEncoder().encode(FILE);
  async function* chunks() {
    yield bytes;
  }
  const file = { name: "squares.jsonl", size: bytes.byteLength };
  const { headers, body } = formOf({ fields: { name: "squares" }, file }, chunks());
  return await client.call<Dataset>("POST", "/v1/datasets", undefined, { headers, raw: body });
}

/** Twice: the same content is the same dataset. */
export async function push(client: Client): Promise<{ id: string; seen: string }> {
  const [first, second] = [await upload(client), await upload(client)];
  const { id, num_rows, format } = first.body;
  if (num_rows !== ROWS || format !== "prompt") throw new Error(`it has ${num_rows} rows of the format ${format}`);
  if (second.status !== 200 || second.body.id !== id) throw new Error("the same file made another dataset");
  return { id, seen: `${id}, ${num_rows} rows; pushed again: the same one` };
}

export async function append(client: Client, id: string): Promise<string> {
  const right = `{"_op":"supersede","_row_id":13,${rowOf(12).slice(1)}`;
  const raw = new TextEncoder().encode(rowOf(ROWS) + right);
  const headers = { "content-type": "application/x-ndjson" };
  const { body } = await client.call<Append>("POST", `/v1/datasets/${id}/rows`, undefined, { headers, raw });
  if (body.appended !== 1 || body.superseded !== 1) throw new Error(`the answer is ${JSON.stringify(body)}`);
  return `rows ${body.first_row_id} to ${body.last_row_id}: 1 appended, 1 superseded`;
}

export async function snapshot(client: Client, id: string): Promise<Kept> {
  const { body } = await client.call<Snapshot>("POST", `/v1/datasets/${id}/snapshots`, { note: "demo" });
  await client.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt: "came later" }] }); // not in the snapshot
  return { id, snapshot: body };
}

/** Row by row as it should be, and by its hash. */
export async function pull(client: Client, { id, snapshot }: Kept, signal: AbortSignal): Promise<string> {
  const path = `/v1/datasets/${id}/rows/export?snapshot=${encodeURIComponent(snapshot.id)}`;
  const bytes = Buffer.concat(await Array.fromAsync(client.download(path, signal)));
  const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  const expected = FILE.replace(rowOf(12, 145), rowOf(12)) + rowOf(ROWS);
  if (bytes.toString() !== expected) throw new Error("the rows are not those that were pushed and appended");
  if (sha256 !== snapshot.sha256) throw new Error(`its sha256 is ${sha256}, not ${snapshot.sha256}`);
  return `${snapshot.row_count} rows, sha256 ${sha256.slice(0, 12)}… as it should be`;
}
