// tier: all (many seconds)
import type { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { detecting } from "../detection_kit.ts";
import { JOURNEY, meanwhile, play } from "../meta/journey.ts";

/** Fields that a public run shows, and parameters of its query. Everything else is private. */
const SAID: Record<string, readonly string[]> = {
  training_jobs: [
    ...["id", "workspace_id", "publish", "output_name", "method", "status", "base_model", "step", "total_steps"],
    ...["started_at", "completed_at", "updated_at", "published_at", "like_count", "tracker_run_url"],
    "hub_repo_url",
  ],
  workspaces: ["id", "name", "status"],
};
const FIELDS = [
  ...["object", "id", "name", "method", "status", "publisher", "like_count", "base_model", "current_step"],
  ...["total_steps", "started_at", "completed_at", "duration_seconds", "published_at", "hub_repo_url"],
  ...["tracker_run_url", "headline_metric"],
];
const NUMBER = 7_771_234;

type Column = { name: string; type: string };
type Linked = { job_id: string; workspace_id: string };

/** Every column of every table says something that must not leave, in the rows there are, or in one of this job's. */
function markAll(sqlite: Database, linked: Linked) {
  sqlite.run("PRAGMA foreign_keys = OFF");
  sqlite.run("PRAGMA ignore_check_constraints = ON");
  const named = (type: string) =>
    sqlite.query<{ name: string }, [string]>("SELECT name FROM sqlite_master WHERE type = ?").all(type);
  for (const { name } of named("trigger")) sqlite.run(`DROP TRIGGER "${name}"`);
  const isIndex = sqlite.query("SELECT 1 FROM pragma_table_list WHERE name = ? AND type IN ('virtual', 'shadow')");
  for (const { name: table } of named("table")) {
    if (isIndex.get(table)) continue; // the full text of traces, which reads only its own format
    const columns = sqlite.query(`PRAGMA table_info("${table}")`).all() as Column[];
    const marks = columns.map((column) => markOf(table, column, linked));
    if (sqlite.query(`SELECT 1 FROM "${table}"`).get() === null)
      sqlite.run(`INSERT INTO "${table}" VALUES (${marks.join()})`);
    for (const [i, { name }] of columns.entries())
      if (!SAID[table]?.includes(name) && !(name in linked))
        sqlite.run(`UPDATE OR IGNORE "${table}" SET "${name}" = ${marks[i]}`);
  }
}

function markOf(table: string, { name, type }: Column, linked: Linked): string {
  if (name in linked) return `'${linked[name as keyof Linked]}'`;
  const text = `'"MARK ${table}.${name} ' || hex(randomblob(9)) || '"'`; // also valid as JSON
  return type === "TEXT" ? text : type === "BLOB" ? `CAST(${text} AS BLOB)` : `${NUMBER}`;
}

test("for any content of any column, callers without a key read only the listed fields of published runs", async () => {
  const app = detecting({ flags: { "network.allow": ["127.0.0.1"] } });
  for (const step of JOURNEY.filter(({ raw }) => !raw)) await play(app, step);
  await meanwhile(app);
  await durable(app.ctx.db); // no commit is open: in one, foreign keys cannot be let go
  const { $client: sqlite } = app.ctx.db;
  const idsOf = (publish: 0 | 1) =>
    (sqlite.query("SELECT id FROM training_jobs WHERE publish = ?").all(publish) as { id: string }[]).map(
      ({ id }) => id,
    );
  const [published, [hidden]] = [idsOf(1), idsOf(0)];
  markAll(sqlite, { job_id: published[0] ?? "", workspace_id: app.workspaceA });
  const ask = (path: string, method = "GET") =>
    app.call(method, `/v1/public/runs${path}`, undefined, { key: null, headers: { "x-request-id": "r" } });
  const list = await ask("?limit=100");
  const ids = list.body.data.map((run: { id: string }) => run.id);
  expect(ids.length).toBeGreaterThan(1);
  expect(ids.sort()).toEqual(published.sort());
  for (const run of list.body.data) expect(Object.keys(run).sort()).toEqual([...FIELDS].sort());
  const answers = [
    list,
    await ask(`/${ids[0]}`),
    await ask(`/${ids[0]}/like`, "POST"),
    await ask(`/${hidden}`),
    await ask(`/${hidden}/like`, "POST"),
    await ask("?cursor=x"),
    await ask("?limit=0"),
    await ask(`?cursor=${list.body.data[0].published_at}`),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 404, 404, 400, 422, 200]);
  const said = JSON.stringify(answers.map(({ body, headers }) => [body, [...headers]]));
  expect(said).not.toContain("MARK");
  expect(said).not.toContain(app.workspaceA);
  expect(said).not.toContain(String(NUMBER));
  sqlite.run("DELETE FROM deployments"); // their times of use are text now, and closing accounts for them
  await app.close().then(app.remove);
}, 120_000);
