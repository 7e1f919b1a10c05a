/**
 * The calls of a push, in the protocol of Hugging Face: make the repository, ask how each file is taken, send large files
 * to the large-file store, commit. Every address goes through the guard. The token is sent to the hub's origin alone.
 */
import type { Ctx } from "../../../context.ts";
import { type Outside, OutsideError, tryOutside } from "../../../lib/json/outside.ts";
import { KIB } from "../../../lib/units.ts";
import { DialError } from "../../../platform/network/address.ts";
import type { GuardedResponse } from "../../../platform/network/http_client.ts";
import { readAside } from "../../../platform/outside.ts";
import { HubError } from "../../serving/models/hub/hub.ts";
import { BATCH, COMMITTED, PREUPLOAD, REFUSAL } from "./forms.ts";
import { timeoutFor } from "./policy.ts";
import type { SentFile } from "./table.ts";

export type Hub = { ctx: Ctx; workspaceId: string; repo: string; token: string; signal: AbortSignal };
type Body = string | Blob;
type Call = {
  method?: "POST" | "PUT";
  body: Body;
  type?: string;
  headers?: Record<string, string>;
  mostBytes?: number;
};

const BRANCH = "main";
const LFS = "application/vnd.git-lfs+json";
const JSON_TYPE = "application/json";

const endpoint = ({ ctx }: Hub) => ctx.config.hub.endpoint.replace(/\/+$/, "");

async function send(hub: Hub, url: string, { method = "POST", body, type, headers, mostBytes }: Call) {
  const { ctx, token, signal } = hub;
  const home = new URL(ctx.config.hub.endpoint);
  if (!URL.canParse(url)) throw new HubError("The hub names an invalid address for an upload", false);
  const at = new URL(url);
  const bytes = typeof body === "string" ? body.length : body.size;
  try {
    return await ctx.dial(at, {
      method,
      body,
      headers: {
        ...headers,
        ...(type === undefined ? {} : { "content-type": type, accept: type }),
        ...(at.origin === home.origin ? { authorization: `Bearer ${token}` } : {}),
      },
      timeoutMs: timeoutFor(bytes),
      maxResponseBytes: mostBytes ?? 64 * KIB,
      allowHttp: home.protocol === "http:",
      signal,
    });
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    const fix = error.code === "address_refused" ? ` (add ${at.hostname} to network.allow if you trust it)` : "";
    const isPassing = error.code !== "address_refused" && error.code !== "tls";
    throw new HubError(`${at.host}: ${error.message}${fix}`, isPassing, { cause: error });
  }
}

const REASON_CHARACTERS = 300;

function refusal({ repo }: Hub, doing: string, answer: GuardedResponse): HubError {
  const { status } = answer;
  const said = tryOutside(REFUSAL, answer)?.error.slice(0, REASON_CHARACTERS);
  const reason = said === undefined ? "" : `: ${said}`;
  if (status === 401 || status === 403)
    return new HubError(
      `The hub does not let this token ${doing} ${repo} (${status})${reason}. Store a token that may write there as the secret HUB_TOKEN of this workspace`,
      false,
    );
  const isPassing = status === 408 || status === 409 || status === 429 || status >= 500;
  return new HubError(
    `The hub answered ${status} when asked to ${doing} ${repo}${reason}`,
    isPassing && status !== 507,
  );
}

async function ask<T>(hub: Hub, form: Outside<T>, url: string, doing: string, call: Call): Promise<T> {
  const answer = await send(hub, url, { ...call, mostBytes: form.mostBytes });
  if (answer.status < 200 || answer.status >= 300) throw refusal(hub, doing, answer);
  try {
    return await readAside(form, answer, { workspaceId: hub.workspaceId, signal: hub.signal });
  } catch (error) {
    throw error instanceof OutsideError ? new HubError(error.message, false, { cause: error }) : error;
  }
}

/** A repository that exists is used as it is. */
export async function createRepo(hub: Hub, isPrivate: boolean): Promise<void> {
  const [organization, name] = hub.repo.split("/");
  const body = JSON.stringify({ type: "model", name, organization, private: isPrivate });
  const answer = await send(hub, `${endpoint(hub)}/api/repos/create`, { body, type: JSON_TYPE });
  if (answer.status === 409 || (answer.status >= 200 && answer.status < 300)) return;
  throw refusal(hub, "create", answer);
}

export type NewFile = { path: string; size: number; sample: Uint8Array };
const FILES_AT_ONCE = 100;

/** Paths that the hub keeps in its large-file store; the others are part of the commit. */
export async function largeOf(hub: Hub, files: readonly NewFile[]): Promise<Set<string>> {
  const large = new Set<string>();
  for (let i = 0; i < files.length; i += FILES_AT_ONCE) {
    const some = files.slice(i, i + FILES_AT_ONCE);
    const body = JSON.stringify({
      files: some.map(({ path, size, sample }) => ({ path, size, sample: Buffer.from(sample).toString("base64") })),
    });
    const url = `${endpoint(hub)}/api/models/${hub.repo}/preupload/${BRANCH}`;
    const answer = await ask(hub, PREUPLOAD, url, "take files of", { body, type: JSON_TYPE });
    for (const { path } of some) {
      const mode = answer.files.find((each) => each.path === path)?.uploadMode;
      if (mode === undefined) throw new HubError(`The hub does not say how it takes ${path}`, false);
      if (mode === "lfs") large.add(path);
    }
  }
  return large;
}

/** `parts` is empty for an upload in one piece. */
export type Target = {
  href: string;
  headers: Record<string, string>;
  parts: string[];
  partBytes: number;
  verify: string | undefined;
};

/** Undefined: the hub has the content already. */
export async function targetFor(hub: Hub, { sha256: oid, size }: SentFile): Promise<Target | undefined> {
  const body = JSON.stringify({
    operation: "upload",
    transfers: ["basic", "multipart"],
    objects: [{ oid, size }],
    hash_algo: "sha256",
    ref: { name: BRANCH },
  });
  const url = `${endpoint(hub)}/${hub.repo}.git/info/lfs/objects/batch`;
  const { objects } = await ask(hub, BATCH, url, "take large files of", { body, type: LFS });
  const [object] = objects;
  if (object?.oid !== oid || object.size !== size)
    throw new HubError("The hub answers about another file than the one that is sent", false);
  if (object.error) throw new HubError(`The hub refuses a file of ${hub.repo}: ${object.error.message}`, false);
  const upload = object.actions?.upload;
  if (!upload) return undefined;
  const header = Object.entries(upload.header ?? {}).map(([name, value]) => [name, String(value)] as const);
  const numbered = header.filter(([name]) => /^\d+$/.test(name)).sort(([a], [b]) => Number(a) - Number(b));
  const partBytes = Number(header.find(([name]) => name === "chunk_size")?.[1] ?? 0);
  if (partBytes > 0 && numbered.length !== Math.ceil(size / partBytes))
    throw new HubError("The hub gives another number of addresses than the file has parts", false);
  return {
    href: upload.href,
    headers: partBytes > 0 ? {} : Object.fromEntries(header),
    parts: partBytes > 0 ? numbered.map(([, href]) => href) : [],
    partBytes,
    verify: object.actions?.verify?.href,
  };
}

export async function putWhole(hub: Hub, { href, headers }: Target, body: Blob): Promise<void> {
  const answer = await send(hub, href, { method: "PUT", body, headers });
  if (answer.status < 200 || answer.status >= 300) throw storeRefusal(answer);
}

/** Returns the mark that proves the part. */
export async function putPart(hub: Hub, href: string, body: Blob): Promise<string> {
  const answer = await send(hub, href, { method: "PUT", body });
  if (answer.status < 200 || answer.status >= 300) throw storeRefusal(answer);
  const etag = answer.headers.get("etag");
  if (etag === null || etag.length > 300) throw new HubError("The store of the hub gave no mark for a part", true);
  return etag;
}

/** An address may have ended: the next try gets new ones. */
const storeRefusal = ({ status }: GuardedResponse) =>
  new HubError(`The store of the hub answered ${status} to an upload`, status !== 507);

type Parts = { oid: string; href: string; etags: readonly string[] };

export async function finishParts(hub: Hub, { oid, href, etags }: Parts): Promise<void> {
  const parts = etags.map((etag, i) => ({ partNumber: i + 1, etag }));
  const answer = await send(hub, href, { body: JSON.stringify({ oid, parts }), type: LFS });
  if (answer.status < 200 || answer.status >= 300) throw storeRefusal(answer);
}

export async function verify(hub: Hub, url: string, { sha256: oid, size }: SentFile): Promise<void> {
  const answer = await send(hub, url, { body: JSON.stringify({ oid, size }), type: LFS });
  if (answer.status < 200 || answer.status >= 300)
    throw new HubError(`The hub could not verify an uploaded file (${answer.status})`, true);
}

export type Commit = {
  title: string;
  small: readonly { path: string; content: Uint8Array }[];
  large: readonly SentFile[];
};

/** Returns the id of the commit. */
export async function commit(hub: Hub, { title, small, large }: Commit): Promise<string> {
  const lines = [
    { key: "header", value: { summary: title, description: "" } },
    ...small.map(({ path, content }) => ({
      key: "file",
      value: { path, encoding: "base64", content: Buffer.from(content).toString("base64") },
    })),
    ...large.map(({ path, sha256, size }) => ({ key: "lfsFile", value: { path, algo: "sha256", oid: sha256, size } })),
  ];
  const body = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const url = `${endpoint(hub)}/api/models/${hub.repo}/commit/${BRANCH}`;
  const answer = await ask(hub, COMMITTED, url, "commit to", { body, type: "application/x-ndjson" });
  return answer.commitOid;
}

export const repoUrl = (hub: Pick<Hub, "ctx" | "repo">) =>
  `${hub.ctx.config.hub.endpoint.replace(/\/+$/, "")}/${hub.repo}`;
