export type Received = { method: string; path: string; headers: Headers; body: string };
type Reply = (request: Received, count: number) => Response | Promise<Response>;

/**
 * The other end of an outbound call: a real server on a free port of this machine that keeps what it got. `reply`
 * decides each answer from the request and how many came before it; by default all is well.
 */
export function startReceiver(reply: Reply = () => new Response(null, { status: 204 })) {
  const received: Received[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const item = {
        method: request.method,
        path: pathname + search,
        headers: request.headers,
        body: await request.text(),
      };
      received.push(item);
      return reply(item, received.length - 1);
    },
  });
  return { url: server.url.origin, port: server.port, received, stop: () => server.stop(true) };
}
