/** People of the workspace: each role, a second factor, sessions of several browsers, an invitation that waits. */
import { authenticator } from "../../test/people_kit.ts";
import type { Post } from "./loop.ts";
import type { Server } from "./world.ts";

const PASSWORD = "four rivers of glass";
const PERSONS = [
  ["Ada Byron", "ada@example.com", "owner"],
  ["Grace Murray", "grace@example.com", "admin"],
  ["Linus Vega", "linus@example.com", "member"],
  ["Hedy Kiesler", "hedy@example.com", "viewer"],
  ["Alan Mathison", "alan@example.com", "annotator"],
] as const;
const BROWSERS = [
  "Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1",
];

export async function persons(server: Server, post: Post) {
  for (const [name, email, role] of PERSONS) {
    const args = ["users", "add", email, "--name", name, "--role", role, "--password-stdin"];
    const { code, err } = await server.verk(args, { stdin: `${PASSWORD}\n` });
    if (code !== 0) throw new Error(err);
  }
  const ada = await signIn(server, "ada@example.com", BROWSERS[0] ?? "");
  for (const agent of BROWSERS) await signIn(server, "grace@example.com", agent);
  await signIn(server, "linus@example.com", BROWSERS[1] ?? "");
  const { secret } = await ada("/v1/me/second_factor", { password: PASSWORD });
  await ada("/v1/me/second_factor/confirm", { code: authenticator(secret)() });
  await post("/v1/invitations", { email: "edsger@example.com", role: "member" });
}

/** Returns calls with the session's cookie. */
async function signIn(server: Server, email: string, agent: string) {
  const headers = { "content-type": "application/json", "user-agent": agent, "sec-fetch-site": "same-origin" };
  const body = JSON.stringify({ email, password: PASSWORD });
  const answer = await fetch(`${server.url}/v1/logins`, { method: "POST", headers, body });
  if (!answer.ok) throw new Error(`${email}: ${await answer.text()}`);
  const cookie = answer.headers
    .getSetCookie()
    .map((each) => each.split(";")[0])
    .join("; ");
  const { csrf_token: csrf } = (await answer.json()) as { csrf_token: string };
  return async (path: string, fields: object): Promise<{ secret: string }> => {
    const said = await fetch(server.url + path, {
      method: "POST",
      headers: { ...headers, cookie, "x-verk-csrf": csrf },
      body: JSON.stringify(fields),
    });
    if (!said.ok) throw new Error(`${path}: ${await said.text()}`);
    return (await said.json()) as { secret: string };
  };
}
