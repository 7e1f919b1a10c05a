/**
 * A hub with the Hugging Face protocol. Every redirect passes the guard. The token is sent only to the hub's own
 * origin, because files are redirected to other hosts.
 */
import { z } from "zod";
import { type Outside, outside, tryOutside } from "../../../lib/json/outside.ts";
import type { OpenedResponse } from "../../../platform/network/http_client.ts";
import { readText } from "../body.ts";
import type { Dialer } from "../dialer.ts";
import { SourceError } from "../types.ts";
import { patiently } from "./reader.ts";
import { BusyError, checkSpan, isBusy, type OpenObject, type StoredObject } from "./store.ts";

export type Hub = { endpoint: string; dataset: string; token: string | undefined; dialer: Dialer };
/** A dataset at one commit. */
export type Commit = { sha: string; files: StoredObject[] };

const MAX_HOPS = 5;
const ANSWER_BYTES = 32 * 2 ** 20;
const README_BYTES = 2 * 2 ** 20;
const MOST_FILES = 200_000;
const MOST_PAGES = 10_000;

const ABOUT = outside("the hub's revision", z.object({ sha: z.string().regex(/^[0-9a-f]{40}$/) }), {
  mostBytes: ANSWER_BYTES,
  parsing: "command",
});
const Id = z.string().max(100);
const Tree = z
  .array(
    z.object({
      type: z.string().max(50),
      path: z.string().max(4_000),
      oid: Id.default(""),
      size: z.int().min(0).default(0),
      lfs: z.object({ oid: Id, size: z.int().min(0) }).nullish(),
    }),
  )
  .max(MOST_FILES);
const TREE = outside("the hub's list of files", Tree, { mostBytes: ANSWER_BYTES, parsing: "command" });

type Got = OpenedResponse & { url: string };

async function get(hub: Hub, from: string, headers: Record<string, string>, signal: AbortSignal): Promise<Got> {
  const home = new URL(hub.endpoint).origin;
  let at = new URL(from);
  for (let hop = 0; hop <= MAX_HOPS; hop++) {
    const mine: Record<string, string> =
      hub.token !== undefined && at.origin === home ? { authorization: `Bearer ${hub.token}` } : {};
    const answer = await hub.dialer.fetch(at, { headers: { ...headers, ...mine }, signal });
    const location = [301, 302, 303, 307, 308].includes(answer.status) ? answer.headers.get("location") : null;
    if (location === null) return { ...answer, url: at.href };
    await answer.stream.cancel();
    if (!URL.canParse(location, at)) throw new SourceError("unreachable", "The hub redirects to an invalid address");
    at = new URL(location, at);
  }
  throw new SourceError("unreachable", `The hub redirects more than ${MAX_HOPS} times`);
}

async function json<T>(hub: Hub, url: string, form: Outside<T>, signal: AbortSignal) {
  const answer = await get(hub, url, { accept: "application/json" }, signal);
  const text = await readText(answer, ANSWER_BYTES);
  if (answer.status !== 200) throw refused(hub, `dataset ${hub.dataset}`, answer);
  const value = tryOutside(form, text);
  if (value === undefined)
    throw new SourceError("unreachable", `The hub's answer about ${hub.dataset} cannot be read. Try again later`);
  return { value, headers: answer.headers };
}

/** Returns the current commit of a revision, and its files. */
export async function readCommit(hub: Hub, revision: string, signal: AbortSignal): Promise<Commit> {
  const base = `${hub.endpoint}/api/datasets/${hub.dataset}`;
  const about = `${base}/revision/${encodeURIComponent(revision)}`;
  const { sha } = (await patiently(signal, () => json(hub, about, ABOUT, signal))).value;
  const files: StoredObject[] = [];
  let url: string | undefined = `${base}/tree/${sha}?recursive=true&expand=false`;
  for (let pages = 1; url !== undefined; pages++) {
    const here: string = url;
    const { value, headers } = await patiently(signal, () => json(hub, here, TREE, signal));
    for (const { type, path, oid, size, lfs } of value)
      if (type === "file") files.push({ key: path, etag: lfs?.oid ?? oid, bytes: lfs?.size ?? size });
    if (files.length > MOST_FILES || pages > MOST_PAGES)
      throw new SourceError(
        "invalid_source",
        `${hub.dataset} has more than ${MOST_FILES} files, the maximum`,
        "/hub_dataset",
      );
    url = nextOf(headers.get("link"), here);
  }
  return { sha, files };
}

/** Follows a link only on the hub itself. */
function nextOf(link: string | null, here: string): string | undefined {
  const target = /<([^>]+)>\s*;\s*rel="?next"?/.exec(link ?? "")?.[1];
  if (target === undefined || !URL.canParse(target, here)) return undefined;
  const next = new URL(target, here);
  return next.origin === new URL(here).origin ? next.href : undefined;
}

export async function readReadme(hub: Hub, { sha, files }: Commit, signal: AbortSignal): Promise<string> {
  if (!files.some(({ key }) => key === "README.md")) return "";
  return await patiently(signal, async () => {
    const answer = await get(hub, fileUrl(hub, sha, "README.md"), {}, signal);
    const text = await readText(answer, README_BYTES);
    if (answer.status !== 200) throw refused(hub, `README.md of ${hub.dataset}`, answer);
    return text;
  });
}

/** Opens files of one commit. The target of a redirect is reused until it expires. */
export function openFiles(hub: Hub, shaOf: () => string): OpenObject {
  const locations = new Map<string, string>();
  return async (object, span, signal) => {
    const first = fileUrl(hub, shaOf(), object.key);
    const range = { range: `bytes=${span.from}-${span.to - 1}` };
    const location = locations.get(object.key);
    let answer = await get(hub, location ?? first, range, signal);
    if (location !== undefined && ![200, 206].includes(answer.status)) {
      await answer.stream.cancel();
      answer = await get(hub, first, range, signal); // the address had expired
    }
    const what = `${object.key} of ${hub.dataset}`;
    if (answer.status !== 200 && answer.status !== 206) {
      await answer.stream.cancel();
      throw refused(hub, what, answer);
    }
    locations.set(object.key, answer.url);
    checkSpan(answer, object, span, what);
    return answer;
  };
}

const fileUrl = ({ endpoint, dataset }: Hub, sha: string, path: string) =>
  `${endpoint}/datasets/${dataset}/resolve/${sha}/${path.split("/").map(encodeURIComponent).join("/")}`;

/** Turns an error response into a message. The hub explains it in a header; unknown values are not repeated. */
function refused(hub: Hub, what: string, { status, headers }: OpenedResponse): SourceError {
  const code = headers.get("x-error-code");
  if (code === "GatedRepo")
    return new SourceError(
      "unauthorized",
      `The hub gives ${what} only to users who accepted its terms. Accept them on the hub and set hub_config.token to a token that may read it`,
      "/hub_config/token",
    );
  if (code === "RevisionNotFound")
    return new SourceError(
      "not_found",
      `${hub.dataset} has no such revision. Check hub_config.revision`,
      "/hub_config/revision",
    );
  if (status === 401 || status === 403)
    return new SourceError(
      "unauthorized",
      hub.token === undefined
        ? `The hub rejects ${what} (${status}): it does not exist, or is private and needs hub_config.token`
        : `The hub rejects ${what} (${status}): it does not exist, or the token may not read it`,
      "/hub_config/token",
    );
  if (status === 404) return new SourceError("not_found", `The hub has no ${what}`, "/hub_dataset");
  if (isBusy(status)) return new BusyError(`The hub answered ${status} for ${what}. Try again later`);
  return new SourceError("unreachable", `The hub answered ${status} for ${what}`);
}
