/** Sign-in through an OpenID Connect provider: authorization code with PKCE. */
import { createHash } from "node:crypto";
import type { Ctx } from "../../../../context.ts";
import { addressOf } from "../../../../http/client.ts";
import { rootOf } from "../../../../http/host.ts";
import { setCaller } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import { begin, type SignedIn } from "../sign_in/service.ts";
import { type Claims, groupsOf, nameOf, roleOf, verifiedEmailOf } from "./claims.ts";
import { OidcError } from "./failure.ts";
import { type IdToken, isUnknownKey, verifyIdToken } from "./id_token.ts";
import { enter, knownUser, shutOut } from "./identity.ts";
import { errorOf, exchange, type Provider, providerOf, userInfoOf } from "./provider.ts";
import { newSignIn, nonceOf, readSignIn, type SignInUnderWay, stateOf, verifierOf } from "./under_way.ts";

export function requireConfigured({ config }: Ctx) {
  if (config.oidc.issuer === "")
    throw new AppError("resource_not_found", "This server has no OpenID Connect provider: set oidc.issuer");
}

const redirectUriOf = (ctx: Ctx, request: Request) => `${rootOf(ctx, request)}/v1/logins/oidc/callback`;

/** The provider's page to go to, and the sign-in that begins there. */
export async function start(ctx: Ctx, request: Request, returnTo: string) {
  const { client_id: clientId, scopes } = ctx.config.oidc;
  const provider = await providerOf(ctx);
  const signIn = newSignIn(ctx, returnTo);
  const url = new URL(provider.authorization_endpoint);
  const parameters = {
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUriOf(ctx, request),
    scope: [...new Set(["openid", ...scopes])].join(" "),
    state: stateOf(ctx, signIn),
    nonce: nonceOf(ctx, signIn),
    code_challenge: createHash("sha256").update(verifierOf(ctx, signIn)).digest("base64url"),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return { url: url.href, signIn };
}

/** The query of the request that comes back. A parameter that is given twice is a list, which nothing here takes. */
export type Returned = Readonly<Partial<Record<"state" | "code" | "error" | "iss", string | string[] | undefined>>>;

/** Resolves with a new session. Every check comes before the first thing is written. */
export async function finish(ctx: Ctx, request: Request, query: Returned): Promise<SignedIn & { returnTo: string }> {
  const { state, code, error, iss } = query;
  const signIn = typeof state === "string" ? readSignIn(ctx, request, state) : undefined;
  if (!signIn || !ctx.state.people.oidc.use(signIn, ctx.clock.now()))
    throw new OidcError("expired", "the state belongs to no sign-in of this browser, or was used before");
  const takeBack = ctx.state.people.attempts.beginAddress(addressOf(ctx, request));
  const provider = await providerOf(ctx);
  requireIssuer(provider, iss);
  if (error !== undefined) throw new OidcError("declined", `the provider declined${errorOf({ error })}`);
  if (typeof code !== "string") throw new OidcError("declined", "the provider sent no code");
  const { token, claims } = await redeem(ctx, provider, { signIn, code, redirectUri: redirectUriOf(ctx, request) });
  const { person, user } = decide(ctx, request, token, claims);
  takeBack();
  return { ...begin(ctx, request, { person, user, method: "oidc" }), returnTo: signIn.returnTo };
}

/** RFC 9207: an answer of another provider must not be taken for one of ours (mix-up). */
function requireIssuer(provider: Provider, iss: string | string[] | undefined) {
  if (iss === undefined && !provider.authorization_response_iss_parameter_supported) return;
  if (iss !== provider.issuer) throw new OidcError("invalid_token", "the answer comes from another issuer (iss)");
}

type Redemption = { signIn: SignInUnderWay; code: string; redirectUri: string };

/** The code → what the provider says of the person. */
async function redeem(ctx: Ctx, provider: Provider, { signIn, code, redirectUri }: Redemption) {
  const { client_id: clientId, groups_claim: groupsClaim } = ctx.config.oidc;
  const tokens = await exchange(ctx, provider, { code, verifier: verifierOf(ctx, signIn), redirectUri });
  const verify = ({ keys }: Provider) =>
    verifyIdToken(tokens.id_token, {
      keys,
      issuer: provider.issuer,
      clientId,
      nonce: nonceOf(ctx, signIn),
      nowMs: ctx.clock.now(),
    });
  const token = await verify(provider).catch(async (error: unknown) => {
    if (!isUnknownKey(error)) throw error;
    return verify(await providerOf(ctx, { reload: true })); // the provider may have new keys
  });
  const isComplete = token["email"] !== undefined && groupsOf(token, groupsClaim) !== undefined;
  const { userinfo_endpoint: url } = provider;
  const { access_token: access } = tokens;
  if (isComplete || url === undefined || access === undefined) return { token, claims: [token] };
  return { token, claims: [token, await userInfoOf(ctx, url, { token: access, sub: token.sub })] };
}

/** The first of `claims` with an address gives the address and whether it is verified; likewise for the groups. */
function decide(ctx: Ctx, request: Request, { sub: subject }: IdToken, claims: readonly Claims[]) {
  const { oidc } = ctx.config;
  const identity = { issuer: oidc.issuer, subject };
  const groups = claims.map((each) => groupsOf(each, oidc.groups_claim)).find((each) => each !== undefined) ?? [];
  const role = roleOf(groups, oidc.roles);
  const user = role ? knownUser(ctx, identity) : shutOut(ctx, identity);
  if (user) setCaller(request, { workspaceId: user.workspaceId, keyId: user.keyId, userId: user.id });
  if (!role) throw new OidcError("no_role", `no group of the subject ${subject} is in oidc.roles`);
  const email = verifiedEmailOf(claims.find((each) => each["email"] !== undefined) ?? {}, oidc);
  const named = claims.find((each) => each["name"] !== undefined) ?? {};
  return enter(ctx, { ...identity, role, email, name: nameOf(named, email ?? subject) });
}
