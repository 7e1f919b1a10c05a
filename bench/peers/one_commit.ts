/**
 * One durable commit per request: the same two rows (resource and event) written with prepared statements and
 * nothing else around them, committed with fsync before the answer. argv: database file, journal mode.
 */
import { Database } from "bun:sqlite";

const [path, journal] = process.argv.slice(2) as [string, "wal" | "delete"];
const db = new Database(path, { create: true, strict: true });
db.run(`PRAGMA journal_mode = ${journal}`);
db.run("PRAGMA synchronous = FULL");
db.run("CREATE TABLE workspaces (id TEXT PRIMARY KEY, name TEXT UNIQUE, body TEXT, created_at INTEGER) STRICT");
db.run("CREATE INDEX page ON workspaces (created_at, id)");
db.run("CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, type TEXT, data TEXT) STRICT");
const resource = db.prepare("INSERT INTO workspaces VALUES (?, ?, ?, ?)");
const event = db.prepare("INSERT INTO events (id, type, data) VALUES (?, ?, ?)");
const create = db.transaction((name: string) => {
  const id = Bun.randomUUIDv7();
  const body = { object: "workspace", id, name, status: "active", metadata: {}, created_at: new Date().toISOString() };
  resource.run(id, name, JSON.stringify(body.metadata), Date.now());
  event.run(Bun.randomUUIDv7(), "workspace.created", JSON.stringify(body));
  return body;
});
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: async (request) => {
    const { name } = (await request.json()) as { name: string };
    return Response.json(create.immediate(name), { status: 201 });
  },
});
console.log(server.url.origin);
