/** Users, and browsers that sign in as they do. */
import * as persons from "../src/resources/access/people/persons.ts";
import type { Role } from "../src/resources/access/people/policy.ts";
import * as secondFactor from "../src/resources/access/people/second_factor/service.ts";
import { codeOf, stepAt } from "../src/resources/access/people/second_factor/totp.ts";
import * as people from "../src/resources/access/people/service.ts";
import type { Answer, TestApp } from "./harness.ts";

export const PASSWORD = "four rivers of glass";
/** Cheap to check: the hash names its own cost. */
const HASH = Bun.password.hashSync(PASSWORD, { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
export const SAME_SITE = { "sec-fetch-site": "same-origin" };

type Added = { role?: Role; email?: string; workspaceId?: string; isOperator?: boolean };

/** A user by the operator's word, of workspace A unless said otherwise. The password is `PASSWORD`; a known person keeps it. */
export function addUser(app: TestApp, { role = "member", email, workspaceId, isOperator = false }: Added = {}) {
  const fields = {
    workspaceId: workspaceId ?? app.workspaceA,
    email: email ?? `n${crypto.randomUUID()}@example.com`,
    name: "Ada",
    role,
    isOperator,
  };
  const passwordHash = persons.findProven(app.ctx, fields.email) ? undefined : HASH;
  return { ...people.vouch(app.ctx, { ...fields, passwordHash }), email: fields.email };
}

export type Browser = ReturnType<typeof openBrowser>;

/** A browser with a cookie jar. It sends the headers that a page of this server sends. */
export function openBrowser(app: TestApp) {
  const jar = new Map<string, string>();
  let csrf = "";
  async function call(
    method: string,
    path: string,
    json?: unknown,
    more: Record<string, string> = {},
  ): Promise<Answer> {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { ...SAME_SITE, ...(cookie === "" ? {} : { cookie }), "x-verk-csrf": csrf, ...more };
    const answer = await app.call(method, path, json, { key: null, headers });
    for (const set of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      if (/Max-Age=0/.test(set)) jar.delete(name);
      else jar.set(name, value);
    }
    if (typeof answer.body?.csrf_token === "string") csrf = answer.body.csrf_token;
    return answer;
  }
  return {
    jar,
    call,
    signIn: (email: string, more: object = {}, password = PASSWORD) =>
      call("POST", "/v1/logins", { email, password, ...more }),
  };
}

export async function signedIn(app: TestApp, email: string, more: object = {}): Promise<Browser> {
  const browser = openBrowser(app);
  const { status, body } = await browser.signIn(email, more);
  if (status !== 201) throw new Error(`sign-in: ${status} ${JSON.stringify(body)}`);
  return browser;
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** An authenticator app into which a person has typed the secret: shows the code of now, or of `later` steps. */
export function authenticator(secret: string, now: () => number = Date.now) {
  const bits = [...secret].map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const bytes = Uint8Array.from(bits.match(/.{8}/g) ?? [], (byte) => Number.parseInt(byte, 2));
  return (later = 0) => codeOf(bytes, stepAt(now()) + later);
}

/** A browser of a new user that has begun a second factor. */
export async function beginningFactor(app: TestApp) {
  const user = addUser(app);
  const browser = await signedIn(app, user.email);
  const { secret } = secondFactor.begin(app.ctx, people.personOf(app.ctx, user), "Verk");
  return { user, browser, code: authenticator(secret, () => app.ctx.clock.now()) };
}

/** A browser of a new user with a second factor. Its next code is `code(1)`: the one of now is used up. */
export async function withFactor(app: TestApp) {
  const begun = await beginningFactor(app);
  const confirmed = await begun.browser.call("POST", "/v1/me/second_factor/confirm", { code: begun.code() });
  if (confirmed.status !== 200) throw new Error(`confirm: ${JSON.stringify(confirmed.body)}`);
  return { ...begun, recoveryCodes: confirmed.body.recovery_codes as string[] };
}

/** The token in the link of an invitation. */
export const tokenOf = (url: string): string => url.split("#")[1] ?? "";
