/** An object store on a free port. Files whose name begins with `slow` never end. */
export function startFakeStore() {
  let dripping = 0;
  const encoder = new TextEncoder();
  const small = encoder.encode('{"prompt":"a"}\n');
  const size = (key: string) => (key.startsWith("slow") ? 1_000_000 : small.length);
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const key = pathname.split("/").slice(2).join("/");
      if (searchParams.has("list-type")) {
        const prefix = searchParams.get("prefix") ?? "";
        return new Response(
          `<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>${prefix}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag><Size>${size(prefix)}</Size></Contents></ListBucketResult>`,
          { headers: { "content-type": "application/xml" } },
        );
      }
      const headers = { etag: '"x"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT" };
      if (request.method === "HEAD")
        return new Response(null, { headers: { ...headers, "content-length": String(size(key)) } });
      const range = /^bytes=(\d+)-(\d+)?/.exec(request.headers.get("range") ?? "");
      const from = Number(range?.[1] ?? 0);
      const to = Math.min(size(key) - 1, Number(range?.[2] ?? size(key) - 1));
      const partial = { ...headers, "content-range": `bytes ${from}-${to}/${size(key)}` };
      const status = range ? 206 : 200;
      if (!key.startsWith("slow")) return new Response(small.subarray(from, to + 1), { status, headers: partial });
      if (to - from < 100_000)
        return new Response(encoder.encode('{"prompt":"b"}\n'.repeat(7_000)).subarray(from, to + 1), {
          status,
          headers: partial,
        });
      dripping++;
      let timer: ReturnType<typeof setInterval>;
      const body = new ReadableStream({
        start(controller) {
          controller.enqueue(small);
          timer = setInterval(() => controller.enqueue(small), 500);
        },
        cancel() {
          dripping--;
          clearInterval(timer);
        },
      });
      return new Response(body, { status, headers: partial });
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, dripping: () => dripping, stop: () => server.stop(true) };
}
