/** Outside servers on loopback, in a process of their own: an object store with a slow and a quick object, and receivers that hang. */
const LINE = `${JSON.stringify({ prompt: "1+1" })}\n`;
const SLOW_LINES = 10_000;

function object(path: string, method: string): Response {
  const lines = path.startsWith("/slow/") ? SLOW_LINES : 1;
  const headers = {
    "content-length": String(lines * LINE.length),
    etag: '"one"',
    "content-type": "application/octet-stream",
    "last-modified": new Date(0).toUTCString(),
  };
  if (method === "HEAD") return new Response(null, { headers });
  if (lines === 1) return new Response(LINE, { headers });
  const drip = new ReadableStream({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode(LINE));
      await Bun.sleep(2_000);
    },
  });
  return new Response(drip, { headers });
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname.startsWith("/hang/")) await new Promise(() => {});
    return object(pathname, request.method);
  },
});
console.log(`http://127.0.0.1:${server.port}`);
