// tier: all (installs clients, starts the executable, 15 s)
/** Exporters of spans from npm, unchanged, against the executable, and LangChain's client of Anthropic. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { clientOf, installAgents } from "../agents/agents.ts";
import { until } from "../harness.ts";
import { NotAvailable } from "../servers/process.ts";
import { startServing } from "./served.ts";

const unavailable = await installAgents().then(
  () => undefined,
  (error: unknown) => {
    if (error instanceof NotAvailable) return error.message;
    throw error;
  },
);
const client = (title: string, run: () => Promise<void>) =>
  test.skipIf(unavailable !== undefined)(unavailable === undefined ? title : `${title} (${unavailable})`, run, 60_000);

let server: Awaited<ReturnType<typeof startServing>>;
beforeAll(async () => {
  server = await startServing({});
}, 120_000);
afterAll(async () => await server?.stop());

const traceOf = (model: string) =>
  until(`the trace of ${model}`, async () =>
    (await server.get("/v1/traces")).data.find((trace: { model: string }) => trace.model === model),
  );

for (const compression of ["none", "gzip"])
  client(`@opentelemetry/exporter-trace-otlp-proto with compression ${compression}`, async () => {
    const { OTLPTraceExporter } = await clientOf("@opentelemetry/exporter-trace-otlp-proto");
    const { BasicTracerProvider, SimpleSpanProcessor } = await clientOf("@opentelemetry/sdk-trace-base");
    const model = `proto-${compression}`;
    const headers = { authorization: `Bearer ${server.key}` };
    const exporter = new OTLPTraceExporter({ url: `${server.url}/v1/traces`, headers, compression });
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    const span = provider.getTracer("test").startSpan("chat");
    span.setAttributes({
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": model,
      "gen_ai.usage.input_tokens": 12,
      "gen_ai.input.messages": JSON.stringify([{ role: "user", content: "hi" }]),
    });
    span.end();
    await provider.forceFlush();
    expect(await traceOf(model)).toMatchObject({ source: "otlp", prompt_tokens: 12, status: 200 });
    await provider.shutdown();
  });

client("@langfuse/otel with a key of Verk as its secret key", async () => {
  const { LangfuseSpanProcessor } = await clientOf("@langfuse/otel");
  const { BasicTracerProvider } = await clientOf("@opentelemetry/sdk-trace-base");
  const { setLangfuseTracerProvider, startObservation } = await clientOf("@langfuse/tracing");
  const keys = { publicKey: "pk-lf-verk", secretKey: server.key };
  const processor = new LangfuseSpanProcessor({ ...keys, baseUrl: server.url, exportMode: "immediate" });
  const provider = new BasicTracerProvider({ spanProcessors: [processor] });
  setLangfuseTracerProvider(provider);
  const input = [{ role: "user", content: "What is rain?" }];
  const facts = { model: "by-langfuse", input, usageDetails: { input: 3, output: 4 } };
  const generation = startObservation("ask", facts, { asType: "generation" });
  generation.update({ output: "Water." }).end();
  await processor.forceFlush();
  const { id } = await traceOf("by-langfuse");
  expect(await server.get(`/v1/traces/${id}`)).toMatchObject({
    prompt_tokens: 3,
    completion_tokens: 4,
    input,
    output: "Water.",
  });
  await provider.shutdown();
});

client("@langchain/anthropic: a structured output by jsonSchema", async () => {
  const { ChatAnthropic } = await clientOf("@langchain/anthropic");
  await server.deploy({ model: "verk-tiny", name: "demo" });
  const model = new ChatAnthropic({ model: "demo", apiKey: server.key, anthropicApiUrl: server.url, maxTokens: 64 });
  const schema = {
    type: "object",
    properties: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
    required: ["city"],
  };
  const structured = model.withStructuredOutput({ title: "place", ...schema }, { method: "jsonSchema" });
  expect(await structured.invoke("Name a city.")).toEqual({ city: expect.any(String) }); // its SDK sends no enum
});
