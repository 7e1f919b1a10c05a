/**
 * A hub on a free port of this machine with the Hugging Face protocol: datasets at commits, trees in pages, files
 * redirected to another host. hf.test.ts verifies it with @huggingface/hub.
 */
export type FakeDataset = {
  files: Record<string, string | Uint8Array>;
  /** Requires this token. */
  token?: string;
  /** Its terms must be accepted first. */
  gated?: boolean;
};

const PAGE = 3;
const hex = (text: string | Uint8Array, kind: "sha1" | "sha256" = "sha256") =>
  new Bun.CryptoHasher(kind).update(text).digest("hex");
const bytesOf = (content: string | Uint8Array) => Buffer.from(content as string);

export function startFakeHf(datasets: Record<string, FakeDataset>) {
  const state = { signature: "MARKED-signature-1", storePort: 0 };
  const requests: { at: "hub" | "store"; path: string; authorization: string | null }[] = [];
  const log = (at: "hub" | "store", request: Request) =>
    requests.push({ at, path: new URL(request.url).pathname, authorization: request.headers.get("authorization") });

  /** The host of large files. It rejects a foreign Authorization and requires its own signature. */
  const store = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      log("store", request);
      const { pathname, searchParams } = new URL(request.url);
      if (request.headers.has("authorization") || searchParams.get("signature") !== state.signature)
        return new Response("<Error/>", { status: 403 });
      const [, dataset = "", path = ""] = /^\/(.+?)\/-\/(.+)$/.exec(decodeURIComponent(pathname)) ?? [];
      const bytes = bytesOf(datasets[dataset]?.files[path] ?? "");
      return ranged(bytes, request, { etag: `"${hex(bytes)}"` });
    },
  });

  state.storePort = store.port ?? 0;

  const shaOf = (dataset: FakeDataset) => hex(Object.keys(dataset.files).join("\n"), "sha1");
  const failure = (status: number, code: string) =>
    Response.json({ error: code }, { status, headers: { "x-error-code": code } });

  function files(name: string, dataset: FakeDataset, path: string, request: Request): Response {
    const content = dataset.files[path];
    if (content === undefined) return failure(404, "EntryNotFound");
    const headers = { etag: `"${hex(content)}"`, "x-linked-size": `${bytesOf(content).byteLength}` };
    if (path.endsWith(".md")) return ranged(bytesOf(content), request, headers);
    const location = `http://localhost:${state.storePort}/${name}/-/${encodeURIComponent(path)}?signature=${state.signature}`;
    return new Response(null, { status: 302, headers: { ...headers, location } });
  }

  function tree(name: string, dataset: FakeDataset, { searchParams, origin }: URL): Response {
    const from = Number(searchParams.get("cursor") ?? 0);
    const all = Object.entries(dataset.files).map(([path, content]) => {
      const size = bytesOf(content).byteLength;
      const lfs = path.endsWith(".md") ? {} : { lfs: { oid: hex(content), size, pointerSize: 130 } };
      return { type: "file", path, size, oid: hex(content, "sha1"), ...lfs };
    });
    const folders = [{ type: "directory", path: "data", size: 0, oid: hex("data", "sha1") }];
    const entries = [...folders, ...all];
    const next = `${origin}/api/datasets/${name}/tree/${shaOf(dataset)}?recursive=true&cursor=${from + PAGE}`;
    const headers: Record<string, string> = from + PAGE < entries.length ? { link: `<${next}>; rel="next"` } : {};
    return Response.json(entries.slice(from, from + PAGE), { headers });
  }

  const hub = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      log("hub", request);
      const url = new URL(request.url);
      const [, api, name = "", verb, rest = ""] =
        /^\/(api\/)?datasets\/(.+?)\/(revision|tree|resolve)\/(.+)$/.exec(url.pathname) ?? [];
      const dataset = datasets[name];
      if (!dataset) return failure(401, "RepoNotFound"); // the hub hides which datasets exist
      if (dataset.gated) return failure(403, "GatedRepo");
      if (dataset.token !== undefined && request.headers.get("authorization") !== `Bearer ${dataset.token}`)
        return failure(401, "RepoNotFound");
      const [revision = "", ...path] = rest.split("/");
      if (!["main", shaOf(dataset)].includes(decodeURIComponent(revision))) return failure(404, "RevisionNotFound");
      if (api && verb === "revision") return Response.json({ id: name, sha: shaOf(dataset) });
      if (api && verb === "tree") return tree(name, dataset, url);
      return files(name, dataset, path.map(decodeURIComponent).join("/"), request);
    },
  });

  return {
    url: `http://127.0.0.1:${hub.port}`,
    port: hub.port ?? 0,
    storePort: store.port ?? 0,
    requests,
    /** Expires all addresses issued so far. */
    expire: () => {
      state.signature = `MARKED-signature-${requests.length}`;
    },
    /** Redirects through another port, such as a proxy's. */
    redirectTo: (port: number) => {
      state.storePort = port;
    },
    [Symbol.dispose]() {
      hub.stop(true);
      store.stop(true);
    },
  };
}

function ranged(bytes: Uint8Array, request: Request, headers: Record<string, string> = {}): Response {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "") ?? [];
  if (from === undefined) return new Response(bytes.slice(), { headers });
  const end = Math.min(Number(to) + 1, bytes.byteLength);
  const range = { "content-range": `bytes ${from}-${end - 1}/${bytes.byteLength}` };
  return new Response(bytes.slice(Number(from), end), { status: 206, headers: { ...headers, ...range } });
}
