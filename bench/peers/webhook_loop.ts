/**
 * The plain way: one delivery after another, each signed, sent and its row updated in a commit of its own, on the disk
 * before the next. Prints deliveries a second. argv: database file, address, authority, how many, `kept` or `fresh`
 * connections, for how many seconds to deliver before it measures.
 */
import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";

const [path = "", url = "", caFile = "", count = "", connections = "", warmSeconds = "0"] = process.argv.slice(2);
const WARM_PER_SECOND = 5_000; // at most
const db = new Database(path, { create: true, strict: true });
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = FULL");
db.run("CREATE TABLE deliveries (id TEXT PRIMARY KEY, body TEXT, status TEXT, attempts INTEGER, code INTEGER) STRICT");
db.run("CREATE INDEX pending ON deliveries (id) WHERE status = 'pending'");
const insert = db.prepare("INSERT INTO deliveries VALUES (?, ?, 'pending', 0, NULL)");
const event = { type: "dataset.rows_appended", created_at: new Date().toISOString(), data: { object: "dataset" } };
db.transaction(() => {
  for (let i = 0; i < Number(count) + Number(warmSeconds) * WARM_PER_SECOND; i++)
    insert.run(`evt_${i}`, JSON.stringify({ id: `evt_${i}`, ...event }));
})();
const next = db.prepare("SELECT id, body FROM deliveries WHERE status = 'pending' LIMIT 1");
const done = db.prepare("UPDATE deliveries SET status = 'succeeded', attempts = attempts + 1, code = ? WHERE id = ?");
const key = crypto.getRandomValues(new Uint8Array(32));
const ca = await Bun.file(caFile).text();

async function deliverNext() {
  const { id, body } = next.get() as { id: string; body: string };
  const timestamp = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const answer = await fetch(url, {
    method: "POST",
    body,
    keepalive: connections === "kept",
    headers: { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": `v1,${signature}` },
    tls: { ca },
  });
  await answer.arrayBuffer();
  done.run(answer.status, id);
}

const warmUntil = performance.now() + 1000 * Number(warmSeconds);
while (performance.now() < warmUntil) await deliverNext();
const began = performance.now();
for (let i = 0; i < Number(count); i++) await deliverNext();
console.log(Number(count) / ((performance.now() - began) / 1000));
