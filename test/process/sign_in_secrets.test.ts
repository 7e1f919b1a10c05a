// tier: all (whole paths on the executable)
/**
 * Passwords and tokens of people are in no file and in no line of the log: every way to sign in is used once against the
 * executable, with right and wrong values. Then the data directory, a backup of it and the log are searched.
 */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { tempDir } from "../harness.ts";
import { authenticator } from "../people_kit.ts";
import { whereFound } from "./secrets_search.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

const NEW_PASSWORD = "seven marked rivers";
const WRONG_PASSWORD = "a marked wrong password";

type Server = Awaited<ReturnType<typeof startBinary>>;

/** A browser of the server. It notes every cookie and token that it gets. */
function openBrowser(server: Server, noted: string[]) {
  const jar = new Map<string, string>();
  let csrf = "";
  return async (method: string, path: string, json: unknown, more: Record<string, string> = {}) => {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = {
      "content-type": "application/json",
      "sec-fetch-site": "same-origin",
      cookie,
      "x-verk-csrf": csrf,
      ...more,
    };
    const response = await fetch(server.url + path, { method, headers, body: JSON.stringify(json) });
    for (const set of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      jar.set(name, value);
      if (value.length > 1) noted.push(value); // one cookie is a mark for pages, 1
    }
    const body = await response.json();
    csrf = body.csrf_token ?? csrf;
    if (csrf !== "") noted.push(csrf);
    return { status: response.status, body };
  };
}

test("no password, code, cookie, key or token of a sign-in is in a file, in a backup or in the log", async () => {
  const dir = join(root, "data");
  mkdirSync(dir);
  const server = await startBinary({ dir, env: { VERK_LOG__LEVEL: "debug" } });
  const secrets: string[] = [NEW_PASSWORD, WRONG_PASSWORD];
  const note = (secret: string) => {
    secrets.push(secret);
    return secret;
  };
  const key = note(await server.apiKey());
  const added = await server.verk(["users", "add", "ada@example.com", "--role", "owner", "--operator", "--json"]);
  const password = note(added.json().password);
  const email = "ada@example.com";

  const browser = openBrowser(server, secrets);
  const signIn = (given: string, more: object = {}, call = browser) =>
    call("POST", "/v1/logins", { email, password: given, ...more });
  expect((await signIn(WRONG_PASSWORD)).status).toBe(401);
  expect((await signIn(password)).status).toBe(201);
  const broken = `{"email":"${email}","password":"${password}"`;
  await fetch(`${server.url}/v1/logins`, { method: "POST", body: broken });
  await fetch(`${server.url}/v1/logins`, { method: "POST", body: JSON.stringify({ email, passwrod: password }) });
  const change = { password, new_password: NEW_PASSWORD };
  expect((await browser("POST", "/v1/me/password", change)).status).toBe(200);

  const begun = await browser("POST", "/v1/me/second_factor", { password: NEW_PASSWORD });
  const code = authenticator(note(begun.body.secret));
  const confirmed = await browser("POST", "/v1/me/second_factor/confirm", { code: code() });
  expect(confirmed.body.recovery_codes).toHaveLength(10);
  for (const each of confirmed.body.recovery_codes) note(each);
  const [recovery] = confirmed.body.recovery_codes;
  expect((await signIn(NEW_PASSWORD, { code: recovery }, openBrowser(server, secrets))).status).toBe(201);

  // The answer to a repeated request is stored, but not the key that it had.
  const once = { "idempotency-key": "once" };
  const made = await browser("POST", "/v1/api_keys", { name: "notebook" }, once);
  const again = await browser("POST", "/v1/api_keys", { name: "notebook" }, once);
  note(made.body.key);
  expect([again.body.id, again.body.key]).toEqual([made.body.id, undefined]);
  note((await browser("POST", `/v1/api_keys/${made.body.id}/rotate`, { grace_hours: 1 })).body.key);
  const keyHeaders = { authorization: `Bearer ${note("vk_MarkedKeyThatDoesNotExist00000000000000000")}` };
  expect((await fetch(`${server.url}/v1/account`, { headers: keyHeaders })).status).toBe(401);

  const invited = await browser("POST", "/v1/invitations", { email: "bo@example.com", role: "viewer" });
  const token = note(String(invited.body.url).split("#")[1] ?? "");
  expect(token.length).toBeGreaterThan(20);
  const accept = { token, name: "Bo", password: NEW_PASSWORD };
  expect((await openBrowser(server, secrets)("POST", "/v1/logins/invitations", accept)).status).toBe(201);
  expect((await server.verk(["users", "reset-password", email, "--password-stdin"], { stdin: password })).code).toBe(0);

  expect(secrets.filter((secret) => secret.length < 10)).toEqual([]);
  const target = join(root, "backups");
  expect((await server.verk(["backup", "create", "--to", target, "--without-keys"])).code).toBe(0);
  const search = (given: readonly string[]) => whereFound(given, [dir, target], { "the log": server.stderr() });
  expect(search(secrets)).toEqual([]);
  const { stderr } = await server.kill("SIGTERM");
  expect(search(secrets)).toEqual([]);
  expect(search([email]).length).toBeGreaterThan(1); // so the search finds what is there
  expect(stderr).toContain("/v1/logins");
  expect(key).toStartWith("vk_");
}, 120_000);
