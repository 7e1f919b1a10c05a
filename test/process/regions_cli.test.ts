/** `verk regions` against the application in this process. The host key is given, so no machine is asked. */
import { afterAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runVerk } from "../cli.ts";
import { testApp } from "../harness.ts";
import { sshKeypair } from "../ssh_keypair.ts";

const app = testApp();
const server = Bun.serve({ port: 0, fetch: (request) => app.handle(request) });
afterAll(async () => {
  await server.stop(true);
  await app.close();
  app.remove();
});

const verk = (...args: string[]) =>
  runVerk(["regions", ...args], { cwd: app.dir, env: { VERK_URL: server.url.origin, VERK_API_KEY: app.keyA } });
const HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";
const keysOf = async () => (await app.call("GET", "/v1/ssh_keys")).body.data;

test("a region is added with a key file, listed and removed", async () => {
  const { public_key, private_key } = await sshKeypair();
  writeFileSync(join(app.dir, "node_key"), private_key, { mode: 0o600 });
  writeFileSync(join(app.dir, "node_key.pub"), `${public_key}\n`);
  const key = ["--identity", "node_key", "--host-key", HOST_KEY];

  const refused = await verk("add", "lab", "--host", "verk@127.0.0.1", ...key);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("--host: 127.0.0.1 is not allowed")]);
  expect(await keysOf()).toEqual([]); // the key that it stored is gone again

  const made = await verk("add", "lab", "--host", "verk@node.example.com:2222", ...key, "--rate", "2.5");
  expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^reg_\w+\n$/)]);
  expect(made.err).toContain("SHA256:HwlAoSMW8wB6nk0vdCubflE1h3XIY6UDfAMiHOgTpEM");
  const { body } = await app.call("GET", `/v1/regions/${made.out.trim()}`);
  expect(body).toMatchObject({ name: "lab", rate_usd_per_hour: 2.5, ssh: { user: "verk", port: 2222 } });
  const [stored] = await keysOf();
  const free = await verk("add", "free", "--host", "verk@node.example.com", "--key", stored.id, "--host-key", HOST_KEY);
  expect(free.code).toBe(0);

  const { out } = await verk("list");
  expect(out).toMatch(/^local +This machine +local/m);
  expect(out).toMatch(/^reg_\w+ +lab +ssh +cpu +2\.5 +the node has not answered yet$/m);
  expect(out).toMatch(/^reg_\w+ +free +ssh +cpu +no price/m);

  expect((await verk("remove", "lab")).code).toBe(0);
  const again = await verk("remove", "lab");
  expect([again.code, again.err]).toEqual([1, expect.stringContaining('no region "lab"')]);
}, 60_000);

test("a time limit in seconds is rounded up to whole minutes, as Slurm counts them", async () => {
  const { public_key, private_key } = await sshKeypair();
  const { body: key } = await app.call("POST", "/v1/ssh_keys", { name: "login", public_key, private_key });
  const host = ["--host", "me@login.example.com", "--key", key.id, "--host-key", HOST_KEY];
  const made = await verk("add", "cluster", "--slurm", ...host, "--time-limit", "90s", "--json");
  expect(made.json().slurm).toMatchObject({ time_limit_minutes: 2 });
}, 60_000);

test("wrong flags are named", async () => {
  const cases: [string[], string][] = [
    [["add", "lab", "--host", "node", "--key", "ssh_1"], "--host: expected USER@ADDRESS"],
    [["add", "lab", "--host", "a@b"], "give --identity FILE or --key ID"],
    [["add", "lab", "--host", "a@b", "--identity", "none"], "--identity: none cannot be read"],
    [["add", "lab", "--host", "a@b", "--key", "ssh_1", "--rate", "much"], "--rate: expected a number"],
  ];
  const answers = await Promise.all(cases.map(([args]) => verk(...args)));
  expect(answers.map(({ err }, i) => err.includes(cases[i]?.[1] ?? "?"))).toEqual(cases.map(() => true));
}, 60_000);
