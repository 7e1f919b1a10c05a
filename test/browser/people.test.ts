// tier: all (every page in a browser)
/** People in a real browser: passwords, the second factor, sessions. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { authenticator } from "../people_kit.ts";
import { CHROMIUM, type Dashboard, openDashboard, SIZES, startDashboard } from "./kit.ts";

let world: Awaited<ReturnType<typeof startDashboard>>;
const PASSWORD = "four rivers of glass";
const EMAIL = "ada@example.com";

async function fill(page: Dashboard, label: string, value: string) {
  await page.waitFor(label, () => page.has("textbox", label));
  await page.run(
    `[...document.querySelectorAll("label")].find((at) => at.innerText === ${JSON.stringify(label)}).control.focus()`,
  );
  await page.type(value);
}
const isIn = (page: Dashboard) => page.waitFor("the page", () => page.run<boolean>("!!document.querySelector('.app')"));

async function enterPassword(page: Dashboard) {
  await fill(page, "E-mail address", EMAIL);
  await fill(page, "Password", PASSWORD);
  await page.press("Enter");
}

describe.skipIf(CHROMIUM === null)("a user", () => {
  beforeAll(async () => {
    world = await startDashboard({ signIn: false });
    const args = ["users", "add", EMAIL, "--role", "owner", "--password-stdin"];
    expect((await world.server.verk(args, { stdin: `${PASSWORD}\n` })).code).toBe(0);
  }, 60_000);
  afterAll(() => world?.close());

  test("adds a second factor, signs in with a code, and ends another session", async () => {
    const { page, server } = world;
    await page.at("/me");
    await enterPassword(page);
    await isIn(page);
    await page.waitForText("Add a second factor");
    await fill(page, "Your password", PASSWORD);
    await page.click("button", "Add a second factor");
    await page.waitForText("Type this secret into your authenticator app");
    const code = authenticator(await page.run<string>(`document.querySelector(".command code").innerText`));
    await fill(page, "Code that the app shows", code());
    await page.click("button", "Turn on");
    await page.waitForText("Keep these recovery codes");
    const recovery = await page.run<string>(`document.querySelector(".me-codes").innerText.split("\\n")[0]`);
    await page.click("button", "I have kept them");
    await page.waitForText("on, 10 recovery codes left");
    expect(await page.check()).toEqual([]);

    await page.click("button", "Sign out");
    await enterPassword(page);
    await fill(page, "Code", code(1));
    await page.press("Enter");
    await isIn(page);
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ email: EMAIL, password: PASSWORD, code: recovery });
    const other = await fetch(`${server.url}/v1/logins`, { method: "POST", headers, body });
    expect(other.status).toBe(201);
    await page.at("/me");
    await page.waitForText("on, 9 recovery codes left");
    await page.click("button", "End");
    await page.waitFor("one session", async () => !(await page.has("button", "End")));
    const cookie = other.headers.getSetCookie().map((each) => each.split(";")[0]);
    const ended = await fetch(`${server.url}/v1/me`, { headers: { cookie: cookie.join("; ") } });
    expect(ended.status).toBe(401);
    expect(await page.check({ expected: /401/ })).toEqual([]);
    for (const secret of [PASSWORD, recovery]) expect(server.stderr()).not.toContain(secret);
  }, 60_000);

  test("invites a person, who opens the link in another browser and chooses a password", async () => {
    const { page, server } = world;
    await page.at("/people");
    await page.waitForText(EMAIL);
    await page.click("button", "Invite");
    await fill(page, "E-mail address", "bo@example.com");
    await page.click("button", "Create the link");
    await page.waitForText("It works once");
    const url = await page.run<string>(`document.querySelector("dialog code").innerText`);
    await page.click("button", "Done");
    await page.waitFor("the open invitation", () => page.has("button", "Withdraw bo@example.com"));
    expect(await page.check({ expected: /401/ })).toEqual([]);

    const other = await openDashboard(server.url);
    await other.at(new URL(url).pathname + new URL(url).hash);
    await fill(other, "Your name", "Bo");
    await fill(other, "Password", PASSWORD);
    expect(await other.path()).toBe("/invitation");
    expect(await other.run<string>("location.hash")).toBe("");
    expect(await other.check()).toEqual([]);
    await other.click("button", "Accept");
    await isIn(other);
    await other.at("/me");
    await other.waitForText("bo@example.com");
    await other.close();
    await page.at("/people");
    await page.waitForText("Bo");
    expect(server.stderr()).not.toContain(new URL(url).hash.slice(1));
  }, 60_000);

  test("a manager changes a role, ends sessions and removes a person, by keyboard, with markup in the name", async () => {
    const { page, server } = world;
    const [email, name] = ["cy@example.com", `Cy<img src=x onerror="window.hacked=1">`];
    const added = await server.verk(["users", "add", email, "--name", name, "--password-stdin"], {
      stdin: `${PASSWORD}\n`,
    });
    expect(added).toMatchObject({ code: 0 });
    const signIn = () =>
      fetch(`${server.url}/v1/logins`, {
        method: "POST",
        headers: { "content-type": "application/json", "user-agent": "Reader" },
        body: JSON.stringify({ email, password: PASSWORD }),
      });
    for (let i = 0; i < 2; i++) expect((await signIn()).status).toBe(201);
    await page.at("/people");
    await page.waitForText("What each role may do");
    await page.resize(SIZES.phone);
    const isCut = "((at) => at.scrollWidth > at.clientWidth)(document.querySelector('.people-rights').parentElement)";
    expect(await page.run<boolean>(isCut)).toBe(false);
    expect(await page.axe()).toEqual([]);
    await page.resize(SIZES.desktop);
    await page.tabTo(`Manage ${email}`);
    await page.press("Enter");
    await page.waitForText("End all (2 sessions)");
    expect(await page.check({ expected: /401/ })).toEqual([]);
    await page.run(`document.querySelector('input[name="role"]:checked').focus()`);
    await page.press("ArrowDown");
    await page.tabTo("Change the role");
    await page.press("Enter");
    await page.waitForText(`${name} is Viewer now`);
    await page.tabTo("End the session Reader");
    await page.press("Enter");
    await page.waitForText("End all (1 session)");
    await page.tabTo("End all (1 session)");
    await page.press("Enter");
    await page.waitForText(`${name} is signed in nowhere.`);
    await page.tabTo(`Remove ${name}`);
    await page.press("Enter");
    await page.waitForText("All API keys that they made are revoked");
    await page.resize(SIZES.phone);
    expect(await page.check({ expected: /401/ })).toEqual([]);
    await page.resize(SIZES.desktop);
    await page.tabTo("Remove");
    await page.press("Enter");
    await page.waitFor("the person to go", async () => !(await page.has("button", `Manage ${email}`)));
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  }, 60_000);

  test("joins a second workspace with the account that this browser is signed in to", async () => {
    const { page, server } = world;
    expect((await server.verk(["workspaces", "create", "beta"])).code).toBe(0);
    const invited = await server.verk(["users", "invite", EMAIL, "--workspace", "beta"]);
    const { pathname, hash } = new URL(invited.out.trim());
    await page.at(pathname + hash);
    await page.click("checkbox", "I have an account on this server");
    await page.waitForText("Leave it empty if this browser is signed in to it");
    expect(await page.check({ expected: /401/ })).toEqual([]);
    await page.click("button", "Accept");
    await isIn(page);
    const me = await page.run<{ workspace: { name: string }; workspaces: object[] }>(
      "fetch('/v1/me').then((answer) => answer.json())",
    );
    expect([me.workspace.name, me.workspaces.length]).toEqual(["beta", 2]);
  }, 60_000);
});
