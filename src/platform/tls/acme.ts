/**
 * A client of ACME (RFC 8555): gets a certificate from a public or private authority. `prove` shows the authority that a
 * name is ours, in the way of one kind of challenge (challenges.ts).
 */
import { createHash, createPublicKey, type KeyObject, sign } from "node:crypto";
import { UsageError } from "../../lib/errors.ts";
import { parseIp } from "../../lib/net/ip.ts";
import type { Dial } from "../network/http_client.ts";

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
const MOST_BYTES = 1_048_576;
const MOST_POLLS = 60;
const POLL_MS = 1_000;
const NONCE_TRIES = 20;

type Answer = { status: number; headers: Headers; body: Record<string, unknown>; text: string };
type Directory = { newNonce: string; newAccount: string; newOrder: string };

const base64url = (data: string | Uint8Array) => Buffer.from(data).toString("base64url");

export async function orderCertificate(options: AcmeOptions): Promise<string> {
  const session = await openSession(options);
  const identifiers = options.names.map((value) => ({ type: parseIp(value) === undefined ? "dns" : "ip", value }));
  const order = await session.post(session.directory.newOrder, { identifiers });
  const orderUrl = order.headers.get("location") ?? "";
  for (const url of texts(order.body["authorizations"])) await authorize(session, options, url);
  await session.post(String(order.body["finalize"]), { csr: base64url(options.csr) });
  const ready = await poll(session, orderUrl, "order");
  return (await session.post(String(ready["certificate"]), undefined)).text;
}

async function authorize(session: Session, { kind, prove, accountKey }: AcmeOptions, url: string) {
  const { body } = await session.post(url, undefined);
  if (body["status"] === "valid") return; // proved a short time ago
  const name = String((body["identifier"] as { value?: unknown })?.value);
  const found = (body["challenges"] as { type: string; url: string; token: string }[]).find(
    ({ type }) => type === kind,
  );
  if (!found) throw new UsageError(`The authority offers no ${kind} for ${name}: choose another with --challenge`, 1);
  const keyAuthorization = `${found.token}.${thumbprint(accountKey)}`;
  const remove = await prove({ name, token: found.token, keyAuthorization });
  try {
    await session.post(found.url, {});
    await poll(session, url, `proof of ${name}`);
  } finally {
    await remove();
  }
}

async function poll(session: Session, url: string, what: string): Promise<Record<string, unknown>> {
  for (let polls = 0; polls < MOST_POLLS; polls++) {
    const { body, headers } = await session.post(url, undefined);
    const { status } = body;
    if (status === "valid") return body;
    if (status === "invalid") throw new UsageError(`The authority rejects the ${what}: ${faultIn(body)}`, 1);
    await Bun.sleep(Math.min(10, Number(headers.get("retry-after")) || 0) * 1_000 || POLL_MS);
  }
  throw new UsageError(`The authority does not decide about the ${what}`, 1);
}

/** The detail of the first problem document in an authorization or order. */
function faultIn(body: Record<string, unknown>): string {
  const challenges = (body["challenges"] ?? []) as { error?: { detail?: string } }[];
  const error = (body["error"] as { detail?: string } | undefined) ?? challenges.find((each) => each.error)?.error;
  return error?.detail ?? "no reason given";
}

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

type Session = Awaited<ReturnType<typeof openSession>>;

async function openSession({ dial, directory: address, accountKey, email }: AcmeOptions) {
  const call = async (url: string, body?: string): Promise<Answer> => {
    const answer = await dial(url, {
      method: body === undefined ? "GET" : "POST",
      headers: { "user-agent": "verk", ...(body === undefined ? {} : { "content-type": "application/jose+json" }) },
      ...(body === undefined ? {} : { body }),
      ...{ timeoutMs: TIMEOUT_MS, maxResponseBytes: MOST_BYTES },
    });
    const text = new TextDecoder().decode(answer.body);
    const isJson = /json/.test(answer.headers.get("content-type") ?? "");
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: isJson && text !== "" ? JSON.parse(text) : {},
    };
  };
  const first = await call(address);
  const directory = first.body as unknown as Directory;
  if (first.status !== 200 || typeof directory.newOrder !== "string")
    throw new UsageError(`${address} is not the directory of an ACME authority (status ${first.status})`, 1);
  let account: string | undefined;
  let nonce: string | null = null;

  /** `payload` undefined: reads (POST-as-GET). */
  const post = async (url: string, payload: unknown): Promise<Answer> => {
    for (let tries = 1; ; tries++) {
      nonce ??= (await call(directory.newNonce)).headers.get("replay-nonce");
      const identity = account === undefined ? { jwk: jwkOf(accountKey) } : { kid: account };
      const head = base64url(JSON.stringify({ alg: "ES256", nonce, url, ...identity }));
      const text = payload === undefined ? "" : base64url(JSON.stringify(payload));
      const input = Buffer.from(`${head}.${text}`);
      const signature = base64url(sign("sha256", input, { key: accountKey, dsaEncoding: "ieee-p1363" }));
      const answer = await call(url, JSON.stringify({ protected: head, payload: text, signature }));
      nonce = answer.headers.get("replay-nonce");
      if (answer.status < 400) return answer;
      const { type, detail } = answer.body as { type?: string; detail?: string };
      if (type?.endsWith(":badNonce") && tries < NONCE_TRIES) continue;
      throw new UsageError(`The ACME authority answers ${answer.status}: ${detail ?? answer.text.slice(0, 300)}`, 1);
    }
  };
  const contact = email === undefined ? {} : { contact: [`mailto:${email}`] };
  const made = await post(directory.newAccount, { termsOfServiceAgreed: true, ...contact });
  account = made.headers.get("location") ?? undefined;
  return { directory, post };
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
