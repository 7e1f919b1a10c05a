/** A real OpenID Connect provider (`oidc-provider`) on loopback, and browsers that sign in through it. */
import type { RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import Provider from "oidc-provider";
import { type Options, testApp } from "./harness.ts";
import { type Browser, openBrowser } from "./people_kit.ts";

export type Account = {
  sub: string;
  email?: string;
  email_verified?: boolean;
  name?: string;
  groups?: string[];
};
export const CLIENT = { id: "verk", secret: "the secret of the client & more" };
/** The address of a server that `testApp` made. */
export const ROOT = "http://localhost";

export type StartedProvider = Awaited<ReturnType<typeof startProvider>>;

/** Accounts sign in on the provider's own development page, with their name and any password. */
export async function startProvider(redirectUri = `${ROOT}/v1/logins/oidc/callback`, port = 0) {
  const accounts = new Map<string, Account>();
  let handle: RequestListener | undefined;
  const { createServer } = await import("node:http");
  const server: Server = createServer((request, response) => handle?.(request, response));
  await new Promise<void>((done) => server.listen(port, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await crypto.subtle.generateKey(
    { name: "RSASSA-PKCS1-v1_5", modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256" },
    true,
    ["sign", "verify"],
  );
  const { key_ops: _, ext: __, ...key } = await crypto.subtle.exportKey("jwk", privateKey);
  const configure = (uri: string) => ({
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [uri],
        response_types: ["code"],
        grant_types: ["authorization_code"],
      },
    ],
    jwks: { keys: [{ ...key, kid: "first", use: "sig", alg: "RS256" }] },
    cookies: { keys: ["test"] },
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 600, IdToken: 600 },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    scopes: ["openid", "profile", "email", "groups"],
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, ...accounts.get(id) }) }),
  });
  /** The address to which people come back. A server on a free port has it only after the issuer is known. */
  const register = (uri: string) => {
    handle = new Provider(issuer, configure(uri)).callback();
  };
  register(redirectUri);
  return {
    issuer,
    register,
    add(account: Account) {
      accounts.set(account.sub, account);
      return account;
    },
    close: () =>
      new Promise<void>((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  };
}

/** Settings of a server that trusts the provider. */
export const oidcFlags = (issuer: string, more: Record<string, unknown> = {}) => ({
  "oidc.issuer": issuer,
  "oidc.client_id": CLIENT.id,
  "oidc.client_secret": CLIENT.secret,
  "oidc.scopes": ["openid", "profile", "email", "groups"],
  "oidc.roles": ["admins=admin", "staff=member", "guests=viewer"],
  "oidc.workspace": "alpha",
  ...more,
});

export const oidcApp = (issuer: string, { flags = {}, ...options }: Options = {}) =>
  testApp({ ...options, flags: oidcFlags(issuer, flags) });

/** Cookies of a browser at the provider. */
type Jar = Map<string, string>;

async function get(jar: Jar, url: string, init: RequestInit = {}) {
  const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
  const answer = await fetch(url, { ...init, redirect: "manual", headers: { cookie, ...init.headers } });
  for (const set of answer.headers.getSetCookie()) {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
    if (value === "") jar.delete(name);
    else jar.set(name, value);
  }
  return answer;
}

/** Follows the provider's pages as a person does, until they lead back to the server. Returns that address. */
export async function atProvider(url: string, login: string, jar: Jar = new Map()): Promise<string> {
  let next = url;
  for (let i = 0; i < 12; i++) {
    let answer = await get(jar, next);
    if (answer.status === 200) {
      const page = await answer.text();
      const action = /<form[^>]* action="([^"]+)"/.exec(page)?.[1] ?? "";
      const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1] ?? "";
      const body = new URLSearchParams({ prompt, ...(prompt === "login" ? { login, password: "any" } : {}) });
      answer = await get(jar, new URL(action, next).href, { method: "POST", body });
    }
    const location = answer.headers.get("location");
    if (location === null) throw new Error(`${next}: ${answer.status} ${await answer.text()}`);
    next = new URL(location, next).href;
    if (next.includes("/v1/logins/oidc/callback")) return next;
  }
  throw new Error(`the provider does not lead back: ${next}`);
}

export const pathOf = (url: string) => url.slice(new URL(url).origin.length);

/** The first half: the browser at the server. Returns the address of the provider's page. */
export async function begin(browser: Browser, returnTo?: string): Promise<string> {
  const query = returnTo === undefined ? "" : `?return_to=${encodeURIComponent(returnTo)}`;
  const { status, headers, body } = await browser.call("GET", `/v1/logins/oidc${query}`);
  if (status !== 303) throw new Error(`${status} ${JSON.stringify(body)}`);
  return headers.get("location") ?? "";
}

/** The second half. A browser sends it from the provider's page, without the cookies that are strict. */
export const comeBack = (browser: Browser, url: string) =>
  browser.call("GET", pathOf(url), undefined, { "sec-fetch-site": "cross-site" });

export async function signInThrough(app: ReturnType<typeof testApp>, login: string, browser = openBrowser(app)) {
  const back = await atProvider(await begin(browser), login);
  const answer = await comeBack(browser, back);
  return { browser, back, answer, location: answer.headers.get("location") };
}
