/**
 * The plain way: one delivery after another, each signed and sent, and its row, its attempt and the count of failures
 * of its endpoint written in a commit of its own, on the disk before the next. Prints deliveries a second. argv: database file, address, authority, how many, `kept` or `fresh`
 * connections, for how many seconds to deliver before it measures.
 */
import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";

const [path = "", url = "", caFile = "", count = "", connections = "", warmSeconds = "0"] = process.argv.slice(2);
const WARM_PER_SECOND = 20_000; // at most
const db = new Database(path, { create: true, strict: true });
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = FULL");
db.run("CREATE TABLE deliveries (id TEXT PRIMARY KEY, body TEXT, status TEXT, attempts INTEGER, code INTEGER) STRICT");
db.run("CREATE TABLE attempts (delivery TEXT, number INTEGER, at INTEGER, ms INTEGER, code INTEGER) STRICT");
db.run("CREATE TABLE endpoints (url TEXT PRIMARY KEY, failures INTEGER) STRICT");
db.prepare("INSERT INTO endpoints VALUES (?, 0)").run(url);
db.run("CREATE INDEX pending ON deliveries (id) WHERE status = 'pending'");
const insert = db.prepare("INSERT INTO deliveries VALUES (?, ?, 'pending', 0, NULL)");
const event = { type: "dataset.rows_appended", created_at: new Date().toISOString(), data: { object: "dataset" } };
db.transaction(() => {
  for (let i = 0; i < Number(count) + Number(warmSeconds) * WARM_PER_SECOND; i++)
    insert.run(`evt_${i}`, JSON.stringify({ id: `evt_${i}`, ...event }));
})();
const next = db.prepare("SELECT id, body FROM deliveries WHERE status = 'pending' LIMIT 1");
const done = db.prepare("UPDATE deliveries SET status = 'succeeded', attempts = attempts + 1, code = ? WHERE id = ?");
const attempted = db.prepare("INSERT INTO attempts VALUES (?, 1, ?, ?, ?)");
const answered = db.prepare(
  "UPDATE endpoints SET failures = iif(? BETWEEN 200 AND 299, 0, failures + 1) WHERE url = ?",
);
const record = db.transaction((id: string, at: number, code: number) => {
  done.run(code, id);
  attempted.run(id, at, Date.now() - at, code);
  answered.run(code, url);
});
const key = crypto.getRandomValues(new Uint8Array(32));
const ca = await Bun.file(caFile).text();

async function deliverNext() {
  const { id, body } = next.get() as { id: string; body: string };
  const at = Date.now();
  const timestamp = Math.floor(at / 1000);
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const answer = await fetch(url, {
    method: "POST",
    body,
    keepalive: connections === "kept",
    headers: { "webhook-id": id, "webhook-timestamp": String(timestamp), "webhook-signature": `v1,${signature}` },
    tls: { ca },
  });
  await answer.arrayBuffer();
  record(id, at, answer.status);
}

const warmUntil = performance.now() + 1000 * Number(warmSeconds);
while (performance.now() < warmUntil) await deliverNext();
const began = performance.now();
for (let i = 0; i < Number(count); i++) await deliverNext();
console.log(Number(count) / ((performance.now() - began) / 1000));
