/** The client as the conformance suite runs it: `bun conformance_client.ts URL` lists the tools and calls each of them. */
import { guardedOpenDial } from "../../src/platform/network/http_client.ts";
import { McpClient } from "../../src/sandbox/mcp/client.ts";
import { httpTransport } from "../../src/sandbox/mcp/http.ts";

const url = process.argv.at(-1) ?? "";
const signal = AbortSignal.timeout(60_000);
const dial = guardedOpenDial({
  allow_private: true,
  allow: ["localhost", "127.0.0.0/8", "::1/128"],
  ca_file: "",
  acme_ca_file: "",
} as never);
const client = await McpClient.open(httpTransport({ url, headers: {}, dial }), signal);
for (const { name } of await client.tools(signal)) console.log(await client.call(name, { a: 5, b: 3 }, signal));
await client.close();
