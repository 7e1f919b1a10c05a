import { gitBlob } from "./fake_hub_pushes.ts";

/** A hub on a free port: the listing and the ranges of the Hugging Face protocol, and their failures. */
export type FakeRepo = {
  files: Record<string, Uint8Array>;
  /** Files whose listed sha256 is wrong. */
  wrongHash?: readonly string[];
  /** Files that the hub keeps in git: they are listed without a sha256. */
  inGit?: readonly string[];
  /** Files that are refused without the right to read them. */
  gated?: readonly string[];
  /** The token that requests must have. */
  token?: string;
};
type Answer = Response | undefined | Promise<Response | undefined>;

/** `pushes`: takes new files too (`takesPushes`). */
type Writing = { answer: (request: Request) => Promise<Response | undefined> };

export function startFakeHub(repos: Record<string, FakeRepo>, pushes?: Writing) {
  const requests: { path: string; range: string | null; authorization: string | null }[] = [];
  const hub = {
    requests,
    /** May replace the answer to a request for a file's bytes. `count`: such requests before this one. */
    trouble: undefined as ((count: number, request: Request) => Answer) | undefined,
    /** The target of redirects of downloads. */
    redirect: undefined as string | undefined,
    downloads: 0,
    url: "",
    stop: () => server.stop(true),
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const { headers } = request;
      const written = await pushes?.answer(request);
      if (written) return written;
      requests.push({ path: pathname, range: headers.get("range"), authorization: headers.get("authorization") });
      const [repoName = "", file] = pathname.replace(/^\/(api\/models\/)?/, "").split("/resolve/main/");
      const repo = repos[repoName];
      if (!repo) return Response.json({ error: "Repository not found" }, { status: 404 });
      if (repo.token !== undefined && headers.get("authorization") !== `Bearer ${repo.token}`)
        return Response.json({ error: "Access to this model is restricted" }, { status: 401 });
      if (pathname.startsWith("/api/models/")) return listing(repoName, repo);
      const bytes = repo.files[decodeURIComponent(file ?? "")];
      if (!bytes) return new Response("Entry not found", { status: 404 });
      if (repo.gated?.includes(file ?? "")) return Response.json({ error: "Access is restricted" }, { status: 403 });
      const count = hub.downloads++;
      const answer = await hub.trouble?.(count, request);
      if (answer) return answer;
      if (hub.redirect !== undefined) return Response.redirect(hub.redirect + pathname, 302);
      return ranged(bytes, headers.get("range"));
    },
  });
  hub.url = server.url.origin;
  return hub;
}

function listing(id: string, { files, wrongHash, inGit }: FakeRepo): Response {
  const siblings = Object.entries(files).map(([rfilename, bytes]) => {
    const sha256 = wrongHash?.includes(rfilename) ? "0".repeat(64) : hashOf(bytes);
    if (inGit?.includes(rfilename)) return { rfilename, size: bytes.byteLength, blobId: gitBlob(bytes) };
    return { rfilename, size: bytes.byteLength, lfs: { sha256, size: bytes.byteLength, pointerSize: 134 } };
  });
  const readme = "README.md" in files ? [] : [{ rfilename: "README.md", size: 10 }];
  return Response.json({ id, sha: "a".repeat(40), siblings: [...readme, ...siblings] });
}

export function ranged(bytes: Uint8Array, range: string | null): Response {
  const match = /^bytes=(\d+)-(\d+)$/.exec(range ?? "");
  if (!match) return new Response(bytes.slice());
  const [from, to] = [Number(match[1]), Math.min(Number(match[2]), bytes.byteLength - 1)];
  const headers = { "content-range": `bytes ${from}-${to}/${bytes.byteLength}` };
  return new Response(bytes.slice(from, to + 1), { status: 206, headers });
}

export const hashOf = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
