/** A provider that signs whatever a test wants: `oidc-provider` itself makes no wrong tokens. */
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose";
import type { TestApp } from "./harness.ts";
import { begin, CLIENT, comeBack } from "./oidc_kit.ts";
import { type Browser, openBrowser } from "./people_kit.ts";

export const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"] as const;
export type Algorithm = (typeof ALGORITHMS)[number];
type Claims = Record<string, unknown>;
export type Forged = {
  claims?: Claims;
  algorithm?: Algorithm;
  /** Takes the finished claims and returns another token. */
  make?: (claims: JWTPayload) => Promise<string> | string;
  userinfo?: Claims;
};

const keyPair = async (algorithm: string, kid: string) => {
  const pair = await generateKeyPair(algorithm, { extractable: true });
  return { ...pair, jwk: { ...(await exportJWK(pair.publicKey)), kid, alg: algorithm, use: "sig" } satisfies JWK };
};

export async function startForger(now: () => number) {
  const pairs = new Map<string, Awaited<ReturnType<typeof keyPair>>>();
  for (const algorithm of ALGORITHMS) pairs.set(algorithm, await keyPair(algorithm, algorithm));
  const sent: string[] = [];
  let forged: Forged = {};
  let nonce = "";
  let metadata: Claims = {};
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
  const issuer = `http://127.0.0.1:${server.port}`;

  const claimsOf = (): JWTPayload => {
    const seconds = Math.floor(now() / 1000);
    return {
      iss: issuer,
      aud: CLIENT.id,
      sub: "forged",
      nonce,
      iat: seconds,
      exp: seconds + 300,
      email: "forged@example.com",
      email_verified: true,
      groups: ["staff"],
      ...forged.claims,
    };
  };
  async function tokenOf(): Promise<string> {
    if (forged.make) return forged.make(claimsOf());
    return sign(claimsOf(), forged.algorithm ?? "RS256");
  }
  function sign(claims: JWTPayload, algorithm: Algorithm): Promise<string> {
    const { privateKey, jwk } = pairs.get(algorithm) as Awaited<ReturnType<typeof keyPair>>;
    return new SignJWT(claims).setProtectedHeader({ alg: algorithm, kid: jwk.kid }).sign(privateKey);
  }
  async function answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const at = (path: string) => `${issuer}${path}`;
    if (pathname.endsWith("openid-configuration"))
      return Response.json({
        issuer,
        authorization_endpoint: at("/auth"),
        token_endpoint: at("/token"),
        jwks_uri: at("/jwks"),
        userinfo_endpoint: at("/me"),
        authorization_response_iss_parameter_supported: true,
        ...metadata,
      });
    if (pathname === "/jwks") return Response.json({ keys: [...pairs.values()].map(({ jwk }) => jwk) });
    if (pathname === "/me") return Response.json(forged.userinfo ?? {});
    const tokens = { id_token: await tokenOf(), access_token: `access-${crypto.randomUUID()}` };
    sent.push(tokens.id_token, tokens.access_token);
    return Response.json(tokens);
  }

  return {
    issuer,
    sign,
    publicKey: () => pairs.get("RS256")?.publicKey as CryptoKey,
    /** All tokens that were sent. */
    sent,
    forge: (value: Forged, itsNonce: string) => {
      forged = value;
      nonce = itsNonce;
    },
    setMetadata: (value: Claims) => {
      metadata = value;
    },
    /** A new key under a new name. */
    rotate: async (name: string) => void pairs.set("RS256", await keyPair("RS256", name)),
    close: () => server.stop(true),
  };
}

export type Forger = Awaited<ReturnType<typeof startForger>>;
export const CODE = "a-code-of-the-provider";

/** The address of the page that a failed sign-in leads to. */
export const failed = (why: string) => `/#sign-in-failed=${why}`;

type Attempt = Forged & {
  query?: Record<string, string> | undefined;
  browser?: Browser | undefined;
  returnTo?: string | undefined;
};

/** A sign-in through the forger. `query` changes the answer of the provider. */
export async function attempt(app: TestApp, forger: Forger, options: Attempt = {}) {
  const { browser: visitor, back, url } = await pending(app, forger, options);
  const answer = await comeBack(visitor, back);
  const location = answer.headers.get("location");
  return { browser: visitor, url, location, isIn: visitor.jar.has("verk_session") };
}

/** The same up to the answer of the provider: `back` is the address that it leads to. */
export async function pending(app: TestApp, forger: Forger, { query, browser, returnTo, ...forged }: Attempt = {}) {
  const visitor = browser ?? openBrowser(app);
  const url = new URL(await begin(visitor, returnTo));
  forger.forge(forged, url.searchParams.get("nonce") ?? "");
  const all = { code: CODE, state: url.searchParams.get("state") ?? "", iss: forger.issuer, ...query };
  return { browser: visitor, url, back: `http://localhost/v1/logins/oidc/callback?${new URLSearchParams(all)}` };
}
