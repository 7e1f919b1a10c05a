/**
 * The writing half of the Hugging Face protocol, for `startFakeHub`: repositories are made, large files go to a store in
 * one piece or in parts, and a commit puts the files into the repository. Everything that is wrong is refused, as by a hub.
 */
import { createHash } from "node:crypto";
import { type FakeRepo, hashOf } from "./fake_hub.ts";

export type PushRules = {
  /** The token that may write. */
  token: string;
  /** Files from this size on go to the store of large files. */
  largeFrom?: number;
  /** Larger ones are sent in parts of this size. */
  partBytes?: number;
  /** Keeps other bytes than those that were sent. */
  damages?: (path: string) => boolean;
};
type Step = "create" | "preupload" | "batch" | "put" | "finish" | "verify" | "commit";

export function takesPushes(
  repos: Record<string, FakeRepo>,
  { token, largeFrom = 1_000, partBytes, damages }: PushRules,
) {
  const store = new Map<string, Uint8Array>();
  const parts = new Map<string, Uint8Array>();
  const state = {
    repos,
    store,
    /** Requests in their order. */
    steps: [] as Step[],
    visibility: new Map<string, boolean>(),
    commits: [] as { repo: string; summary: string; paths: string[] }[],
    /** May replace the answer. `count`: requests of this kind before. */
    trouble: undefined as ((step: Step, count: number, request: Request) => Response | undefined) | undefined,
    authorizations: new Set<string | null>(),
  };
  const refuse = (status: number, error: string) => Response.json({ error }, { status });
  const note = (step: Step, request: Request) => {
    const count = state.steps.filter((each) => each === step).length;
    state.steps.push(step);
    return state.trouble?.(step, count, request);
  };
  const isAllowed = (request: Request) => request.headers.get("authorization") === `Bearer ${token}`;

  async function create(request: Request): Promise<Response> {
    const { name, organization, private: isPrivate } = (await request.json()) as Record<string, string>;
    const repo = `${organization}/${name}`;
    if (repos[repo]) return refuse(409, "You already created this model repo");
    repos[repo] = { files: {} };
    state.visibility.set(repo, Boolean(isPrivate));
    return Response.json({ url: `https://hub/${repo}`, name: repo });
  }

  async function preupload(request: Request): Promise<Response> {
    const { files } = (await request.json()) as { files: { path: string; size: number; sample: string }[] };
    for (const { sample, size } of files)
      if (Buffer.from(sample, "base64").length !== Math.min(512, size)) return refuse(400, "the sample is wrong");
    const modeOf = ({ path, size }: { path: string; size: number }) =>
      size >= largeFrom || /\.(gguf|safetensors)$/.test(path) ? "lfs" : "regular";
    return Response.json({
      files: files.map((file) => ({ path: file.path, uploadMode: modeOf(file), shouldIgnore: false })),
    });
  }

  async function batch(request: Request, repo: string): Promise<Response> {
    if (request.headers.get("content-type") !== "application/vnd.git-lfs+json") return refuse(415, "not LFS");
    const { objects } = (await request.json()) as { objects: { oid: string; size: number }[] };
    const origin = new URL(request.url).origin;
    const of = ({ oid, size }: { oid: string; size: number }) => {
      if (store.has(oid)) return { oid, size };
      const verify = { href: `${origin}/${repo}.git/info/lfs/verify`, header: {} };
      const count = partBytes === undefined || size <= partBytes ? 0 : Math.ceil(size / partBytes);
      if (count === 0)
        return {
          oid,
          size,
          actions: { upload: { href: `${origin}/store/${oid}`, header: { "x-mark": "1" } }, verify },
        };
      const addresses = Array.from({ length: count }, (_, i) => [
        String(i + 1).padStart(5, "0"),
        `${origin}/parts/${oid}/${i + 1}?sig=s`,
      ]);
      const header = { chunk_size: String(partBytes), ...Object.fromEntries(addresses) };
      return { oid, size, actions: { upload: { href: `${origin}/finish/${oid}`, header }, verify } };
    };
    return Response.json({ transfer: "basic", objects: objects.map(of) });
  }

  async function finish(request: Request, oid: string): Promise<Response> {
    const body = (await request.json()) as { oid: string; parts: { partNumber: number; etag: string }[] };
    const pieces = body.parts.map(({ partNumber, etag }) => {
      const bytes = parts.get(`${oid}/${partNumber}`);
      return bytes && etag === `"${hashOf(bytes).slice(0, 32)}"` ? bytes : undefined;
    });
    if (pieces.some((piece) => piece === undefined)) return refuse(400, "a part is missing");
    return keep(oid, Buffer.concat(pieces as Uint8Array[]));
  }

  function keep(oid: string, bytes: Uint8Array): Response {
    if (hashOf(bytes) !== oid) return refuse(400, "the content has another hash");
    store.set(oid, bytes);
    return Response.json({});
  }

  async function put(request: Request, path: string): Promise<Response> {
    const bytes = await request.bytes();
    if (path.startsWith("/store/")) {
      if (request.headers.get("x-mark") !== "1") return refuse(400, "a header of the address is missing");
      return keep(path.slice("/store/".length), bytes);
    }
    if (bytes.length > (partBytes ?? 0)) return refuse(400, "the part is too long");
    parts.set(path.slice("/parts/".length), bytes);
    return new Response(null, { headers: { etag: `"${hashOf(bytes).slice(0, 32)}"` } });
  }

  async function verify(request: Request): Promise<Response> {
    const { oid, size } = (await request.json()) as { oid: string; size: number };
    return store.get(oid)?.length === size ? Response.json({}) : refuse(404, "no such object");
  }

  async function commit(request: Request, repo: FakeRepo, name: string): Promise<Response> {
    if (request.headers.get("content-type") !== "application/x-ndjson") return refuse(415, "not NDJSON");
    const lines = (await request.text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    if (lines[0]?.key !== "header" || !lines[0].value.summary) return refuse(400, "no header");
    const files: Record<string, Uint8Array> = {};
    for (const { key, value } of lines.slice(1)) {
      const bytes = key === "file" ? new Uint8Array(Buffer.from(value.content, "base64")) : store.get(value.oid);
      if (!bytes || (key === "lfsFile" && bytes.length !== value.size))
        return refuse(400, `${value.path} was not uploaded`);
      files[value.path] = damages?.(value.path) ? new Uint8Array([...bytes.slice(1), 0]) : bytes;
      if (key === "file") repo.inGit = [...new Set([...(repo.inGit ?? []), value.path])];
    }
    Object.assign(repo.files, files);
    state.commits.push({ repo: name, summary: lines[0].value.summary, paths: Object.keys(files) });
    const commitOid = createHash("sha1").update(String(state.commits.length)).digest("hex");
    return Response.json({ success: true, commitOid, commitUrl: `https://hub/${name}/commit/${commitOid}` });
  }

  /** Undefined: the request is one of the reading half. */
  async function answer(request: Request): Promise<Response | undefined> {
    const { pathname } = new URL(request.url);
    if (request.method === "GET") return undefined;
    state.authorizations.add(request.headers.get("authorization"));
    const isStore = /^\/(store|parts)\//.test(pathname);
    const wrong =
      isStore || pathname.startsWith("/finish/") || isAllowed(request) ? undefined : refuse(401, "Invalid token");
    if (pathname === "/api/repos/create") return note("create", request) ?? wrong ?? (await create(request));
    if (isStore) return note("put", request) ?? (await put(request, pathname));
    if (pathname.startsWith("/finish/"))
      return note("finish", request) ?? (await finish(request, pathname.slice("/finish/".length)));
    const [, name = ""] = /^\/(?:api\/models\/)?([^/]+\/[^/]+?)(?:\.git)?\//.exec(pathname) ?? [];
    const repo = repos[name];
    if (!repo) return wrong ?? refuse(404, "Repository not found");
    if (pathname.endsWith("/preupload/main")) return note("preupload", request) ?? wrong ?? (await preupload(request));
    if (pathname.endsWith("/objects/batch")) return note("batch", request) ?? wrong ?? (await batch(request, name));
    if (pathname.endsWith("/lfs/verify")) return note("verify", request) ?? wrong ?? (await verify(request));
    if (pathname.endsWith("/commit/main"))
      return note("commit", request) ?? wrong ?? (await commit(request, repo, name));
    return refuse(404, "Not found");
  }
  return Object.assign(state, { answer });
}

export const gitBlob = (bytes: Uint8Array) =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
