// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { processesWith } from "../sandbox/sessions_kit.ts";

const root = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary();
});
afterAll(async () => {
  await server.kill();
  for (const dir of [root, server.dir]) rmSync(dir, { recursive: true, force: true });
});

const spawn = (args: string[]) =>
  spawnVerk(["sessions", ...args], { cwd: root, env: { VERK_DATA: server.dir }, stdin: "" });
const verk = ([first = "", ...args]: string[], stdin = "") =>
  server.verk(["sessions", first, "--data", server.dir, ...args], { cwd: root, stdin });

test("a session is made, used, copied to and from, listed and stopped", async () => {
  const made = await verk(["create", "--name", "lab", "--env", "A=b c"]);
  expect(made.out).toMatch(/^ses_\w{26}\n$/);
  const id = made.out.trim();
  expect(await verk(["exec", id, "--", "sh", "-c", "echo $A; echo oops >&2; exit 7"])).toMatchObject({
    code: 7,
    out: "b c\n",
    err: "oops\n",
  });
  expect(await verk(["exec", id, "echo one; echo two | wc -l"])).toMatchObject({ code: 0, out: "one\n1\n" });
  expect(await verk(["exec", id, "-i", "--", "cat"], "through")).toMatchObject({ code: 0, out: "through" });
  expect(await verk(["exec", id, "kill -9 $$"])).toMatchObject({ code: 137 });
  const late = await verk(["exec", id, "--timeout", "1", "sleep 60"]);
  expect(late).toMatchObject({ code: 1, err: expect.stringContaining("longer than 1000 ms") });
  expect(JSON.parse((await verk(["exec", id, "--json", "pwd"])).out)).toMatchObject({ stdout: "/workspace\n" });
  writeFileSync(join(root, "in.txt"), "there");
  expect((await verk(["cp", "in.txt", `${id}:sub/`])).code).toBe(0);
  expect((await verk(["exec", id, "cat sub/in.txt; echo ' and back' >> sub/in.txt"])).out).toBe("there");
  expect((await verk(["cp", `${id}:/workspace/sub/in.txt`, "out.txt"])).code).toBe(0);
  expect(readFileSync(join(root, "out.txt"), "utf8")).toBe("there and back\n");
  expect((await verk(["cp", `${id}:sub/in.txt`, "-"])).out).toBe("there and back\n");
  expect((await verk(["list"])).out).toMatch(new RegExp(`^ID .*\\n${id}  lab +ready +7 `));
  expect(await verk(["stop", id])).toMatchObject({ code: 0, err: `${id} is stopped.\n` });
  expect(await verk(["exec", id, "true"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("is stopped: it must be ready"),
  });
}, 60_000);

test("wrong arguments are reported before anything is sent", async () => {
  expect(await verk(["exec"])).toMatchObject({ code: 2, err: expect.stringContaining("session is missing") });
  expect(await verk(["exec", "ses_x"])).toMatchObject({ code: 2, err: expect.stringContaining("command… is missing") });
  expect(await verk(["create", "--env", "oops"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("NAME=VALUE"),
  });
  expect(await verk(["create", "--volume", "lab"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("NAME:/PATH"),
  });
  expect(await verk(["cp", "a", "b"])).toMatchObject({ code: 2, err: expect.stringContaining("ses_") });
});

test("Ctrl-C ends the command on the server too", async () => {
  const id = (await verk(["create"])).out.trim();
  const mark = `mark-${crypto.randomUUID()}`;
  const child = spawn(["exec", "--data", server.dir, id, "--", "sh", "-c", `sleep 300; : ${mark}`]);
  const inside = async () => (await processesWith(mark)).filter((line) => !line.includes("sessions"));
  await until("it to run", async () => (await inside()).length > 0);
  child.kill("SIGINT");
  expect(await child.exited).toBe(130);
  await until("it to end", async () => (await inside()).length === 0);
}, 120_000);
