type Json = Record<string, unknown>;
export type ChatRequest = {
  model: string;
  messages: { role: string; content: string }[];
  temperature?: number;
  max_tokens?: number;
};

/** A fake server with the routes that `verk deploy` and `verk chat` use. The tests choose its answers. */
export function fakeServer() {
  const state = {
    created: [] as Json[],
    requests: [] as ChatRequest[],
    moved: [] as string[],
    changed: [] as Json[],
    views: [] as Json[], // answers to the next reads of a deployment
    left: 0, // clients that disconnected during an answer
    answer: (controller: ReadableStreamDefaultController<string>, _request: ChatRequest): void | Promise<void> =>
      say(controller, "Hello", " there"),
  };
  const record = (more: Json = {}): Json => ({
    id: "dep_1",
    object: "deployment",
    name: "demo",
    status: "serving",
    model: "verk-tiny",
    endpoint_url: "/v1/deployments/dep_1/chat/completions",
    gpu: { type: "cpu", count: 1 },
    total_requests: 3,
    total_cost_usd: 0,
    cost_per_hour_usd: null,
    replicas: { desired: 1, ready: 1 },
    min_replicas: 1,
    max_replicas: 1,
    parked: false,
    load: { stage: "ready", progress: 1, reason: null },
    last_request_at: null,
    created_at: "2026-01-01T00:00:00.000Z",
    error: null,
    ...more,
  });
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      const path = `${request.method} ${new URL(request.url).pathname}`;
      if (request.headers.get("authorization") !== "Bearer vk_test")
        return failure(401, "invalid_api_key", "No such key");
      if (path === "POST /v1/deployments") {
        const body = (await request.json()) as Json;
        if (body["model"] === "nonsense") return failure(404, "resource_not_found", "No model nonsense");
        state.created.push(body);
        return Response.json(record({ status: "queued", name: body["name"] as string }), { status: 201 });
      }
      if (path === "GET /v1/deployments")
        return Response.json({
          object: "list",
          data: [
            record(),
            record({ id: "dep_0", name: "old", status: "failed" }),
            record({ id: "dep_x", name: "$(rm)", status: "stopped" }),
          ],
          has_more: false,
        });
      if (path === "GET /v1/deployments/dep_1") return Response.json(record(state.views.shift()));
      if (path === "PATCH /v1/deployments/dep_1") {
        const body = (await request.json()) as Json;
        if (body["model"] === "nonsense") return failure(404, "resource_not_found", "No model nonsense");
        state.changed.push(body);
        return Response.json(record(state.views.shift()));
      }
      if (path.endsWith("/stop") || path.endsWith("/start")) {
        state.moved.push(path);
        return Response.json({
          id: "dep_1",
          object: "deployment",
          status: path.endsWith("/stop") ? "stopped" : "queued",
        });
      }
      if (path !== "POST /v1/deployments/dep_1/chat/completions") return failure(404, "resource_not_found", "No");
      const chat = (await request.json()) as ChatRequest;
      state.requests.push(chat);
      const body = new ReadableStream<string>({
        start: (controller) => void state.answer(controller, chat),
        cancel: () => void state.left++,
      });
      return new Response(body.pipeThrough(new TextEncoderStream()), {
        headers: { "content-type": "text/event-stream" },
      });
    },
  });
  return { state, url: server.url.origin, stop: () => server.stop(true) };
}

const failure = (status: number, code: string, message: string) =>
  Response.json({ error: { type: "x", code, message, param: null } }, { status });

export const chunk = (delta: Json, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

export function say(controller: ReadableStreamDefaultController<string>, ...pieces: string[]) {
  controller.enqueue(chunk({ role: "assistant", content: "" }));
  for (const content of pieces) controller.enqueue(chunk({ content }));
  controller.enqueue(chunk({}, "stop"));
  controller.enqueue("data: [DONE]\n\n");
  controller.close();
}
