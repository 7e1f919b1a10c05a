/** A bucket in memory that knows PUT, GET (also of a range), HEAD, DELETE and the list of a prefix. */
export function memoryS3() {
  const objects = new Map<string, Uint8Array>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const name = decodeURIComponent(new URL(request.url).pathname);
      if (request.method === "PUT") {
        objects.set(name, new Uint8Array(await request.arrayBuffer()));
        return new Response(null, { headers: { etag: '"x"' } });
      }
      if (request.method === "DELETE") {
        objects.delete(name);
        return new Response(null, { status: 204 });
      }
      const { searchParams } = new URL(request.url);
      if (searchParams.has("list-type")) return listing(objects, name, searchParams.get("prefix") ?? "");
      const found = objects.get(name);
      if (!found) return refusal(404, "NoSuchKey");
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "") ?? [];
      const dated = { "last-modified": new Date().toUTCString() };
      if (first === undefined) return new Response(new Uint8Array(found), { headers: dated });
      if (Number(first) >= found.length) return refusal(416, "InvalidRange");
      const end = Math.min(Number(last), found.length - 1);
      const headers = { "content-range": `bytes ${first}-${end}/${found.length}` };
      return new Response(found.slice(Number(first), end + 1), { status: 206, headers });
    },
  });
  return { objects, url: server.url.origin, stop: () => server.stop(true) };
}

/** All in one page. `bucket`: its path. */
function listing(objects: ReadonlyMap<string, Uint8Array>, bucket: string, prefix: string): Response {
  const root = bucket.endsWith("/") ? bucket : `${bucket}/`;
  const keys = [...objects.keys()].filter((name) => name.startsWith(root + prefix)).sort();
  const rows = keys.map((name) => {
    const key = encodeURIComponent(name.slice(root.length));
    return `<Contents><Key>${key}</Key><Size>${objects.get(name)?.length}</Size><LastModified>${new Date().toISOString()}</LastModified></Contents>`;
  });
  const body = `<ListBucketResult><IsTruncated>false</IsTruncated>${rows.join("")}</ListBucketResult>`;
  return new Response(body, { headers: { "content-type": "application/xml" } });
}

const refusal = (status: number, code: string) =>
  new Response(`<Error><Code>${code}</Code><Message>as requested</Message></Error>`, {
    status,
    headers: { "content-type": "application/xml" },
  });
