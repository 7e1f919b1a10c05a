/**
 * A client of ACME (RFC 8555): gets a certificate from a public or private authority. `prove` shows the authority that a
 * name is ours, in the way of one kind of challenge (challenges.ts).
 */
import { createHash, createPublicKey, type KeyObject, sign } from "node:crypto";
import { UsageError } from "../../lib/errors.ts";
import { type Outside, OutsideError, readOutside, SERVING_BYTES, tryOutside } from "../../lib/json/outside.ts";
import { parseIp } from "../../lib/net/ip.ts";
import type { Dial, GuardedResponse } from "../network/http_client.ts";
import { AUTHORIZATION, CERTIFICATE_BYTES, DIRECTORY, ORDER, PROBLEM, type Problem } from "./acme_forms.ts";

export type ChallengeKind = "http-01" | "tls-alpn-01";
export type Challenge = { name: string; token: string; keyAuthorization: string };
/** Makes the proof ready, and returns what removes it. */
export type Prove = (challenge: Challenge) => Promise<() => unknown>;

export type AcmeOptions = {
  dial: Dial;
  directory: string;
  /** EC P-256. Its holder owns the account. */
  accountKey: KeyObject;
  email: string | undefined;
  names: readonly string[];
  kind: ChallengeKind;
  prove: Prove;
  /** DER of a certificate request for the names. */
  csr: Uint8Array;
};

const TIMEOUT_MS = 30_000;
const MOST_POLLS = 60;
const POLL_MS = 1_000;
const NONCE_TRIES = 20;

const base64url = (data: string | Uint8Array) => Buffer.from(data).toString("base64url");

export async function orderCertificate(options: AcmeOptions): Promise<string> {
  const session = await openSession(options);
  const identifiers = options.names.map((value) => ({ type: parseIp(value) === undefined ? "dns" : "ip", value }));
  const answer = await session.post(session.directory.newOrder, { identifiers });
  const order = read(ORDER, answer);
  const orderUrl = answer.headers.get("location") ?? "";
  for (const url of order.authorizations) await authorize(session, options, url);
  await session.post(order.finalize, { csr: base64url(options.csr) });
  const ready = await poll(session, ORDER, orderUrl, "order");
  if (ready.certificate === undefined) throw new UsageError("The authority names no certificate for the order", 1);
  return new TextDecoder().decode((await session.post(ready.certificate, undefined, CERTIFICATE_BYTES)).body);
}

async function authorize(session: Session, { kind, prove, accountKey, names }: AcmeOptions, url: string) {
  const { status, identifier, challenges } = read(AUTHORIZATION, await session.post(url, undefined));
  if (status === "valid") return; // proved a short time ago
  const name = names.find((each) => each.toLowerCase() === identifier.value.toLowerCase());
  if (name === undefined)
    throw new UsageError(`The authority asks for a proof of ${identifier.value}, which was not ordered`, 1);
  const challenge = challenges.find(({ type }) => type === kind);
  if (challenge?.token === undefined)
    throw new UsageError(`The authority offers no ${kind} for ${name}: choose another with --challenge`, 1);
  const keyAuthorization = `${challenge.token}.${thumbprint(accountKey)}`;
  const remove = await prove({ name, token: challenge.token, keyAuthorization });
  try {
    await session.post(challenge.url, {});
    await poll(session, AUTHORIZATION, url, `proof of ${name}`);
  } finally {
    await remove();
  }
}

type Progress = {
  status?: string | undefined;
  error?: Problem | undefined;
  challenges?: { error?: Problem | undefined }[];
};

async function poll<T extends Progress>(session: Session, form: Outside<T>, url: string, what: string): Promise<T> {
  for (let polls = 0; polls < MOST_POLLS; polls++) {
    const answer = await session.post(url, undefined);
    const seen = read(form, answer);
    if (seen.status === "valid") return seen;
    if (seen.status === "invalid") throw new UsageError(`The authority rejects the ${what}: ${faultIn(seen)}`, 1);
    await Bun.sleep(Math.min(10, Number(answer.headers.get("retry-after")) || 0) * 1_000 || POLL_MS);
  }
  throw new UsageError(`The authority does not decide about the ${what}`, 1);
}

/** The detail of the first problem document in an authorization or order. */
const faultIn = ({ error, challenges = [] }: Progress): string =>
  (error ?? challenges.find((each) => each.error)?.error)?.detail ?? "no reason given";

/** Throws UsageError with the sender and the field. */
function read<T>(form: Outside<T>, answer: GuardedResponse): T {
  try {
    return readOutside(form, answer);
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new UsageError(`The ACME authority cannot be used: ${cause.message}`, 1, { cause });
  }
}

type Session = Awaited<ReturnType<typeof openSession>>;

async function openSession({ dial, directory: address, accountKey, email }: AcmeOptions) {
  /** The account's key signs for the authority alone, so no address of another host is used. */
  const call = async (url: string, body?: string, mostBytes = SERVING_BYTES): Promise<GuardedResponse> => {
    if (!URL.canParse(url) || new URL(url).origin !== new URL(address).origin)
      throw new UsageError(`The ACME authority names an address of another host: ${url.slice(0, 200) || "none"}`, 1);
    return await dial(url, {
      method: body === undefined ? "GET" : "POST",
      headers: { "user-agent": "verk", ...(body === undefined ? {} : { "content-type": "application/jose+json" }) },
      ...(body === undefined ? {} : { body }),
      timeoutMs: TIMEOUT_MS,
      maxResponseBytes: mostBytes,
    });
  };
  const first = await call(address);
  if (first.status !== 200)
    throw new UsageError(`${address} is not the directory of an ACME authority (status ${first.status})`, 1);
  const directory = read(DIRECTORY, first);
  let account: string | undefined;
  let nonce: string | null = null;

  /** `payload` undefined: reads (POST-as-GET). */
  const post = async (url: string, payload: unknown, mostBytes?: number): Promise<GuardedResponse> => {
    for (let tries = 1; ; tries++) {
      nonce ??= (await call(directory.newNonce)).headers.get("replay-nonce");
      const identity = account === undefined ? { jwk: jwkOf(accountKey) } : { kid: account };
      const head = base64url(JSON.stringify({ alg: "ES256", nonce, url, ...identity }));
      const text = payload === undefined ? "" : base64url(JSON.stringify(payload));
      const input = Buffer.from(`${head}.${text}`);
      const signature = base64url(sign("sha256", input, { key: accountKey, dsaEncoding: "ieee-p1363" }));
      const answer = await call(url, JSON.stringify({ protected: head, payload: text, signature }), mostBytes);
      nonce = answer.headers.get("replay-nonce");
      if (answer.status < 300 && !answer.truncated) return answer;
      const { type, detail } = problemIn(answer);
      if (type?.endsWith(":badNonce") && tries < NONCE_TRIES) continue;
      throw new UsageError(`The ACME authority answers ${answer.status}: ${detail}`, 1);
    }
  };
  const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
  const answer = await post(directory.newAccount, { termsOfServiceAgreed: true, ...contact });
  account = answer.headers.get("location") ?? undefined;
  return { directory, post };
}

function problemIn(answer: GuardedResponse): Problem {
  if (answer.truncated) return { detail: "the answer is too long" };
  const problem = tryOutside(PROBLEM, answer);
  return problem
    ? { detail: "no reason given", ...problem }
    : { detail: new TextDecoder().decode(answer.body.subarray(0, 300)) };
}

/** The members in the order that the thumbprint needs (RFC 7638). */
function jwkOf(key: KeyObject) {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: "jwk" });
  return { crv, kty, x, y };
}

const thumbprint = (key: KeyObject) =>
  createHash("sha256")
    .update(JSON.stringify(jwkOf(key)))
    .digest("base64url");
