/** Proofs for an ACME authority: a file over HTTP (http-01), or a certificate in the handshake (tls-alpn-01). */
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createServer } from "node:tls";
import { UsageError } from "../../lib/errors.ts";
import { formatListen, type Listen } from "../../lib/net/listen.ts";
import { noSniff } from "../../lib/net/no_sniff.ts";
import { pathOf } from "../../lib/net/request_target.ts";
import { writeFileAtomicSync } from "../files.ts";
import type { Prove } from "./acme.ts";
import type { Issued } from "./issue.ts";

const PREFIX = "/.well-known/acme-challenge/";
const TOKEN = /^[\w-]{16,200}$/;
const folderIn = (dataDir: string) => join(dataDir, "tls", "challenges");

/** The answer to a request of an authority; undefined: the request is another. The running server uses it too. */
export function challengeAnswer(dataDir: string, path: string): string | undefined {
  const token = path.startsWith(PREFIX) ? path.slice(PREFIX.length) : "";
  if (!TOKEN.test(token)) return undefined;
  try {
    return readFileSync(join(folderIn(dataDir), token), "utf8");
  } catch {
    return undefined;
  }
}

/** Puts the answer where `challengeAnswer` finds it. */
export function proveByFile(dataDir: string): Prove {
  return async ({ token, keyAuthorization }) => {
    if (!TOKEN.test(token)) throw new UsageError("The authority sent a token that is not base64url", 1);
    const folder = folderIn(dataDir);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileAtomicSync(join(folder, token), keyAuthorization);
    return () => rmSync(join(folder, token), { force: true });
  };
}

/** The port of the challenges, where no server listens. */
export function serveChallenges(dataDir: string, at: Listen): () => Promise<void> {
  const fetch = (request: Request) => {
    const answer = challengeAnswer(dataDir, pathOf(request));
    return noSniff(new Response(answer ?? "Not found", { status: answer === undefined ? 404 : 200 }));
  };
  const server = opened(at, () => Bun.serve({ ...at, fetch, reusePort: false }));
  return () => server.stop(true);
}

/** `certify` makes the self-signed certificate with the proof. Nothing else may listen on the port. */
export function proveByHandshake(
  at: Listen,
  certify: (name: string, keyAuthorization: string) => Promise<Issued>,
): Prove {
  return async ({ name, keyAuthorization }) => {
    const { cert, key } = await certify(name, keyAuthorization);
    const server = createServer({ cert, key, ALPNProtocols: ["acme-tls/1"] }, (socket) => socket.end());
    server.on("tlsClientError", () => {}); // other clients knock too
    const listening = Promise.withResolvers<void>();
    server.once("error", listening.reject);
    server.listen(at.port, at.hostname, () => listening.resolve());
    await listening.promise.catch((error: unknown) => opened(at, () => raise(error)));
    return () => void server.close();
  };
}

function raise(error: unknown): never {
  throw error;
}

function opened<T>(at: Listen, open: () => T): T {
  try {
    return open();
  } catch (cause) {
    throw new UsageError(`Cannot listen on ${formatListen(at)} for the proof (${(cause as Error).message})`, 1, {
      cause,
    });
  }
}
