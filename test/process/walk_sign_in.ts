/**
 * A provider and a browser for the machine of walk.test.ts, which has no network of its own:
 * `bun walk_sign_in.ts ORIGIN PORT_OF_PROVIDER [NAME_OF_KEY]`. Signs in, makes a key on the page of keys if it is named, and
 * prints `{ user, key }`.
 */
import { openDashboard } from "../browser/kit.ts";
import { signInByLink } from "../browser/provider_page.ts";
import { startProvider } from "../oidc_kit.ts";

const [origin = "", port = "", keyName] = process.argv.slice(2);
const provider = await startProvider(`${origin}/v1/logins/oidc/callback`, Number(port));
provider.add({ sub: "ada", email: "ada@example.com", email_verified: true, name: "Ada", groups: ["admins"] });
const page = await openDashboard(origin);
try {
  await page.at("/keys");
  await signInByLink(page, "Sign in with single sign-on", "ada");
  await page.waitFor("the page of keys", () => page.has("button", "New key"));
  const key = keyName === undefined ? null : await makeKey(keyName);
  const { user } = await page.run<{ user: object }>("fetch('/v1/me').then((answer) => answer.json())");
  process.stdout.write(JSON.stringify({ user, key }));
} finally {
  await page.close();
  await provider.close();
}

async function makeKey(name: string): Promise<string> {
  await page.click("button", "New key");
  await page.waitFor("the form", () => page.has("textbox", "Name"));
  await page.run(`[...document.querySelectorAll("label")].find((at) => at.innerText === "Name").control.focus()`);
  await page.type(name);
  await page.click("button", "Create key");
  await page.waitForText("This is the only time that the key is shown");
  return await page.run<string>(`document.querySelector("dialog code").innerText`);
}
