/**
 * The plain way: one delivery after another, each signed, sent and its row updated in a commit of its own, on the disk
 * before the next. Prints deliveries a second. argv: database file, address, authority, how many, `kept` or `fresh`
 * connections.
 */
import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";

const [path, url, caFile, count, connections] = process.argv.slice(2) as [string, string, string, string, string];
const db = new Database(path, { create: true, strict: true });
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = FULL");
db.run("CREATE TABLE deliveries (id TEXT PRIMARY KEY, body TEXT, status TEXT, attempts INTEGER, code INTEGER) STRICT");
const insert = db.prepare("INSERT INTO deliveries VALUES (?, ?, 'pending', 0, NULL)");
const event = { type: "dataset.rows_appended", created_at: new Date().toISOString(), data: { object: "dataset" } };
db.transaction(() => {
  for (let i = 0; i < Number(count); i++) insert.run(`evt_${i}`, JSON.stringify({ id: `evt_${i}`, ...event }));
})();
const next = db.prepare("SELECT id, body FROM deliveries WHERE status = 'pending' LIMIT 1");
const done = db.prepare("UPDATE deliveries SET status = 'succeeded', attempts = attempts + 1, code = ? WHERE id = ?");
const key = crypto.getRandomValues(new Uint8Array(32));
const ca = await Bun.file(caFile).text();

const began = performance.now();
for (let row = next.get(); row; row = next.get()) {
  const { id, body } = row as { id: string; body: string };
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
console.log(Number(count) / ((performance.now() - began) / 1000));
