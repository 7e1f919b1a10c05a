// tier: all (checks of a release)
/** A real embedding model through the executable: imported from its folder, deployed, and called by a client. */
import { expect, test } from "bun:test";
import OpenAI from "openai";
import { startBinary } from "../binary.ts";
import { distance, HAS_MINILM, MINILM, MINILM_TEXTS } from "../minilm.ts";

test.if(HAS_MINILM)(
  "MiniLM is imported, deployed and gives the embeddings of transformers; it ranks, and refuses to chat",
  async () => {
    const server = await startBinary();
    try {
      for (const args of [
        ["models", "import", MINILM, "--name", "minilm"],
        ["deploy", "minilm", "--name", "minilm"],
      ]) {
        const { code, err } = await server.verk(args, { cwd: server.dir });
        expect([args, code, code === 0 ? "" : err]).toEqual([args, 0, ""]);
      }
      const client = new OpenAI({ apiKey: await server.apiKey(), baseURL: `${server.url}/v1`, maxRetries: 0 });
      const input = MINILM_TEXTS.map(({ text }) => text);
      const { data } = await client.embeddings.create({ model: "minilm", input }); // the client asks for base64
      for (const [i, { embedding }] of data.entries())
        expect(distance(MINILM_TEXTS[i]!.vector, embedding)).toBeLessThan(1e-3);
      const ranked = await server.call("POST", "/v1/rerank", {
        model: "minilm",
        query: "king",
        documents: ["tractor", "queen"],
      });
      expect(ranked.body.results.map(({ index }: { index: number }) => index)).toEqual([1, 0]);
      const messages = [{ role: "user" as const, content: "hi" }];
      const refused = await client.chat.completions.create({ model: "minilm", messages }).catch(String);
      expect(refused).toContain("400 model: this model generates no text. Send texts to /v1/embeddings");
    } finally {
      await server.kill("SIGTERM");
    }
  },
  60_000,
);
