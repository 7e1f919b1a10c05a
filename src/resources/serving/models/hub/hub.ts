/**
 * Client of a hub with the Hugging Face protocol: lists the files of a repository. Every hop goes through
 * the address guard. A token is sent to the origin of the endpoint only.
 */
import type { Ctx } from "../../../../context.ts";
import { OutsideError } from "../../../../lib/json/outside.ts";
import { DialError } from "../../../../platform/network/address.ts";
import type { GuardedResponse } from "../../../../platform/network/http_client.ts";
import { readAside } from "../../../../platform/outside.ts";
import { HUB_LISTING } from "./listing.ts";

/** `sha256` is null for a file that the hub keeps in git; `blobId` then identifies its content. */
export type HubFile = { path: string; size: number; sha256: string | null; blobId?: string | undefined };

/** `passing`: a retry may succeed (the network, an overloaded hub). */
export class HubError extends Error {
  constructor(
    message: string,
    readonly passing: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "HubError";
  }
}

const MAX_HOPS = 5;
const LIST_MS = 60_000;

export type Access = { token: string | undefined; signal?: AbortSignal | undefined };
export type RequestOptions = Access & { range?: string; timeoutMs: number; maxBytes: number };
export type HubResponse = GuardedResponse & { url: string };

/** GET that follows redirects. Returns an answer of any other status. */
export async function get(ctx: Ctx, url: string, options: RequestOptions): Promise<HubResponse> {
  const home = new URL(ctx.config.hub.endpoint);
  let at = new URL(url);
  for (let hop = 0; hop <= MAX_HOPS; hop++) {
    const answer = await dial(ctx, at, home, options);
    const location = [301, 302, 303, 307, 308].includes(answer.status) ? answer.headers.get("location") : null;
    if (location === null) return { ...answer, url: at.href };
    if (!URL.canParse(location, at)) throw new HubError("The hub redirects to an invalid address", false);
    at = new URL(location, at);
  }
  throw new HubError(`The hub redirects more than ${MAX_HOPS} times`, false);
}

async function dial(ctx: Ctx, at: URL, home: URL, { token, range, timeoutMs, maxBytes, signal }: RequestOptions) {
  const headers = {
    ...(token !== undefined && at.origin === home.origin ? { authorization: `Bearer ${token}` } : {}),
    ...(range === undefined ? {} : { range }),
  };
  const allowHttp = home.protocol === "http:";
  try {
    const more = { timeoutMs, maxResponseBytes: maxBytes, allowHttp, ...(signal ? { signal } : {}) };
    return await ctx.dial(at, { headers, ...more });
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    const fix = error.code === "address_refused" ? ` (add ${at.hostname} to network.allow if you trust it)` : "";
    const passing = error.code !== "address_refused" && error.code !== "tls";
    throw new HubError(`${at.host}: ${error.message}${fix}`, passing, { cause: error });
  }
}

/** The error for an answer without the file. */
export function refusal(what: string, { status, headers }: GuardedResponse): HubError {
  if (status === 401 || status === 403)
    return new HubError(
      `The hub refuses ${what} (${status}): it does not exist, is private or is gated. Accept its terms on the hub and store a token that may read it as the secret HUB_TOKEN of this workspace, or ask the operator to set hub.token and hub.token_for`,
      false,
    );
  if (status === 404) return new HubError(`The hub has no ${what}`, false);
  const passing = status === 408 || status === 429 || status >= 500;
  const later = headers.get("retry-after") === null ? "" : `, retry after ${headers.get("retry-after")}`;
  return new HubError(`The hub answered ${status} for ${what}${later}`, passing);
}

type Reader = Access & { workspaceId: string };

export async function listFiles(ctx: Ctx, repo: string, { workspaceId, ...access }: Reader): Promise<HubFile[]> {
  const url = `${base(ctx)}/api/models/${repo}?blobs=true`;
  const answer = await get(ctx, url, { ...access, timeoutMs: LIST_MS, maxBytes: HUB_LISTING.mostBytes });
  if (answer.status !== 200) throw refusal(`repository ${repo}`, answer);
  const { signal } = access;
  const caller = { workspaceId, ...(signal ? { signal } : {}) };
  const listing = await readAside(HUB_LISTING, answer, caller).catch((cause: unknown) => {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new HubError(`The hub sent an invalid file list for ${repo}: ${cause.message}`, false, { cause });
  });
  return listing.siblings.map(({ rfilename, size, blobId, lfs }) => ({
    path: rfilename,
    size: lfs?.size ?? size ?? 0,
    sha256: lfs?.sha256 ?? null,
    blobId: blobId ?? undefined,
  }));
}

export const fileUrl = (ctx: Ctx, repo: string, path: string) =>
  `${base(ctx)}/${repo}/resolve/main/${path.split("/").map(encodeURIComponent).join("/")}`;

const base = (ctx: Ctx) => ctx.config.hub.endpoint.replace(/\/+$/, "");
