/** Demo steps with datasets: push, append, snapshot, pull, and pull again after a kill. */
import type { Client } from "../client.ts";
import type { Append, Dataset, Snapshot } from "../datasets/find.ts";
import { formOf } from "../transfer/form.ts";

export type SavedSnapshot = { id: string; snapshot: Snapshot };

const ROWS = 1000;
const rowOf = (n: number, answer = n * n) => `${JSON.stringify({ prompt: `What is ${n} times ${n}?`, answer })}\n`;
// 12 × 12 is wrong on purpose; a later step corrects it.
const FILE = Array.from({ length: ROWS }, (_, i) => rowOf(i, i === 12 ? 145 : i * i)).join("");

async function upload(client: Client) {
  const bytes = new TextEncoder().encode(FILE);
  async function* chunks() {
    yield bytes;
  }
  const file = { name: "squares.jsonl", size: bytes.byteLength };
  const { headers, body } = formOf({ fields: { name: "squares" }, file }, chunks());
  return await client.call<Dataset>("POST", "/v1/datasets", undefined, { headers, raw: body });
}

/** Pushes the same file twice, which must give one dataset. */
export async function push(client: Client): Promise<{ id: string; detail: string }> {
  const [first, second] = [await upload(client), await upload(client)];
  const { id, num_rows, format } = first.body;
  if (num_rows !== ROWS || format !== "prompt")
    throw new Error(`the dataset has ${num_rows} rows in the format ${format}`);
  if (second.status !== 200 || second.body.id !== id)
    throw new Error("pushing the same file again created another dataset");
  return { id, detail: `${id}, ${num_rows} rows; pushed again: same dataset` };
}

export async function append(client: Client, id: string): Promise<string> {
  const correction = `{"_op":"supersede","_row_id":13,${rowOf(12).slice(1)}`;
  const raw = new TextEncoder().encode(rowOf(ROWS) + correction);
  const headers = { "content-type": "application/x-ndjson" };
  const { body } = await client.call<Append>("POST", `/v1/datasets/${id}/rows`, undefined, { headers, raw });
  if (body.appended !== 1 || body.superseded !== 1) throw new Error(`unexpected response: ${JSON.stringify(body)}`);
  return `rows ${body.first_row_id} to ${body.last_row_id}: 1 appended, 1 superseded`;
}

export async function snapshot(client: Client, id: string): Promise<SavedSnapshot> {
  const { body } = await client.call<Snapshot>("POST", `/v1/datasets/${id}/snapshots`, { note: "demo" });
  // Must not be in the snapshot.
  await client.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt: "came later" }] });
  return { id, snapshot: body };
}

/** Checks every row and the checksum. */
export async function pull(client: Client, { id, snapshot }: SavedSnapshot, signal: AbortSignal): Promise<string> {
  const path = `/v1/datasets/${id}/rows/export?snapshot=${encodeURIComponent(snapshot.id)}`;
  const bytes = Buffer.concat(await Array.fromAsync(client.download(path, signal)));
  const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  const expected = FILE.replace(rowOf(12, 145), rowOf(12)) + rowOf(ROWS);
  if (bytes.toString() !== expected) throw new Error("the rows differ from those that were pushed and appended");
  if (sha256 !== snapshot.sha256) throw new Error(`the sha256 is ${sha256}, expected ${snapshot.sha256}`);
  return `${snapshot.row_count} rows, checksum verified (sha256 ${sha256.slice(0, 12)}…)`;
}
