/** The requests to the provider. All go through the network guard. */
import { readFileSync } from "node:fs";
import type { JSONWebKeySet } from "jose";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import {
  type Outside,
  OutsideError,
  opaque,
  outside,
  readOutside,
  table,
  tryOutside,
} from "../../../../lib/json/outside.ts";
import { HOUR_MS, MINUTE_MS } from "../../../../lib/units.ts";
import { isProviderUrl } from "../../../../platform/config/oidc.ts";
import { errorCode } from "../../../../platform/files.ts";
import { guardedDial } from "../../../../platform/network/http_client.ts";
import { OidcError } from "./failure.ts";

const TIMEOUT_MS = 10_000;
const KEEP_MS = HOUR_MS;
/** A token with an unknown key makes the server read the keys again, at most this often. */
const RELOAD_MS = MINUTE_MS;

const Address = z.string().max(2_000);
const Endpoint = Address.refine((text) => isProviderUrl(text.replace(/\?.*$/, "")), "expected an https address");
const Metadata = z.object({
  issuer: Address,
  authorization_endpoint: Endpoint,
  token_endpoint: Endpoint,
  jwks_uri: Endpoint,
  userinfo_endpoint: Endpoint.optional(),
  token_endpoint_auth_methods_supported: z.array(z.string().max(100)).max(100).default(["client_secret_basic"]),
  authorization_response_iss_parameter_supported: z.boolean().default(false),
});
const Word = z.string().max(300).optional();
/** An RSA key of 16,384 bits has 2,731 characters. */
const Part = z.string().max(3_000).optional();
/** Members of a public key (RFC 7517, RFC 7518). Certificates and others are dropped. */
const Key = z.object({
  kty: z.string().max(20),
  use: Word,
  key_ops: z.array(z.string().max(50)).max(20).optional(),
  alg: Word,
  kid: Word,
  n: Part,
  e: Part,
  crv: Word,
  x: Part,
  y: Part,
});
const DISCOVERY = outside("the provider's discovery document", Metadata);
const KEYS = outside("the provider's set of keys", z.object({ keys: z.array(Key).max(100) }));
export type Provider = z.infer<typeof Metadata> & { keys: JSONWebKeySet };

/** Discovery and keys, read once an hour. Callers at the same time share one reading; a failed one is not kept. */
export function providerOf(ctx: Ctx, { reload = false } = {}): Promise<Provider> {
  const state = ctx.state.people.oidc;
  const now = ctx.clock.steady();
  const cached = state.provider;
  if (cached && now - cached.readAt < (reload ? RELOAD_MS : KEEP_MS)) return cached.value;
  const entry = { value: readProvider(ctx), readAt: now };
  state.provider = entry;
  entry.value.catch(() => {
    if (state.provider === entry) state.provider = undefined;
  });
  return entry.value;
}

async function readProvider(ctx: Ctx): Promise<Provider> {
  const { issuer } = ctx.config.oidc;
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const metadata = await send(ctx, DISCOVERY, url);
  if (metadata.issuer !== issuer)
    throw new OidcError("provider", `the provider calls itself ${metadata.issuer.slice(0, 200)}, not ${issuer}`);
  const keys = await send(ctx, KEYS, metadata.jwks_uri);
  return { ...metadata, keys: keys as JSONWebKeySet };
}

export type Exchange = { code: string; verifier: string; redirectUri: string };
const Token = z.string().max(100_000);
const Tokens = z.object({ id_token: Token, access_token: Token.optional() });
export type Tokens = z.infer<typeof Tokens>;
const TOKENS = outside("the provider's answer with tokens", Tokens);

/** The code → tokens. They stay in memory until the sign-in is decided. */
export async function exchange(ctx: Ctx, provider: Provider, { code, verifier, redirectUri }: Exchange) {
  const { client_id: id } = ctx.config.oidc;
  const secret = clientSecretOf(ctx);
  const form = new URLSearchParams({
    grant_type: "authorization_code",
    code,
    redirect_uri: redirectUri,
    code_verifier: verifier,
  });
  const headers: Record<string, string> = { "content-type": "application/x-www-form-urlencoded" };
  const isBasic = provider.token_endpoint_auth_methods_supported.includes("client_secret_basic");
  if (secret !== "" && isBasic) headers["authorization"] = basicOf(id, secret);
  else form.set("client_id", id);
  if (secret !== "" && !isBasic) form.set("client_secret", secret);
  const request = { method: "POST", headers, body: form.toString() };
  return await send(ctx, TOKENS, provider.token_endpoint, request);
}

/** Name and secret are encoded as in a form before they are joined (RFC 6749, 2.3.1). */
function basicOf(id: string, secret: string): string {
  const encoded = (text: string) => new URLSearchParams({ "": text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encoded(id)}:${encoded(secret)}`).toString("base64")}`;
}

/** Read for each sign-in, so that a changed file needs no restart. */
function clientSecretOf({ config }: Ctx): string {
  const { client_secret: secret, client_secret_file: file } = config.oidc;
  if (file === "") return secret;
  try {
    return readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new OidcError("provider", `oidc.client_secret_file: cannot read ${file} (${errorCode(cause) ?? "unknown"})`);
  }
}

/** Any claims: the settings name those that are read. */
const UserInfo = table(opaque("identity.ts"), { most: 1_000 }).refine(
  ({ sub }) => typeof sub === "string",
  "has no sub",
);
const USERINFO = outside("the provider's userinfo", UserInfo);

/** Claims that the provider leaves out of the ID token. The subject must be the same: the answer has no signature. */
export async function userInfoOf(ctx: Ctx, url: string, { token, sub }: { token: string; sub: string }) {
  const info = await send(ctx, USERINFO, url, { headers: { authorization: `Bearer ${token}` } });
  if (info.sub !== sub) throw new OidcError("invalid_token", "userinfo is about another person than the ID token");
  return info;
}

type Sent = { method?: string; headers?: Record<string, string>; body?: string };

/**
 * The operator has named the issuer, so its host and port are allowed, private or not. Other addresses in the discovery
 * document are judged as every address is.
 */
async function send<T>(ctx: Ctx, form: Outside<T>, url: string, request: Sent = {}): Promise<T> {
  const { network, oidc } = ctx.config;
  const issuer = new URL(oidc.issuer);
  const host = issuer.hostname.replace(/^\[|\]$/g, "");
  const isIssuer = new URL(url).origin === issuer.origin;
  const dial = isIssuer ? guardedDial({ ...network, allow: [...network.allow, host] }, ctx.log) : ctx.dial;
  const path = `${new URL(url).origin}${new URL(url).pathname}`;
  const answer = await dial(url, {
    ...request,
    headers: { accept: "application/json", ...request.headers },
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: form.mostBytes,
    allowHttp: issuer.protocol === "http:",
  }).catch((cause: Error) => {
    throw new OidcError("provider", `${path}: ${cause.message}`, { cause });
  });
  if (answer.status !== 200)
    throw new OidcError("provider", `${path} answered ${answer.status}${errorOf(tryOutside(REFUSAL, answer))}`);
  return usable(() => readOutside(form, answer));
}

const Refusal = z.object({ error: z.string().max(60).optional() });
const REFUSAL = outside("the provider's error", Refusal);

/** The error code of OAuth, such as invalid_grant. Other text of the answer may hold secrets. */
export function errorOf(body: unknown): string {
  const code = (body as { error?: unknown } | undefined)?.error;
  return typeof code === "string" && /^[\w.-]{1,60}$/.test(code) ? `: ${code}` : "";
}

function usable<T>(read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new OidcError("provider", cause.message, { cause });
  }
}
