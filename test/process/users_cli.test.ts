// tier: all (whole paths on the executable)
/** `verk users` beside a running server. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary();
}, 60_000);
afterAll(() => server.kill("SIGKILL"));

const verk = (args: string[], stdin?: string) =>
  runVerk(["users", ...args, "--data", server.dir], { cwd: server.dir, stdin });
const signIn = async (email: string, password: string, more: object = {}) => {
  const headers = { "content-type": "application/json", "sec-fetch-site": "same-origin" };
  const body = JSON.stringify({ email, password, ...more });
  const response = await fetch(`${server.url}/v1/logins`, { method: "POST", headers, body });
  const cookie = response.headers.getSetCookie().map((each) => each.split(";")[0]);
  return { status: response.status, cookie: cookie.join("; ") };
};
const workspaces = (cookie: string) => fetch(`${server.url}/v1/workspaces`, { headers: { cookie } });

test("a user is added, signs in to the running server, changes the role, gets a new password and is removed", async () => {
  const added = await verk(["add", "Ada@Example.com", "--role", "owner", "--operator"]);
  expect([added.code, added.err]).toEqual([0, expect.stringContaining("ada@example.com is owner")]);
  const password = added.out.trim();
  const { status, cookie } = await signIn("ada@example.com", password);
  expect(status).toBe(201);
  expect((await workspaces(cookie)).status).toBe(200);
  expect((await verk(["role", "ada@example.com", "viewer"])).code).toBe(0);
  expect((await workspaces(cookie)).status).toBe(403);
  const listed = (await verk(["list", "--json"])).json().data;
  expect(listed).toMatchObject([{ email: "ada@example.com", role: "viewer", operator: false }]);

  expect((await verk(["reset-password", "ada@example.com", "--password-stdin"], "four rivers of glass\n")).out).toBe(
    "",
  );
  expect((await workspaces(cookie)).status).toBe(401);
  expect((await signIn("ada@example.com", password)).status).toBe(401);
  expect((await signIn("ada@example.com", "four rivers of glass")).status).toBe(201);
  const noFactor = await verk(["remove-second-factor", "ada@example.com"]);
  expect([noFactor.code, noFactor.err]).toEqual([1, expect.stringContaining("has no second factor")]);
  expect((await verk(["remove", "ada@example.com"])).code).toBe(0);
  expect((await signIn("ada@example.com", "four rivers of glass")).status).toBe(401);
  expect((await verk(["remove", "ada@example.com"])).code).toBe(1);
  for (const text of [password, "four rivers of glass"]) expect(server.stderr()).not.toContain(text);
}, 60_000);

/** The manager of the workspace beta invites an address, and opens the link himself. */
async function claim(email: string, password: string, workspace = "beta") {
  const invited = await verk(["invite", email, "--workspace", workspace]);
  const token = invited.out.trim().split("#")[1];
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ token, password });
  return (await fetch(`${server.url}/v1/logins/invitations`, { method: "POST", headers, body })).status;
}

test("S1 A: a person who was claimed by a workspace is added with a new password, also as an operator", async () => {
  expect((await runVerk(["workspaces", "create", "beta", "--data", server.dir], { cwd: server.dir })).code).toBe(0);
  const [email, attackers] = ["victim@corp.test", "attacker chosen pw 1"];
  expect(await claim(email, attackers)).toBe(201);
  const added = await verk(["add", email, "--role", "owner", "--operator"]);
  expect([added.code, added.out.trim()]).toEqual([0, expect.stringMatching(/^\S{23}$/)]);
  expect((await signIn(email, attackers, { workspace: "default" })).status).toBe(401);
  const attacker = await signIn(email, attackers);
  expect([attacker.status, (await workspaces(attacker.cookie)).status]).toEqual([201, 403]);
  const real = await signIn(email, added.out.trim());
  expect((await workspaces(real.cookie)).status).toBe(200);
}, 60_000);

test("S1: a known person who is added gets a new password, and sessions end, unless --keep-password is given", async () => {
  const email = "cy@example.com";
  const first = (await verk(["add", email])).out.trim();
  const { cookie } = await signIn(email, first);
  const kept = await verk(["add", email, "--workspace", "beta", "--keep-password"]);
  expect([kept.code, kept.out, kept.err]).toEqual([0, "", expect.stringContaining("are kept")]);
  expect((await workspaces(cookie)).status).toBe(403); // still signed in
  expect((await signIn(email, first, { workspace: "beta" })).status).toBe(201);
  await verk(["remove", email, "--workspace", "beta"]);
  const chosen = "four rivers of glass";
  const given = await verk(["add", email, "--workspace", "beta", "--password-stdin"], `${chosen}\n`);
  expect([given.code, given.out, given.err]).toEqual([0, "", expect.stringContaining("have ended")]);
  expect([(await workspaces(cookie)).status, (await signIn(email, first)).status]).toEqual([401, 401]);
  expect((await signIn(email, chosen)).status).toBe(201);
  await verk(["remove", email, "--workspace", "beta"]);
  const made = (await verk(["add", email, "--workspace", "beta", "--json"])).json();
  expect((await signIn(email, chosen)).status).toBe(401);
  expect((await signIn(email, made.password)).status).toBe(201);
}, 60_000);

test("S1: a password of an invitation is never kept, and none that is given is dropped", async () => {
  const email = "dee@example.com";
  expect(await claim(email, "set through an invitation", "default")).toBe(201);
  const again = await verk(["add", email, "--role", "owner", "--operator"]);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining("Remove the user first")]);
  const keep = await verk(["add", email, "--workspace", "beta", "--keep-password"]);
  expect([keep.code, keep.err]).toEqual([1, expect.stringContaining("no password to keep")]);
  const both = await verk(["add", email, "--workspace", "beta", "--keep-password", "--password-stdin"], "x");
  expect([both.code, both.err]).toEqual([2, expect.stringContaining("--password-stdin")]);
  await verk(["remove", email]);
  expect((await verk(["add", email, "--role", "owner", "--password-stdin"], "seven marked rivers\n")).code).toBe(0);
  expect((await signIn(email, "set through an invitation")).status).toBe(401);
  expect((await signIn(email, "seven marked rivers")).status).toBe(201);
}, 60_000);

test("wrong arguments name the fix", async () => {
  for (const [args, message] of [
    [["add", "ada"], "is not an e-mail address"],
    [["add", "ada@example.com", "--role", "onwer"], "Did you mean owner?"],
    [["add", "ada@example.com", "--operator"], "--role owner"],
  ] as const) {
    const { code, err } = await verk([...args]);
    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
  }
});

test("an invitation is a link that makes a user once", async () => {
  const invited = await verk(["invite", "bo@example.com", "--role", "viewer"]);
  expect(invited.code).toBe(0);
  const token = invited.out.trim().split("#")[1];
  expect((await verk(["invitations", "--json"])).json().data).toMatchObject([{ email: "bo@example.com" }]);
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ token, password: "four rivers of glass" });
  const accept = async () =>
    (await fetch(`${server.url}/v1/logins/invitations`, { method: "POST", headers, body })).status;
  expect([await accept(), await accept()]).toEqual([201, 404]);
  expect((await verk(["uninvite", "bo@example.com"])).code).toBe(1);
  expect(server.stderr()).not.toContain(token as string);
}, 60_000);

test("a rotated key is replaced, and the old one works during the grace period alone", async () => {
  const keys = (args: string[]) => runVerk(["keys", ...args, "--data", server.dir], { cwd: server.dir });
  const old = (await keys(["create", "--json"])).json();
  const next = (await keys(["rotate", old.id, "--grace", "2h", "--json"])).json();
  const works = async (key: string) =>
    (await fetch(`${server.url}/v1/account`, { headers: { authorization: `Bearer ${key}` } })).status;
  expect([await works(old.key), await works(next.key)]).toEqual([200, 200]);
  const last = (await keys(["rotate", next.id, "--grace", "0s", "--json"])).json();
  expect(await works(last.key)).toBe(200);
  await until("the old key to be refused", async () => (await works(next.key)) === 401); // the server asks again within a second
  expect((await keys(["rotate", last.id, "--grace", "soon"])).code).toBe(2);
}, 60_000);

test("the first key never expires, later ones after a year or when --expires says", async () => {
  const dir = tempDir();
  const keys = (...args: string[]) => runVerk(["keys", ...args, "--data", dir], { cwd: dir });
  expect((await keys("create", "--name", "first")).err).toContain("never expires");
  expect((await keys("create", "--name", "second")).err).toMatch(/expires 20\d\d-/);
  expect((await keys("create", "--name", "service", "--expires", "never")).err).toContain("never expires");
  const ends = (await keys("list", "--json")).json().data.map((key: { expires_at: string | null }) => key.expires_at);
  expect(ends).toEqual([null, expect.stringMatching(/^20/), null]); // newest first
  expect((await keys("list")).out).toMatch(/first .*never/);
  rmSync(dir, { recursive: true, force: true });
}, 60_000);
