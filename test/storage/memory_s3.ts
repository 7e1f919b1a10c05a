/** A bucket in memory that knows PUT and GET, also of a range. */
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
      const found = objects.get(name);
      if (!found) return refusal(404, "NoSuchKey");
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.get("range") ?? "") ?? [];
      if (first === undefined) return new Response(new Uint8Array(found));
      if (Number(first) >= found.length) return refusal(416, "InvalidRange");
      const end = Math.min(Number(last), found.length - 1);
      const headers = { "content-range": `bytes ${first}-${end}/${found.length}` };
      return new Response(found.slice(Number(first), end + 1), { status: 206, headers });
    },
  });
  return { objects, url: server.url.origin, stop: () => server.stop(true) };
}

const refusal = (status: number, code: string) =>
  new Response(`<Error><Code>${code}</Code><Message>as requested</Message></Error>`, {
    status,
    headers: { "content-type": "application/xml" },
  });
