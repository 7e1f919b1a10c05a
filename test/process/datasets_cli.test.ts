// tier: all (whole paths on the executable)
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { datasetsCli } from "./datasets_cli_kit.ts";

const { root, server, spawn, verk, file } = datasetsCli();

const rows = (from: number, to: number, text = "") =>
  Array.from({ length: to - from + 1 }, (_, i) => `${JSON.stringify({ prompt: `row ${from + i}${text}` })}\n`).join("");
const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");
/** The key that the command line created on its first call. */
const ownKey = (dir: string) => readFileSync(join(dir, "cli.key"), "utf8").trim();
/** Under the last name, and those of uploads that are under way. */
const stored = () => readdirSync(join(server().dir, "datasets")).sort();

describe("push", () => {
  test("prints only the id, takes the name from the file, and reports existing content", async () => {
    const path = file("support.jsonl", rows(1, 3));
    const first = await verk(["push", path]);
    expect([first.code, first.out]).toEqual([0, expect.stringMatching(/^ds_\w{26}\n$/)]);
    expect(first.err).toContain("support: 3 rows, format prompt");
    const again = await verk(["push", path, "--name", "other"]);
    expect([again.code, again.out]).toEqual([0, first.out]);
    expect(again.err).toContain("was uploaded before as support");
    expect((await verk(["show", "support", "--json"])).json()).toMatchObject({ id: first.out.trim(), num_rows: 3 });
  });

  test("standard input of unknown length works the same, and its name must be given", async () => {
    const { code, json } = await verk(["push", "-", "--name", "piped", "--json"], { stdin: rows(1, 50, " piped") });
    expect([code, json()]).toMatchObject([0, { object: "dataset", name: "piped", num_rows: 50 }]);
    expect(await verk(["push", "-"], { stdin: "" })).toMatchObject({ code: 2, err: expect.stringContaining("--name") });
  });

  test("a bad line is reported with its number, and nothing is kept", async () => {
    const before = stored();
    const path = file("bad.jsonl", `${rows(1, 3000)}{"prompt": 7}\n${rows(1, 3000)}`);
    const { code, out, err } = await verk(["push", path]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(/^verk: Line 3001: prompt must be a string/m);
    expect(stored()).toEqual(before);
  });

  test("a refusal does not wait for the rest of a pipe that stays open", async () => {
    const { readable, writable } = new TransformStream<string, string>();
    const writer = writable.getWriter();
    void writer.write(`{"no":"row"}\n${rows(1, 20_000)}`).catch(() => {});
    const { code, err } = await verk(["push", "-", "--name", "open"], { stdin: readable });
    expect([code, err]).toEqual([1, expect.stringContaining("Line 1: prompt is missing")]);
    void writer.abort().catch(() => {});
  });

  test("Ctrl-C in the middle exits 130 and leaves nothing", async () => {
    const before = stored();
    const { readable, writable } = new TransformStream<string, string>();
    const writer = writable.getWriter();
    void writer.write(rows(1, 20_000, " interrupted")).catch(() => {});
    const child = spawn(["push", "-", "--name", "interrupted"], { stdin: readable });
    await until("the upload to begin", () => stored().length > before.length);
    child.kill("SIGINT");
    await child.exited;
    expect(child.exitCode).toBe(130);
    await until("the server to clean up", () => stored().join() === before.join());
    void writer.abort().catch(() => {});
  });

  test.each([
    [["push", "nowhere.jsonl"], "Cannot read nowhere.jsonl: there is no such file"],
    [["push", "."], "it is a folder"],
    [["push"], "file is missing"],
    [["push", "support.jsonl", "--name", "x".repeat(101)], "--name: expected 1 to 100 printable characters"],
  ])("verk datasets %p is a wrong argument", async (args, message) => {
    expect(await verk(args)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(message) });
  });
});

describe("append", () => {
  const create = async (name: string) => (await verk(["create", name, "--format", "prompt"])).out.trim();

  test("F28 append splits a file into batches at line ends; every row lands once and in order", async () => {
    const id = await create("stream");
    const path = file("stream.jsonl", rows(1, 95));
    const { code, out, err } = await verk(["append", "stream", path, "--batch-rows", "10", "--expect-head", "0"]);
    expect([code, out]).toEqual([0, "rows 1 to 95\n"]);
    expect(err).toContain(`stream (${id}): 95 appended; 95 rows since the newest snapshot`);
    expect((await verk(["pull", id])).out).toBe(rows(1, 95));
    // F28 one row is "1 row"
    const one = await verk(["append", id, file("one.jsonl", rows(96, 96))]);
    expect([one.code, one.out]).toEqual([0, "row 96\n"]);
    expect(one.err).toContain(": 1 appended; 96 rows since the newest snapshot");
    const moved = await verk(["append", id, path, "--expect-head", "0"]);
    expect([moved.code, moved.err]).toEqual([1, expect.stringContaining("--expect-head is 0, but the head is row 96")]);
  });

  test("changes come from standard input too", async () => {
    const id = await create("changed");
    await verk(["append", id], { stdin: rows(1, 3) });
    const changes = '{"_op":"supersede","_row_id":1,"prompt":"new"}\n{"_op":"tombstone","_row_id":2}\n';
    const { json } = await verk(["append", id, "-", "--json"], { stdin: changes });
    expect(json()).toMatchObject({ first_row_id: 4, last_row_id: 5, appended: 0, superseded: 1, tombstoned: 1 });
    expect((await verk(["pull", id])).out).toBe(`{"prompt":"new"}\n${rows(3, 3)}`);
  });

  test("a bad line of a later batch has its number in the file, and the error reports the rows before it", async () => {
    const id = await create("half");
    const path = file("half.jsonl", `${rows(1, 24)}\n{"prompt":null}\n`);
    const { code, out, err } = await verk(["append", id, path, "--batch-rows", "10"]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain("verk: Line 26: prompt must be a string");
    expect(err).toContain("Lines 1 to 20 were appended (rows 1 to 20). Continue from line 21.");
    expect((await verk(["pull", id])).out).toBe(rows(1, 20));
    const more = `${rows(21, 30)}{"_op":"tombstone","_row_id":99}\n`;
    const wrong = await verk(["append", id, "--batch-rows", "10"], { stdin: more });
    expect(wrong.err).toContain("verk: Line 11: _row_id: there is no row 99: the newest row is 30");
  });

  test("an append without rows is an error, not a silent success", async () => {
    const id = await create("empty");
    expect(await verk(["append", id], { stdin: "\n\n" })).toMatchObject({
      code: 1,
      err: expect.stringContaining("the file has no rows"),
    });
  });

  test("a batch whose answer was lost is sent again and lands once", async () => {
    const id = await create("lost");
    let lost = 0;
    const proxy = Bun.serve({
      port: 0,
      async fetch(request) {
        const { pathname, search } = new URL(request.url);
        const { method, headers } = request;
        const init = method === "GET" ? { headers } : { method, headers, body: await request.arrayBuffer() };
        const answer = await fetch(`${server().url}${pathname}${search}`, init);
        return method === "POST" && lost++ === 1 ? new Response("lost", { status: 503 }) : answer;
      },
    });
    const env = { VERK_URL: proxy.url.origin, VERK_API_KEY: ownKey(server().dir) };
    const { code, out } = await verk(["append", id, "--batch-rows", "10"], { env, stdin: rows(1, 30) });
    await proxy.stop(true);
    expect([code, out, lost]).toEqual([0, "rows 1 to 30\n", 4]);
    expect((await verk(["pull", id])).out).toBe(rows(1, 30));
  });

  test("a server that is killed and restarted in the middle loses no row and doubles none", async () => {
    const own = await startBinary();
    const id = (await verk(["create", "killed", "--format", "prompt"], { dir: own.dir })).out.trim();
    const env = { VERK_URL: own.url, VERK_API_KEY: ownKey(own.dir) };
    const text = rows(1, 100_000, " and some more of it".repeat(10));
    const appending = verk(["append", id, file("killed.jsonl", text), "--batch-rows", "500"], { env });
    const headers = { authorization: `Bearer ${env.VERK_API_KEY}` };
    const head = await until("some batches to land", async () => {
      const answer = await fetch(`${own.url}/v1/datasets/${id}`, { headers });
      return ((await answer.json()) as { head_row: number }).head_row;
    });
    await own.kill("SIGKILL");
    expect(head).toBeLessThan(100_000);
    const back = await startBinary({ dir: own.dir, args: ["--listen", new URL(own.url).host] });
    const { code, out } = await appending;
    expect([code, out]).toEqual([0, "rows 1 to 100000\n"]);
    expect(sha256((await verk(["pull", id], { env })).out)).toBe(sha256(text));
    await back.kill();
    rmSync(own.dir, { recursive: true, force: true });
  }, 60_000);
});

describe("snapshot and pull", () => {
  const text = rows(1, 2000, " pulled");
  let id = "";
  beforeAll(async () => {
    id = (await verk(["push", file("pulled.jsonl", text)])).out.trim();
  });

  test("a snapshot is pulled unchanged by later rows, and its hash is checked", async () => {
    const cut = await verk(["snapshot", "pulled", "--note", "first"]);
    expect([cut.code, cut.out]).toEqual([0, "@snap-1\n"]);
    expect(cut.err).toContain(sha256(text));
    expect((await verk(["snapshot", "pulled"])).err).toContain("No new rows since pulled@snap-1");
    await verk(["append", id], { stdin: '{"_op":"tombstone","_row_id":1}\n' });
    const now = await verk(["pull", id]);
    expect([now.out.split("\n").length, now.err.includes("pulled, current rows")]).toEqual([2000, true]);
    const path = join(root, "out.jsonl");
    const then = await verk(["pull", "pulled", "--snapshot", "@snap-1", "-o", "out.jsonl"]);
    expect([then.code, then.out]).toEqual([0, ""]);
    expect(then.err).toContain(`2000 rows, 55.6 KiB, checksum verified (sha256 ${sha256(text)})`);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("CSV has a header and the same rows", async () => {
    const { out } = await verk(["pull", id, "--snapshot", "@snap-1", "--format", "csv"]);
    expect(out.split("\r\n").slice(0, 2)).toEqual(["prompt", "row 1 pulled"]);
  });

  test("a reader that closes the pipe early is no error", async () => {
    const head = Bun.spawn(["bash", "-c", '"$@" | head -n 1', "bash", ...program(), "datasets", "pull", id], {
      env: { HOME: root, PATH: process.env["PATH"] ?? "", VERK_DATA: server().dir },
      stderr: "pipe",
    });
    expect(await new Response(head.stdout).text()).toBe(rows(2, 2, " pulled"));
    expect(await new Response(head.stderr).text()).not.toContain("verk:");
  });

  test("a download that breaks leaves the old file and no other", async () => {
    const path = file("kept.jsonl", "old\n");
    const dataset = await (
      await fetch(`${server().url}/v1/datasets/${id}`, {
        headers: { authorization: `Bearer ${ownKey(server().dir)}` },
      })
    ).json();
    const fake = Bun.serve({
      port: 0,
      fetch: ({ url }) =>
        url.includes("/export")
          ? new Response(text.slice(0, 500))
          : Response.json(url.includes("/snapshots/") ? { object: "dataset_snapshot", sha256: sha256(text) } : dataset),
    });
    const env = { VERK_URL: fake.url.origin, VERK_API_KEY: "vk_x" };
    const before = readdirSync(root);
    const { code, err } = await verk(["pull", id, "--snapshot", "@snap-1", "-o", path], { env });
    await fake.stop(true);
    expect([code, err]).toEqual([1, expect.stringContaining("was not written")]);
    expect([readFileSync(path, "utf8"), readdirSync(root)]).toEqual(["old\n", before]);
  });

  test("an unwritable file or a missing dataset is reported in a message", async () => {
    expect(await verk(["pull", id, "-o", "."])).toMatchObject({ code: 2, err: expect.stringContaining("is a folder") });
    expect(await verk(["pull", id, "-o", "no/such/x"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("no/such"),
    });
    expect(await verk(["pull", id, "--snapshot", "@snap-9"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("@snap-9"),
    });
    expect(await verk(["pull", id, "--format", "xml"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("--format"),
    });
  });
});

describe("list, show, create, delete", () => {
  test("a name that two datasets share must be replaced by an id", async () => {
    const ids = [
      await verk(["create", "twin", "--format", "chat"]),
      await verk(["create", "twin", "--format", "chat"]),
    ];
    const { code, err } = await verk(["show", "twin"]);
    expect(code).toBe(2);
    for (const { out } of ids) expect(err).toContain(out.trim());
    expect((await verk(["delete", ids[0]?.out.trim() ?? ""])).err).toContain("is deleted");
    expect((await verk(["delete", "twin", "--json"])).json()).toMatchObject({ deleted: true });
    expect(await verk(["show", "twin"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("There is no dataset"),
    });
  });

  test("the list shows all datasets, and --json is the API's own shape", async () => {
    await verk(["create", "listed", "--format", "preference", "--auto-snapshot", "100"]);
    expect((await verk(["list"])).out).toMatch(/^ID +NAME .*\n(.*\n)*ds_\w+ +listed +upload +preference +0 /);
    const { json } = await verk(["list", "--json"]);
    expect(json().data).toContainEqual(expect.objectContaining({ name: "listed", auto_snapshot_rows: 100 }));
    expect(await verk(["create", "x", "--format", "chta"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("Did you mean chat?"),
    });
    expect(await verk(["show", "lsted"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("Did you mean listed?"),
    });
  });
});
