/** The pages of `oidc-provider` in a browser: a form for name and password, then one that asks for consent. */
import type { Dashboard } from "./kit.ts";

const PROMPT = `document.querySelector("input[name=prompt]")?.value ?? ""`;

/** The form that the provider shows; empty between two pages, and on pages of the server. */
export const promptOf = (page: Dashboard) => page.run<string>(PROMPT).catch(() => "");

/** Follows the link of the sign-in page and the provider's forms, until the browser is back at the server. */
export async function signInByLink(page: Dashboard, link: string, login: string) {
  const inside = `location.origin === ${JSON.stringify(page.origin)} && window.isLeft === undefined`;
  const isBack = () => page.run<boolean>(inside).catch(() => false);
  await page.run("window.isLeft = true");
  await page.click("link", link);
  let before = "";
  for (;;) {
    const prompt = await page.waitFor("a page after the last", async () => {
      if (await isBack()) return "back";
      const shown = await promptOf(page);
      return shown === before ? "" : shown;
    });
    if (prompt === "back") return;
    if (prompt === "login") {
      for (const [name, value] of Object.entries({ login, password: "any" })) {
        await page.run(`document.querySelector("input[name=${name}]").focus()`);
        await page.type(value);
      }
    }
    await page.click("button", prompt === "login" ? "Sign-in" : "Continue");
    before = prompt;
  }
}
