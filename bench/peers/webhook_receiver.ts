/**
 * Receives webhooks: TLS on one port, its statistics on another. `/hook` answers at once, `/slow` after ten
 * milliseconds, `/tarpit` never. Prints both addresses. argv: certificate, key.
 */
const [cert, key] = process.argv.slice(2) as [string, string];
let latencies: number[] = []; // from an event's creation to its arrival, in milliseconds
let ids = new Set<string>();
let firstAt = 0;
let lastAt = 0;

const hooks = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  tls: { cert: Bun.file(cert), key: Bun.file(key) },
  idleTimeout: 60, // seconds: the tarpit must not end before the sender gives up
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    if (pathname === "/tarpit") return new Promise<Response>(() => {});
    const event = (await request.json()) as { created_at?: string };
    if (pathname === "/slow") await Bun.sleep(10);
    lastAt = performance.now();
    firstAt ||= lastAt;
    if (event.created_at) latencies.push(Date.now() - Date.parse(event.created_at));
    ids.add(`${request.headers.get("webhook-id")}${search}`);
    return new Response(null, { status: 204 });
  },
});
const seen = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    latencies.sort((a, b) => a - b);
    const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
    const report = { count: ids.size, seconds: (lastAt - firstAt) / 1000, p50Ms: at(0.5), p99Ms: at(0.99) };
    if (request.method === "DELETE") {
      latencies = [];
      ids = new Set();
      firstAt = 0;
    }
    return Response.json(report);
  },
});
console.log(`${hooks.url.origin} ${seen.url.origin}`);
