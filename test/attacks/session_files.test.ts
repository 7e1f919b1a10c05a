import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { manyApps, type TestApp } from "../harness.ts";
import { contentPath, exec, newSession } from "../sandbox/sessions_kit.ts";

setDefaultTimeout(120_000);
const CANARY = "c4nary-outside-of-the-session";
/** The folder on this machine that the session sees as /workspace. */
const folderOf = (session: string) => realpathSync(join(app.dir, "sessions", session, "root/workspace"));
const { open, closeAll } = manyApps();
let app: TestApp;
let id: string;
let root: string;
let canary: string;
beforeAll(async () => {
  app = open({ flags: { "http.rate_limit_per_second": 0 } });
  id = (await newSession(app)).id;
  root = folderOf(id);
  canary = join(realpathSync(app.dir), "canary.txt");
  writeFileSync(canary, CANARY);
  await exec(app, id, LINKING());
});
afterAll(closeAll);

/** Links as a command leaves them; those that are there already stay. */
const LINKING = () => `
  l() { ln -s "$1" "$2" 2>/dev/null || true; }
  l ${canary} abs; l ${relative(root, canary)} rel; l ${"../".repeat(20)}${canary.slice(1)} far; l . here; l .. up
  l / top; l /etc etc; l /proc proc; l /proc/self/root self; l /proc/self/cwd cwd; l abs two; l two three; l loop loop
  mkdir -p d/e; l ${canary} d/e/abs; l ../../abs d/e/rel; l /workspace/../etc out; l top/etc/passwd via
  l /proc/1/root one; l /dev/fd/0 fd; echo in > in.txt`;

const PATHS = [
  ..."/etc/passwd / /etc /workspace/../etc/passwd /workspace/../../etc/passwd /workspace/.. /workspacex /workspace.".split(
    " ",
  ),
  ..."../etc/passwd etc/passwd ./in.txt workspace/in.txt //etc/passwd /workspace//../etc/passwd".split(" "),
  ..."/workspace/%2e%2e/etc/passwd /workspace/..%2fetc /workspace/d/../../etc/passwd /WORKSPACE/in.txt".split(" "),
  ...[
    "/workspace\\..\\etc",
    "/workspace/\u0000",
    "/workspace/in.txt\u0000.png",
    "/workspace/.\u200b./etc",
    "",
    " /etc/passwd",
  ],
  ..."file:///etc/passwd ~/.ssh/id_rsa $HOME/.bashrc /workspace/../proc/self/environ /proc/self/environ".split(" "),
  ..."/dev/stdin /sys/kernel /workspace/../workspace/../etc/passwd /tmp/verk-attack /workspace/../tmp/verk-attack".split(
    " ",
  ),
  ..."/workspace/../../verk-attack /workspace/d/../../verk-attack ../verk-attack //tmp/verk-attack".split(" "),
];
const LINKS = [
  ..."abs rel far up top etc proc self cwd two three loop d/e/abs d/e/rel out via one fd up/etc/passwd top/etc/passwd".split(
    " ",
  ),
  ..."here/abs here/up/etc self/etc/passwd etc/passwd proc/self/environ one/etc/passwd top/workspace/../etc/passwd".split(
    " ",
  ),
].map((name) => `/workspace/${name}`);

/** Through a hole these reach the canary or nothing: a test that fails must not harm the machine it runs on. */
const isHarmless = (path: string) =>
  /^\/workspace\/(d\/e\/|here\/)?(abs|rel|far|two|three|loop)$/.test(path) || path.includes("verk-attack");

const outside = () => [
  readFileSync(canary, "utf8"),
  readdirSync(app.dir).sort().join(),
  readdirSync(join(app.dir, "sessions", id))
    .sort()
    .join(),
  existsSync("/tmp/verk-attack"),
];
const ask = (method: string, path: string, raw?: string) =>
  app.call(method, contentPath(id, path), undefined, raw === undefined ? {} : { raw });
const list = (path: string) => app.call("GET", `/v1/sessions/${id}/files?path=${encodeURIComponent(path)}`);

describe.each([
  ["a path", PATHS],
  ["a link", LINKS],
])("%s that leads out of /workspace", (_what, paths) => {
  test.each(paths.map((path) => [path]))("shows nothing: %j", async (path) => {
    for (const { status, body } of [await list(path), await ask("GET", path)]) {
      expect([400, 404]).toContain(status);
      expect(JSON.stringify(body)).not.toContain(CANARY);
    }
  });

  test("reads nothing and deletes nothing outside", async () => {
    const before = outside();
    const got = new Map<string, number>();
    const judge = (what: string, path: string, status: number) => {
      if (status >= 500 || (status < 300 && !path.startsWith("/workspace/"))) got.set(`${what} ${path}`, status);
    };
    for (const path of paths.filter(isHarmless)) judge("DELETE", path, (await ask("DELETE", path)).status);
    await exec(app, id, LINKING());
    for (const path of paths.filter(isHarmless)) judge("PUT", path, (await ask("PUT", path, "overwritten")).status);
    expect([...got]).toEqual([]);
    expect(outside()).toEqual(before);
  });
});

test("the list has more than 38 attacks", () => expect(PATHS.length + LINKS.length).toBeGreaterThan(38));

test("a reader that follows links would get the canary, so the attacks are real", async () => {
  const fresh = (await newSession(app)).id;
  await exec(app, fresh, `ln -s ${canary} abs; mkdir d; ln -s ${canary} d/abs`);
  const folder = folderOf(fresh);
  expect(readFileSync(join(folder, "abs"), "utf8")).toBe(CANARY);
  expect(readFileSync(join(folder, "d/abs"), "utf8")).toBe(CANARY);
});

test("L5: a session can read the path of the data directory, and reaches nothing there", async () => {
  const lines = "sed -n 's#^[^ ]* [^ ]* [^ ]* \\(/.*\\)/sessions/ses_[^ ]* /workspace .*#\\1#p' /proc/self/mountinfo";
  const seen = (await exec(app, id, lines)).stdout.trim();
  const dataDir = realpathSync(app.dir);
  expect(seen).not.toBe("");
  expect(dataDir.endsWith(seen)).toBe(true); // the path within its file system
  expect(existsSync(join(dataDir, "master.key"))).toBe(true);
  const { exit_code, stdout } = await exec(app, id, `cat ${dataDir}/master.key || ls ${dataDir}`);
  expect(stdout).toBe("");
  expect(exit_code).not.toBe(0);
});
